"""From how much work on threads share loops inside serial ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright.ir.program import Program
from loopwright.machines.load import load_machine
from loopwright.planner.generic import default_plan
from loopwright.transform.loop_marks import ShareFrom
from programs import Bound, Do, For, program

MACHINE = load_machine("neoverse-n1")
TWO = replace(MACHINE, cores=2)
ROWS = program(
    "rows",
    {"A": "inout float64 [n, n]"},
    For("i", 0, "n", For("j", 0, "n", Do("A[i, j]", "2 * A[i, j]"))),
)


def sweeps(extent: Bound = "n") -> Program:
    rows = {"u": f"inout float64 [{extent}]", "v": f"inout float64 [{extent}]"}
    there = For("i", 1, extent, Do("v[i]", "u[i - 1]"))
    back = For("j", 1, extent, Do("u[j]", "2 * v[j]"))
    return program("sweeps", rows, For("t", 0, "steps", there, back), params="n steps")


def least(source: Program, cores: int, *, parallel: bool = True) -> list[int]:
    plan, _ = default_plan(source, replace(MACHINE, cores=cores), parallel=parallel)
    return [step.least for step in plan if isinstance(step, ShareFrom)]


def test_work_pays_for_what_threads_cost_to_meet() -> None:
    """In cycles of a statement, which takes about one and vectors of two lanes."""
    (two,) = least(sweeps(), 2)
    meeting = TWO.parallel_cost.cycles(2)
    assert 4 * meeting < two < 16 * meeting
    (many,) = least(sweeps(), 16)
    assert many > two


def test_threads_that_meet_once_ask_for_nothing() -> None:
    assert least(ROWS, 2) == []


def test_one_thread_asks_for_nothing() -> None:
    assert least(sweeps(), 2, parallel=False) == []


@pytest.mark.parametrize(("extent", "count"), [("n", 1), (4096, 0)])
def test_sizes_that_are_known_are_no_question(extent: Bound, count: int) -> None:
    assert len(least(sweeps(extent), 2)) == count
