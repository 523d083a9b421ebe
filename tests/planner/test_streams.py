"""Rows side by side: how many there are, which share a set, and loops that have too many."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.ir.program import Program
from loopwright.machines import load_machine
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.cost.streams import clashing, crowding, streams_of
from loopwright.planner.generic import default_plan
from loopwright.planner.loop_plans.crowded_loops import plan_crowded_loops
from loopwright.transform.loop_fusion import Distribute
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.skew import Skew
from loopwright.transform.unroll_and_jam import UnrollAndJam

N1 = load_machine("neoverse-n1")

MAXWELL = """
void step(int steps, float ex[{n}][{n}][{n}], float ey[{n}][{n}][{n}], float ez[{n}][{n}][{n}],
          float hx[{n}][{n}][{n}], float hy[{n}][{n}][{n}], float hz[{n}][{n}][{n}]) {{
#pragma scop
    for (int t = 0; t < steps; t++) {{
        for (int i = 1; i < {n}; i++)
            for (int j = 1; j < {n}; j++)
                for (int k = 1; k < {n}; k++) {{
                    ex[i][j][k] += hz[i][j][k] - hz[i][j - 1][k] - hy[i][j][k] + hy[i][j][k - 1];
                    ey[i][j][k] += hx[i][j][k] - hx[i][j][k - 1] - hz[i][j][k] + hz[i - 1][j][k];
                    ez[i][j][k] += hy[i][j][k] - hy[i - 1][j][k] - hx[i][j][k] + hx[i][j - 1][k];
                }}
        for (int i = 0; i < {n} - 1; i++)
            for (int j = 0; j < {n} - 1; j++)
                for (int k = 0; k < {n} - 1; k++) {{
                    hx[i][j][k] -= ez[i][j + 1][k] - ez[i][j][k] - ey[i][j][k + 1] + ey[i][j][k];
                    hy[i][j][k] -= ex[i][j][k + 1] - ex[i][j][k] - ez[i + 1][j][k] + ez[i][j][k];
                    hz[i][j][k] -= ey[i + 1][j][k] - ey[i][j][k] - ex[i][j + 1][k] + ex[i][j][k];
                }}
    }}
#pragma endscop
}}
"""


def maxwell(n: int) -> Program:
    return lw.parse_c(MAXWELL.format(n=n).encode())[0]


FIRST = ("S0", "S1", "S2")


def test_neighbours_in_a_row_are_one_stream_and_copies_are_more() -> None:
    program = maxwell(128)
    assert len(streams_of(program, ["S0"], {})) == 4
    assert len(streams_of(program, FIRST, {})) == 10
    beside = {name: {"i": 2.0} for name in FIRST}
    assert len(streams_of(program, FIRST, beside)) == 18


@pytest.mark.parametrize(("n", "most"), [(128, 8), (120, 0)])
def test_rows_clash_where_arrays_fill_whole_ways(n: int, most: int) -> None:
    program = maxwell(n)
    assert clashing(program, streams_of(program, FIRST, {}), N1.caches[0]) == most


def test_a_few_rows_are_no_crowd() -> None:
    assert crowding(maxwell(120), N1, FIRST, {}) == 1.0
    assert crowding(maxwell(128), N1, FIRST, {}) == 3.0
    assert crowding(maxwell(120), N1, FIRST, {name: {"i": 2.0} for name in FIRST}) > 1.5


def test_crowded_loops_are_parted_and_their_rows_do_not_go_side_by_side() -> None:
    plan, _ = default_plan(maxwell(128), N1)
    assert [step.loop for step in plan if isinstance(step, Distribute)] == ["k", "k_1"]
    assert [step.width for step in plan if isinstance(step, Skew)] == [1]
    assert not plan_crowded_loops(initial_schedule(maxwell(120)), N1, parallel=False)


def test_the_price_knows_crowds() -> None:
    start = initial_schedule(maxwell(128))
    parted = Distribute("k_1").apply(Distribute("k").apply(start))
    sizes = {"steps": 6}
    assert schedule_seconds(parted, N1, sizes) < 0.7 * schedule_seconds(start, N1, sizes)


def test_scalars_keep_a_loop_together() -> None:
    text = MAXWELL.format(n=128).replace(
        "ex[i][j][k] += hz", "float s = hz[i][j][k]; ex[i][j][k] += s + hz"
    )
    program = lw.parse_c(text.encode())[0]
    steps = plan_crowded_loops(initial_schedule(program), N1, parallel=False)
    assert [step.loop for step in steps if isinstance(step, Distribute)] == ["k_1"]


@pytest.mark.parametrize(("extent", "factor"), [(4000, 2), (400, 4)])
def test_rows_beyond_the_caches_are_written_two_at_a_time(extent: int, factor: int) -> None:
    """Sums along rows wait for each other; more rows side by side hide it, and cost more lines."""
    (program,) = lw.parse_c(f"""
void f(double a[{extent}][{extent}], double s[{extent}][{extent}]) {{
#pragma scop
  for (int i = 0; i < {extent}; i++)
    for (int j = 1; j < {extent}; j++)
      s[i][j] = s[i][j - 1] + a[i][j];
#pragma endscop
}}
""")
    plan, _ = default_plan(program, N1)
    (jam,) = [step for step in plan if isinstance(step, UnrollAndJam)]
    assert jam.factor == factor
