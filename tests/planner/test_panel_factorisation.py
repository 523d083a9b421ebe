"""Panels of factorisations: the diagonal block in order, rows and columns beyond it for threads."""

from __future__ import annotations

import pytest

from loopwright.ir.loops import Mark
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.split_panels import split_panel
from loopwright.transform.index_set_splitting import SplitIndexSet
from loopwright.transform.plan import apply_plan
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine
from oracle import assert_same
from programs import Do, For, program


def factor() -> Program:
    """Gaussian elimination, the factors of a row apart."""
    arrays = {"A": "inout float64 [n, n]"}
    body = For(
        "i", "k + 1", "n", For("j", "k + 1", "n", Do("A[i, j]", "A[i, j] - A[i, k] * A[k, j]"))
    )
    return program("factor", arrays, For("k", 0, "n", body))


def chained() -> Program:
    """Rows need the one above, columns the one to the left: nothing is free."""
    arrays = {"A": "inout float64 [n, n]"}
    inner = For("j", "k + 1", "n", Do("A[i, j]", "A[i - 1, j] + A[i, j - 1] + A[k, k]"))
    return program("chained", arrays, For("k", 0, "n", For("i", "k + 1", "n", inner)))


def panel(source: Program, shares: int) -> list[Step]:
    draft = Draft(apply_plan(source, [StripMine("k", 4)]))
    split_panel(draft, ("k", "i", "j"), 4, shares)
    schedule = draft.schedule
    nest = lower_schedule(schedule)
    for n in (0, 1, 5, 11):
        assert_same(source, nest, {"n": n}, threads=2 if shares > 1 else 1)
    marked = [mark for _, mark in schedule.marks]
    assert marked == [Mark.PARALLEL] * (2 * (shares > 1) if draft.steps else 0)
    return draft.steps


@pytest.mark.parametrize("shares", [1, 2])
def test_rows_and_columns_are_parted(shares: int) -> None:
    steps = panel(factor(), shares)
    parted = [step.loop for step in steps if isinstance(step, SplitIndexSet)]
    assert parted == ["i", "j"]


@pytest.mark.parametrize("shares", [1, 2])
def test_nothing_changes_where_it_is_not_legal(shares: int) -> None:
    assert panel(chained(), shares) == []


def test_nests_without_a_strip_are_left_alone() -> None:
    draft = Draft(initial_schedule(factor()))
    split_panel(draft, ("k", "i", "j"), 4, 2)
    assert not draft.steps
