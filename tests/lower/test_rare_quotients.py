"""Branches around quotients that sums under a condition need: the same results, nothing else."""

from __future__ import annotations

import re

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.text import nest_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.rare_quotients import branch_around_quotients
from loopwright.transform.plan import initial_schedule

LOOP = "for (int i = 0; i < n; i++) {{ double r = a[i] * b[i]; {} }}"
TAKEN = {
    "a quotient": LOOP.format("if (r < 0.5) { double f = 1.0 / r; s[0] += f * a[i]; }"),
    "two sums": LOOP.format(
        "if (r < 0.5) { double f = 1.0 / (r * r); s[0] += f * a[i]; s[1] -= f * b[i]; }"
    ),
    "through others": LOOP.format(
        "if (r < 0.5) { double q = sqrt(r); double f = a[i] / q; s[0] += f * f; }"
    ),
    "changed": LOOP.format(
        "if (r < 0.5) { double f = a[i] / r; f = f > 2.0 ? 2.0 : f; s[0] += f * a[i]; }"
    ),
    "in the sum itself": LOOP.format("if (r < 0.5) s[0] += a[i] * (b[i] / r);"),
}
KEPT = {
    "no quotient": LOOP.format("if (r < 0.5) s[0] += r * a[i];"),
    "elements of their own": LOOP.format("if (r < 0.5) c[i] += a[i] * (b[i] / r);"),
    "read elsewhere": LOOP.format("double f = 1.0 / r; if (r < 0.5) s[0] += f * a[i]; c[i] = f;"),
    "changed from before": "double f = 1.0; "
    + LOOP.format("f = f * 0.5 + a[i] / r; if (r < 0.5) s[0] += f * a[i];"),
    "of before": "double f = 1.0; "
    + LOOP.format("if (r < 0.5) s[0] += f * a[i]; f = 1.0 / r; c[i] = r;"),
}


def nest_of(body: str) -> LoopNest:
    arrays = "double a[n], double b[n], double c[n], double s[2]"
    text = (
        f"#include <math.h>\nvoid f(int n, {arrays}) {{\n#pragma scop\n{body}\n#pragma endscop\n}}"
    )
    (program,) = lw.parse_c(text)
    return lower_schedule(initial_schedule(program))


def results(nest: LoopNest, n: int) -> list[np.ndarray]:
    random = np.random.default_rng(n)
    given = {name: random.random(n) + 0.25 for name in "abc"} | {"s": random.random(2)}
    arrays = {buffer.name: given[buffer.name] for buffer in nest.buffers}
    interpret_nest(nest, arrays, {name: n if name == "n" else 1 for name in nest.scalars})
    return list(arrays.values())


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("n", [0, 1, 37])
def test_branches_have_the_same_results(name: str, n: int) -> None:
    nest = nest_of(TAKEN[name])
    found = branch_around_quotients(nest)
    check_nest(found)
    before, branch = re.split(r"\n +if .*:\n", nest_text(found))
    assert "/" in branch
    assert "/" not in before.split("for i")[1]
    for x, y in zip(results(nest, n), results(found, n), strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize("name", KEPT)
def test_loops_that_stay(name: str) -> None:
    nest = nest_of(KEPT[name])
    assert branch_around_quotients(nest) == nest


def test_machine_code_has_the_bits_of_the_source() -> None:
    text = f"""#include <math.h>
void f(int n, double a[n], double b[n], double s[2]) {{
#pragma scop
{TAKEN["two sums"]}
#pragma endscop
}}"""
    random = np.random.default_rng(1)
    a, b = random.random(1001) + 0.25, random.random(1001) + 0.25
    given, expected = np.zeros(2), np.zeros(2)
    lw.compile(text)(1001, a, b, given)
    nest = nest_of(TAKEN["two sums"])
    arrays = {x.name: {"a": a, "b": b, "s": expected}[x.name] for x in nest.buffers}
    interpret_nest(nest, arrays, {name: 1001 if name == "n" else 1 for name in nest.scalars})
    assert np.array_equal(given, expected)
