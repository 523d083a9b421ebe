"""Several threads are to be faster than one: else the plan for one thread is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.machines.load import load_machine
from loopwright.planner import plan_choice
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.generic import default_plan
from loopwright.planner.loop_plans import stencils
from loopwright.planner.plan_choice import ALONE, MARKED, PLANNED, PlanChoice, choose_plan
from loopwright.transform.loop_marks import Parallel, ParallelChunks, Unroll
from loopwright.transform.skew import Skew
from planner.pass_programs import PASSES

TWO = replace(load_machine("neoverse-n1"), cores=2)
WIDE = replace(load_machine("cascadelake"), cores=2)

ROWS = """
void f({sizes}float a[{n}][{n}], float b[{n}][{n}]) {{
#pragma scop
  for (int i = 0; i < {n}; i++)
    for (int j = 0; j < {n}; j++)
      a[i][j] = 2.0f * b[i][j];
#pragma endscop
}}
"""
PRODUCT = """
void f(double a[900][900], double b[900][900], double c[900][900]) {
#pragma scop
  for (int i = 0; i < 900; i++)
    for (int j = 0; j < 900; j++)
      for (int k = 0; k < 900; k++)
        c[i][j] += a[i][k] * b[k][j];
  for (int i = 0; i < 900; i++)
    c[i][i] += 1.0;
#pragma endscop
}
"""


def program(text: str) -> Program:
    (found,) = lw.parse_c(text)
    return found


def shares(chosen: PlanChoice) -> bool:
    return any(isinstance(step, Parallel | ParallelChunks) for step in chosen.plan)


@pytest.mark.parametrize(
    ("sizes", "n", "on_two", "larger", "is_alone"),
    [
        ("", "700", 0.89, 0.0, False),
        ("", "700", 0.91, 0.0, True),  # sizes are known: nothing larger comes
        ("int n, ", "n", 0.91, 0.8, False),
        ("int n, ", "n", 0.91, 0.95, True),
    ],
)
def test_the_rule(
    sizes: str,
    n: str,
    on_two: float,
    larger: float,
    is_alone: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = program(ROWS.format(sizes=sizes, n=n))
    guessed = plan_choice.likely_sizes(source)

    def seconds(
        schedule: Schedule, machine: object, at: Mapping[str, int], threads: int, **_: object
    ) -> float:
        is_shared = any(mark is Mark.PARALLEL for _, mark in schedule.marks)
        if threads == 1 or not is_shared:
            return 1.0
        return on_two if at == guessed else larger

    monkeypatch.setattr(plan_choice, "schedule_seconds", seconds)
    chosen = choose_plan(source, TWO, 2)
    assert (chosen.taken == ALONE) == is_alone
    assert shares(chosen) != is_alone


def test_waves_of_one_thread_are_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They read arrays from far memory once in many passes, two threads in every pass."""
    monkeypatch.setattr(stencils, "take_shared_waves", lambda *_: False)
    source = program(PASSES.format(n=1700))
    chosen = choose_plan(source, WIDE, 2, text=True)
    assert chosen.taken == ALONE
    assert any(isinstance(step, Skew) for step in chosen.plan)
    assert chosen.declined is not None
    seconds = dict(chosen.seconds)
    assert seconds["on 2 threads"] > 0.9 * seconds[ALONE]
    assert chosen.plan == choose_plan(source, WIDE, 1, text=True).plan


def test_passes_over_arrays_that_caches_hold_are_shared() -> None:
    assert shares(choose_plan(program(PASSES.format(n=300)), WIDE, 2, text=True))


COUNTS = """
void f(const double x[{n}], int rank[{n}]) {{
#pragma scop
  for (int i = 0; i < {n}; i++)
    for (int j = 0; j < i; j++) {{
      rank[i] += x[j] <= x[i] ? 1 : 0;
      rank[j] += x[j] <= x[i] ? 0 : 1;
    }}
#pragma endscop
}}
"""
PATHS = """
void f(double t[3000][3000]) {
#pragma scop
  for (int i = 1; i < 3000; i++)
    for (int j = 1; j < 3000; j++)
      t[i][j] = 0.5 * (t[i - 1][j] + t[i][j - 1]);
#pragma endscop
}
"""


@pytest.mark.parametrize(
    ("text", "taken"),
    [(COUNTS.format(n=100), ALONE), (COUNTS.format(n=12000), MARKED), (PATHS, PLANNED)],
)
def test_waves_take_at_least_a_share_of_their_loops(text: str, taken: str) -> None:
    """Rows beside each other would cost counts the vectors of one thread; waves as they are do not.

    Few counts are not worth a meeting of threads. Tables keep their vectors in every wave.
    """
    chosen = choose_plan(program(text), WIDE, 2)
    assert chosen.taken == taken
    assert shares(chosen) == (taken != ALONE)
    if taken == ALONE:
        assert chosen.plan == choose_plan(program(text), WIDE, 1).plan


def test_what_is_slow_on_one_thread_gives_way_to_what_is_faster_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not to marks that are slower on one thread and on two."""

    def seconds(
        schedule: Schedule, machine: object, at: object, threads: int, **_: object
    ) -> float:
        if schedule.contractions:
            return 1.2 if threads == 1 else 0.6
        if schedule.mark("k") is Mark.UNROLL:
            return 1.75 if threads == 1 else 0.9
        return 1.0

    def written_out(schedule: Schedule, *_: object, **__: object) -> tuple[Unroll, ...]:
        return (Unroll("k", 4),)

    monkeypatch.setattr(plan_choice, "schedule_seconds", seconds)
    monkeypatch.setattr(plan_choice, "extend_plan", written_out)
    chosen = choose_plan(program(PRODUCT), TWO, 2)
    assert chosen.taken == PLANNED
    assert chosen.schedule.contractions


def test_threads_share_the_work_of_contractions_by_price() -> None:
    plan, schedule = default_plan(program(PRODUCT), TWO, parallel=True)
    assert schedule.contractions[0].shares == 2, plan
    one, two = (schedule_seconds(schedule, TWO, {}, threads) for threads in (1, 2))
    assert 0.45 * one < two < 0.7 * one


@pytest.mark.parametrize("target", ["host", "openmp"])
def test_values_are_those_of_the_source(target: str) -> None:
    passes = lw.compile(PASSES.format(n=40), target=target, threads=2)
    q, u = np.random.default_rng(1).normal(size=(2, 40, 40)).astype(np.float32)
    c, wanted = np.float32(0.125), q.copy()
    for _ in range(5):
        up = wanted[1:-1, 1:-1] - wanted[:-2, 1:-1]
        down = wanted[2:, 1:-1] - wanted[1:-1, 1:-1]
        moved = np.where(u[1:-1, 1:-1] > 0, up, down)
        wanted[1:-1, 1:-1] -= c * u[1:-1, 1:-1] * moved
    passes(5, c, q, np.zeros_like(q), u)
    np.testing.assert_allclose(q, wanted, rtol=1e-5, atol=1e-5)
