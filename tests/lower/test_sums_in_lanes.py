"""Sums under a condition with terms in lanes: the same bits, and which loops stay."""

from __future__ import annotations

import re

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT32, FLOAT64
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.text import nest_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.plain_reductions import plain_reductions
from loopwright.lower.values.sums_in_lanes import sums_in_lanes
from loopwright.transform.plan import initial_schedule

SIZES = (0, 1, 15, 16, 17, 40, 65)
BEGIN = "double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) {{ double r = a[i] * b[i]; {} }}"
END = " s[0] = t; s[1] = u;"
TAKEN = {
    "a term": "if (r < 0.5) { double f = 1.0 / r; t += f - a[i]; }",
    "a product": "if (r < 0.5) { double f = 1.0 / r; t += f * a[i]; }",
    "less": "if (r < 0.5) { double f = 1.0 / r; t -= f * a[i]; }",
    "less a term": "if (r < 0.5) t -= sqrt(r) / (a[i] + 0.1);",
    "two sums": "if (r < 0.5) { double f = 1.0 / (r * r); t += f * a[i]; u -= f + b[i]; }",
    "two conditions in one": "if (r < 0.5 && a[i] > 0.3) { double f = sqrt(r); t += f / b[i]; }",
    "beyond": "if (r < 0.5) t += sqrt(r - 0.2) / r;",
}
KEPT = {
    "no quotient": "if (r < 0.5) t += r * a[i];",
    "no condition": "t += 1.0 / r;",
    "a quotient for all": "double f = 1.0 / r; if (f > 2.0) t += f * a[i];",
    "an element": "if (r < 0.5) { double f = 1.0 / r; t += f; c[i] = f; }",
    "one sum by the other": "if (r < 0.5) { t += 1.0 / r; u += t; }",
    "a product that rounds by itself": "t += r < 0.5 ? a[i] * (1.0 / r) : -0.0;",
    "a term of the sum": "if (r < 0.5) t += 1.0 / (1.0 + t + r);",
    "a condition on the sum": "if (t < 3.0) t += 1.0 / r;",
    "a condition on a sum": "if (u < 3.0) { t += 1.0 / r; u += r; }",
    "two conditions": "if (r < 0.5) t += 1.0 / r; if (r < 0.2) u += 1.0 / r;",
    "no sum": "if (r < 0.5) t = 1.0 / r;",
    "a call": "if (r < 0.5) t += erf(r) / r;",
}


def nest_of(body: str, kind: str = "double", *, reassoc: bool = False) -> LoopNest:
    arrays = f"{kind} a[n], {kind} b[n], {kind} c[n], {kind} s[2]"
    text = BEGIN.format(body) + END
    if kind == "float":
        text = re.sub(r"(\d\.\d)", r"\1f", text.replace("double", kind).replace("sqrt", "sqrtf"))
    (program,) = lw.parse_c(
        f"#include <math.h>\nvoid f(int n, {arrays}) {{\n#pragma scop\n{text}\n#pragma endscop\n}}",
        reassoc=reassoc,
    )
    return lower_schedule(initial_schedule(program))


def results(nest: LoopNest, n: int, dtype: type) -> list[np.ndarray]:
    random = np.random.default_rng(n)
    given = {name: (random.random(n) + 0.05).astype(dtype) for name in "abc"}
    given["s"] = np.array([-0.0, 0.0], dtype)
    arrays = {buffer.name: given[buffer.name] for buffer in nest.buffers}
    interpret_nest(nest, arrays, {name: n if name == "n" else 1 for name in nest.scalars})
    return list(arrays.values())


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize(("kind", "dtype"), [("double", np.float64), ("float", np.float32)])
def test_the_same_bits(name: str, kind: str, dtype: type) -> None:
    """Also where terms of lanes that do not count are no numbers, and of sums that are -0.0."""
    nest = nest_of(TAKEN[name], kind)
    for before in (nest, plain_reductions(nest)):
        found = sums_in_lanes(before, (FLOAT32, FLOAT64))
        check_nest(found)
        assert "vector for i_v in range(16)" in nest_text(found)
        with np.errstate(all="ignore"):
            for n in SIZES:
                pairs = zip(results(nest, n, dtype), results(found, n, dtype), strict=True)
                assert all(x.tobytes() == y.tobytes() for x, y in pairs)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", TAKEN)
def test_machine_code(name: str) -> None:
    text = BEGIN.format(TAKEN[name]) + END
    code = lw.compile(
        f"#include <math.h>\nvoid f(int n, double a[n], double b[n], double s[2]) {{\n"
        f"#pragma scop\n{text}\n#pragma endscop\n}}"
    )
    random = np.random.default_rng(3)
    for n in SIZES:
        a, b = random.random((2, n)) + 0.05
        found, wanted = np.zeros(2), np.zeros(2)
        code(n, a, b, found)
        with lw.options.override(interpret=True):
            code(n, a, b, wanted)
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", KEPT)
def test_loops_that_stay(name: str) -> None:
    nest = nest_of(KEPT[name])
    assert sums_in_lanes(nest, (FLOAT32, FLOAT64)) is nest


def test_other_types_and_sums_that_may_be_regrouped_stay() -> None:
    nest = nest_of(TAKEN["a term"])
    assert sums_in_lanes(nest, ()) is nest
    assert sums_in_lanes(nest, (FLOAT32,)) is nest
    regrouped = nest_of(TAKEN["a term"], reassoc=True)
    assert sums_in_lanes(regrouped, (FLOAT64,)) is regrouped
