"""Branches that are the same in all iterations of a loop of vectors stand before it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import loopwright as lw
from loopwright import machine, parse_c
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.unswitch_loops import unswitch_loops
from loopwright.planner.plan_choice import choose_plan

STAGES = """
void f(int n, double a[n], double b[n], double c[n]) {
#pragma scop
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < n; i++) c[i] = a[i] * a[n - 1 - i];
        for (int i = 0; i < n; i++) {
            double p = a[i] * 0.5 - c[n - 1 - i];
            if (t == 0) a[i] = p;
            else if (t == 1) a[i] = 0.25 * b[i] + p;
            else b[i] = b[i] * 2.0 + p;
        }
    }
#pragma endscop
}
"""


BY_STAGE = "if (t == 0) a[i] = p;\n            else if (t == 1)"


def nest_of(text: str) -> LoopNest:
    (program,) = parse_c(text)
    return lower_schedule(choose_plan(program, machine("skylake-avx512"), 1).schedule)


def results(nest: LoopNest, n: int) -> list[np.ndarray]:
    random = np.random.default_rng(n)
    arrays = {buffer.name: random.integers(-9, 9, n).astype(float) for buffer in nest.buffers}
    interpret_nest(nest, arrays, {name: n if name == "n" else 1 for name in nest.scalars})
    return list(arrays.values())


@pytest.mark.parametrize("n", [0, 1, 37])
def test_branches_stand_before_the_loop(n: int) -> None:
    nest = nest_of(STAGES)
    found = unswitch_loops(nest)
    check_nest(found)
    text = stmt_text(found.body)
    assert len(re.findall("simd for", text)) == 4
    for loop in text.split("simd for")[2:]:
        assert "p[] = " in loop
        assert not re.search(r"p\[\] = .*\n +if ", loop)
    for x, y in zip(results(nest, n), results(found, n), strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        pytest.param("i < n; i++) {", "i < 16; i++) {", id="few iterations"),
        pytest.param(
            "if (t == 0) a[i] = p;\n            else if (t == 1)", "if (p > 0)", id="data"
        ),
        pytest.param("b[i] = b[i] * 2.0 + p", "b[0] = b[i] * 2.0 + p", id="no vectors"),
    ],
)
def test_loops_that_stay(was: str, now: str) -> None:
    nest = nest_of(STAGES.replace(was, now))
    assert unswitch_loops(nest) == nest


def test_machine_code_has_the_bits_of_the_source() -> None:
    planned = lw.compile(STAGES, threads=1)
    in_order = lw.compile(STAGES, "c", threads=1, plan=[lw.Plan(())])
    for n in (0, 1, 31, 101):
        random = np.random.default_rng(n)
        given = [random.integers(-9, 9, n).astype(float) for _ in range(3)]
        ours, expected = ([x.copy() for x in given] for _ in range(2))
        planned(n, *ours)
        in_order(n, *expected)
        for x, y in zip(ours, expected, strict=True):
            np.testing.assert_array_equal(x, y)
