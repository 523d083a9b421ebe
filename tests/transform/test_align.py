"""Aligned stores: where loops are cut, what is left alone, what is refused, what they compute."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.evaluate import evaluate
from loopwright.ir.loops import For as Loop
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load import load_machine
from loopwright.planner.loop_plans.stencils import plan_alignment
from loopwright.transform.loop_marks import Align, Simd
from loopwright.transform.plan import apply_plan
from loopwright.transform.skew import Skew
from loopwright.transform.step import Step
from oracle import assert_same
from programs import Do, For, program

ROWS = "inout float64 [n, n]"
NEAR = "A[i, j - 1] + A[i, j + 1]"


def rows(value: str, first: int | str = 1, array: str = ROWS) -> Program:
    body = For("i", 0, "n", For("j", first, "n - 1", Do("B[i, j]", value)))
    return program("rows", {"A": array, "B": array}, body)


def text(source: Program, *steps: Step) -> str:
    return stmt_text(lower_schedule(apply_plan(source, steps)).body)


def test_golden() -> None:
    fixed = "inout float64 [64, 64]"
    assert text(rows(NEAR, array=fixed), Simd("j"), Align("j", 4)) == (
        "for i in range(n):\n"
        "    for j in range(1, min(4, n - 1)):\n"
        "        B[i, j] = A[i, j - 1] + A[i, j + 1]\n"
        "    simd for j in range(min(4, n - 1), n - 1):\n"
        "        B[i, j] = A[i, j - 1] + A[i, j + 1]"
    )


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
    ("steps", "reason"),
    [
        ((Align("j", 2),), "is not simd"),
        ((Simd("j"), Align("j", 2), Align("j", 2)), "aligned already"),
        ((Simd("j"), Align("q", 2)), "no loop 'q'"),
    ],
)
def test_refused(steps: Sequence[Step], reason: str) -> None:
    with pytest.raises(IllegalStep, match=reason):
        apply_plan(rows(NEAR), steps)


def test_one_lane() -> None:
    with pytest.raises(UsageError, match="two or more lanes"):
        Align("j", 1)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 12, 17])
def test_meaning(n: int) -> None:
    source = rows(NEAR)
    nest = lower_schedule(apply_plan(source, [Simd("j"), Align("j", 4)]))
    assert_same(source, nest, {"n": n})


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


def test_copies_of_rows() -> None:
    """Of rows side by side the first one counts."""
    passes = program(
        "passes",
        {"A": ROWS, "B": ROWS},
        For(
            "t",
            0,
            "m",
            For("i", 1, "n - 1", For("j", 1, "n - 1", Do("B[i, j]", NEAR))),
            For("k", 1, "n - 1", For("l", 1, "n - 1", Do("A[k, l]", "B[k - 1, l] + B[k, l + 1]"))),
        ),
        params="n m",
    )
    steps = [Skew("t", 2, (0, 1), (1, 1), 4, 2), Simd("j"), Align("j", 2), Simd("l")]
    nest = lower_schedule(apply_plan(passes, steps))
    for n, m in ((1, 1), (5, 6), (9, 3)):
        assert_same(passes, nest, {"n": n, "m": m})
