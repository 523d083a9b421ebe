"""Rows side by side: how many there are, which share a set, and loops that have too many."""

from __future__ import annotations

import pytest

from loopwright.ir.program import Program
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.cost.streams import clashing, crowding, streams_of
from loopwright.transform.loop_fusion import Distribute
from loopwright.transform.schedule_legality import initial_schedule
from planner.corpus import machine_of, program_named

N1 = machine_of("n1")
CROWD, ODD = (program_named(f"maxwell n={n} T=float") for n in (128, 120))
FIRST = ("S0", "S1", "S2")
BESIDE = {name: {"i": 2.0} for name in FIRST}


def test_neighbours_in_a_row_are_one_stream_and_copies_are_more() -> None:
    assert len(streams_of(CROWD, ["S0"], {})) == 4
    assert len(streams_of(CROWD, FIRST, {})) == 10
    assert len(streams_of(CROWD, FIRST, BESIDE)) == 18


@pytest.mark.parametrize(("program", "most", "crowd"), [(CROWD, 8, 3.0), (ODD, 0, 1.0)])
def test_rows_clash_where_arrays_fill_whole_ways(program: Program, most: int, crowd: float) -> None:
    assert clashing(program, streams_of(program, FIRST, {}), N1.caches[0]) == most
    assert crowding(program, N1, FIRST, {}) == crowd


def test_copies_crowd() -> None:
    assert crowding(ODD, N1, FIRST, BESIDE) > 1.5


def test_the_price_knows_crowds() -> None:
    start = initial_schedule(CROWD)
    parted = Distribute("k_1").apply(Distribute("k").apply(start))
    sizes = {"steps": 6}
    assert schedule_seconds(parted, N1, sizes) < 0.7 * schedule_seconds(start, N1, sizes)
