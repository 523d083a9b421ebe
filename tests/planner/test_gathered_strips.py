"""Strips of elements that two loops scatter into, for threads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright.ir.program import Program
from loopwright.ir.text import schedule_text
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load import load_machine
from loopwright.planner.draft import Draft
from loopwright.planner.generic import default_plan
from loopwright.planner.loop_plans.affine_parallel import mark_parallel
from loopwright.transform.loop_marks import Parallel, ParallelChunks
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.schedule_legality import initial_schedule
from oracle import assert_same
from programs import Bound, Do, For, program

TWO = replace(load_machine("neoverse-n1"), cores=2)


def scatter(place: str, stop: Bound = "m") -> Program:
    arrays = {"x": "in float64 [n]", "h": "in float64 [m]", "y": "inout float64 [3 * n + m]"}
    body = Do(f"y[{place}]", f"y[{place}] + x[i] * h[j]")
    return program("scatter", arrays, For("i", 0, "n", For("j", 0, stop, body)), params="n m")


@pytest.mark.drawn(2)
@pytest.mark.parametrize("place", ["i + j", "2 * i + j", "n + m - 1 - i - j", "n + i - j"])
def test_elements_are_gathered_in_strips(place: str) -> None:
    source = scatter(place)
    plan, schedule = default_plan(source, TWO, parallel=True)
    assert [step.loop for step in plan if isinstance(step, Parallel | ParallelChunks)] == ["p_t"]
    nest = lower_schedule(schedule)
    for n, m, threads in ((0, 3, 2), (5, 1, 2), (40, 9, 2), (2100, 3, 3)):
        assert_same(source, nest, {"n": n, "m": min(m, n)}, threads=threads)


@pytest.mark.parametrize("place", ["j", "i"])
def test_other_elements_are_not(place: str) -> None:
    plan, _ = default_plan(scatter(place), TWO, parallel=True)
    assert "p_t" not in {step.loop for step in plan if isinstance(step, Parallel)}


def test_short_loops_inside_are_left_to_others() -> None:
    """Strips of elements would only cut them: threads meet seldom by waves, too."""
    draft = Draft(initial_schedule(scatter("i + j", 4)))
    mark_parallel(draft, TWO)
    assert "p_t" not in {step.loop for step in draft.steps if isinstance(step, Parallel)}


IMAGE = {"x": "in float64 [n, w]", "h": "in float64 [m, m]", "y": "inout float64 [n + m, w + m]"}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("taps_along", [7, "m", 15])
def test_rows_are_gathered_in_strips_of_a_few(taps_along: Bound) -> None:
    """Of a picture too, whose rows L1 holds few of, also for few taps."""
    body = Do("y[i + p, j + q]", "y[i + p, j + q] + x[i, j] * h[p, q]")
    taps = For("p", 0, taps_along, For("q", 0, taps_along, body))
    source = program("spread", IMAGE, For("i", 0, "n", For("j", 0, "w", taps)), params="n w m")
    plan, schedule = default_plan(source, TWO, parallel=True)
    (loop,) = (step.loop for step in plan if isinstance(step, Parallel | ParallelChunks))
    assert loop.startswith("p_t")
    assert "mod 16" in schedule_text(schedule)
    nest = lower_schedule(schedule)
    # Three strips of rows are written in the end; few columns are enough for that.
    for n, w, m, threads in ((0, 3, 0, 2), (5, 4, 1, 2), (13, 7, 3, 2), (29, 2, 9, 3)):
        taps = m if taps_along == "m" else 15
        assert_same(source, nest, {"n": n, "w": w, "m": taps}, threads)


def test_few_taps_have_no_copies_of_all_elements() -> None:
    """Integers may gather in any order: blocks of i would each have a copy of the whole of y."""
    arrays = {"x": "in int32 [n]", "h": "in int32 [5]", "y": "inout int32 [n + 5]"}
    body = Do("y[i + j]", "y[i + j] + x[i] * h[j]")
    source = program("taps", arrays, For("i", 0, "n", For("j", 0, 5, body)), params="n")
    plan, _ = default_plan(source, TWO, parallel=True)
    assert not any(isinstance(step, PartialSums) for step in plan)


def test_elements_that_no_iteration_moves_have_copies() -> None:
    arrays = {"x": "in int32 [n, 5]", "y": "inout int32 [5]"}
    body = Do("y[j]", "y[j] + x[i, j] * x[i, j]")
    source = program("columns", arrays, For("i", 0, "n", For("j", 0, 5, body)), params="n")
    plan, _ = default_plan(source, TWO, parallel=True)
    assert any(isinstance(step, PartialSums) for step in plan)
