"""Functions computed in strips: the same results, and only where nothing stands against it."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.text import nest_text
from loopwright.lower.functions_apart import functions_apart
from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import initial_schedule

KNOWN = [("exp", FLOAT64)]
SUM = "for (int i = 0; i < n; i++) s[0] += exp(a[i]);"
TWO = "for (int i = 0; i < n; i++) { s[0] += exp(a[i]) * b[i]; s[1] -= exp(b[i]) + exp(a[i]); }"
INSIDE = """for (int i = 0; i < n; i++) {
    double t = 0;
    for (int j = 0; j < 3; j++) t += a[i] * b[j];
    s[0] = s[0] * 0.5 + exp(t);
  }"""
NESTED = "for (int i = 0; i < n; i++) s[0] += exp(exp(a[i]));"
SHARED = """for (int i = 0; i < n; i++) {
    double t = a[i] * b[0];
    s[0] += exp(t) * b[i];
    s[1] -= exp(t + 1.0) / (1.0 + exp(t));
  }"""
TAKEN = {"sum": SUM, "two": TWO, "inside": INSIDE, "nested": NESTED, "shared": SHARED}
KEPT = {
    "recurrence": "for (int i = 1; i < n; i++) a[i] = exp(a[i - 1]);",
    "argument of the sum": "for (int i = 0; i < n; i++) s[0] += exp(s[0] - a[i]);",
    "guarded": "for (int i = 0; i < n; i++) s[0] += i % 3 ? exp(a[i]) : 0.0;",
    "one value": "for (int i = 0; i < n; i++) s[0] += a[i] * exp(b[0]);",
    "few": "for (int i = 0; i < 7; i++) s[0] += exp(a[i]);",
    "argument used again": """for (int i = 1; i < n; i++) {
    double t = a[i - 1] + b[i];
    a[i] = exp(t);
  }""",
    "other function": "for (int i = 0; i < n; i++) s[0] += log(a[i] + 1.0);",
}


def nest_of(body: str) -> LoopNest:
    text = f"void f(int n, double a[n], double b[n], double s[2]) {{\n#pragma scop\n{body}\n"
    (program,) = lw.parse_c(text + "#pragma endscop\n}\n")
    return lower_schedule(initial_schedule(program))


def results(nest: LoopNest, n: int) -> list[np.ndarray]:
    random = np.random.default_rng(n)
    given = {"a": random.random(n), "b": random.random(n), "s": random.random(2)}
    arrays = {buffer.name: given[buffer.name] for buffer in nest.buffers}
    interpret_nest(nest, arrays, {name: n if name == "n" else 1 for name in nest.scalars})
    return list(arrays.values())


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("n", [3, 63, 64, 65, 131])
def test_strips_have_the_same_results(name: str, n: int) -> None:
    nest = nest_of(TAKEN[name])
    found = functions_apart(nest, KNOWN)
    check_nest(found)
    assert "simd for" in nest_text(found)
    for x, y in zip(results(nest, n), results(found, n), strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize("name", KEPT)
def test_loops_that_stay(name: str) -> None:
    nest = nest_of(KEPT[name])
    assert functions_apart(nest, KNOWN) == nest


def test_without_functions_in_vectors_nothing_changes() -> None:
    nest = nest_of(SUM)
    assert functions_apart(nest, []) is nest


def test_two_calls_share_a_strip() -> None:
    text = nest_text(functions_apart(nest_of(TWO), KNOWN))
    assert text.count("simd for") == 1
    assert text.count("exp(") == 2  # that of a[i] once
