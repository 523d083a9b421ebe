"""Aligned stores: where loops are cut, what is left alone, what is refused, what they compute."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.ir.evaluate import evaluate
from loopwright.ir.loops import For as Loop
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load import load_machine
from loopwright.planner.loop_plans.stencils import plan_alignment
from loopwright.transform.loop_marks import Align, Simd
from loopwright.transform.plan import apply_plan
from loopwright.transform.step import Step
from programs import Do, For, program

ROWS = "inout float64 [n, n]"
NEAR = "A[i, j - 1] + A[i, j + 1]"


def rows(value: str, first: int | str = 1, array: str = ROWS) -> Program:
    body = For("i", 0, "n", For("j", first, "n - 1", Do("B[i, j]", value)))
    return program("rows", {"A": array, "B": array}, body)


@settings(max_examples=some(40), deadline=None)
@given(st.integers(0, 23), st.integers(1, 23), st.sampled_from((2, 3, 4, 8)))
def test_vectors_begin_whole(i: int, n: int, lanes: int) -> None:
    """The simd loop starts at a multiple of the lanes, less than that after the loop's start."""
    nest = lower_schedule(apply_plan(rows(NEAR), [Simd("j"), Align("j", lanes)]))
    first = next(
        s for s in statements(nest.body) if isinstance(s, Loop) and s.mark is Mark.SIMD
    ).start
    place = int(evaluate(first, {"n": n, "i": i}))
    assert place == min(max(n - 1, 0), next(j for j in range(1, 99) if (i * n + j) % lanes == 0))


@pytest.mark.parametrize(
    ("source", "steps"),
    [
        (rows(NEAR), (Align("j", 2),)),
        # Every access lies at whole vectors where one does; the first iteration is not there.
        (rows("2.0 * A[i, j]"), (Align("j", 2),)),
        (rows("A[i - i, j] + A[i, j]"), (Align("j", 2),)),
    ],
    ids=["neighbours", "itself", "rows"],
)
def test_planned(source: Program, steps: tuple[Step, ...]) -> None:
    machine = load_machine("neoverse-n1")
    schedule = apply_plan(source, [Simd("j")])
    assert plan_alignment(schedule, machine, parallel=False) == steps


def test_loops_that_are_not_simd_are_left_alone() -> None:
    schedule = apply_plan(rows(NEAR), [])
    assert plan_alignment(schedule, load_machine("neoverse-n1"), parallel=False) == ()
