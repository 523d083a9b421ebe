"""From how much work on threads share loops inside serial ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright.ir.program import Program
from loopwright.machines.load import load_machine
from loopwright.planner.generic import default_plan
from loopwright.transform.loop_marks import ShareFrom
from programs import Do, For, program

MACHINE = load_machine("neoverse-n1")
TWO = replace(MACHINE, cores=2)
SCATTER = program(
    "scatter",
    {"x": "in float64 [n]", "h": "in float64 [m]", "y": "inout float64 [n + m]"},
    For("i", 0, "n", For("j", 0, "m", Do("y[i + j]", "y[i + j] + x[i] * h[j]"))),
    params="n m",
)
ROWS = program(
    "rows",
    {"A": "inout float64 [n, n]"},
    For("i", 0, "n", For("j", 0, "n", Do("A[i, j]", "2 * A[i, j]"))),
)


def least(source: Program, cores: int, *, parallel: bool = True) -> list[int]:
    plan, _ = default_plan(source, replace(MACHINE, cores=cores), parallel=parallel)
    return [step.least for step in plan if isinstance(step, ShareFrom)]


def test_work_pays_for_what_threads_cost_to_meet() -> None:
    """In cycles of a statement, which takes about one and vectors of two lanes."""
    (two,) = least(SCATTER, 2)
    meeting = TWO.parallel_cost.cycles(2)
    assert 4 * meeting < two < 16 * meeting
    (many,) = least(SCATTER, 16)
    assert many > two


def test_threads_that_meet_once_ask_for_nothing() -> None:
    assert least(ROWS, 2) == []


def test_one_thread_asks_for_nothing() -> None:
    assert least(SCATTER, 2, parallel=False) == []


@pytest.mark.parametrize(("extent", "count"), [("n", 1), (4096, 0)])
def test_sizes_that_are_known_are_no_question(extent: str | int, count: int) -> None:
    rows = {"u": f"inout float64 [{extent}]", "v": f"inout float64 [{extent}]"}
    sweeps = (
        For("i", 1, extent, Do("v[i]", "u[i - 1]")),
        For("j", 1, extent, Do("u[j]", "2 * v[j]")),
    )
    source = program("steps", rows, For("t", 0, "steps", *sweeps), params="n steps")
    assert len(least(source, 2)) == count
