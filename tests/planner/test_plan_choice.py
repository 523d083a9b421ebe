"""Plans are weighed against the source order and against one thread: the rules, and the prices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest

from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import loop_names
from loopwright.planner import plan_choice
from loopwright.planner import source_order as source_order_module
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.loop_plans import stencils
from loopwright.planner.plan_choice import (
    ALONE,
    MARKED,
    PLANNED,
    SOURCE,
    PlanChoice,
    choose_plan,
)
from loopwright.planner.source_order import source_order
from loopwright.transform.loop_marks import Parallel, ParallelChunks, Simd, Unroll
from loopwright.transform.plan import Plan, apply_plan, initial_schedule
from loopwright.transform.privatize import Privatize
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.skew import Skew
from planner.corpus import machine_of, planned, program_named

N1, TWO = machine_of("n1"), machine_of("n1", 2)
SQUARE = "product n=400 m=400 k=400"
Patch = pytest.MonkeyPatch


def written_out(schedule: Schedule, *_: object, **__: object) -> tuple[Unroll, ...]:
    """Marks of the source order that prices tell apart."""
    return (Unroll("p", 4),)


def test_what_is_told() -> None:
    square = choose_plan(program_named(SQUARE), N1, 1)
    seconds = dict(square.seconds)
    assert seconds[PLANNED] < 0.5 * seconds[SOURCE]
    assert "is taken" in str(square)
    marks = choose_plan(program_named("map n=900"), N1, 1)
    assert marks.seconds == ()
    assert "nothing was weighed" in str(marks)


@pytest.mark.parametrize(
    ("plan", "marks", "taken"),
    [(0.94, 2.0, PLANNED), (0.96, 2.0, SOURCE), (0.96, 1.0, MARKED), (math.nan, 2.0, PLANNED)],
)
def test_the_rule(plan: float, marks: float, taken: str, monkeypatch: Patch) -> None:
    def seconds(schedule: Schedule, *_: object, **__: object) -> float:
        if schedule.contractions:
            return plan
        return marks if schedule.mark("p") is Mark.UNROLL else 1.0

    monkeypatch.setattr(plan_choice, "schedule_seconds", seconds)
    monkeypatch.setattr(plan_choice, "extend_plan", written_out)
    assert choose_plan(program_named(SQUARE), N1, 1).taken == taken


@pytest.mark.parametrize(
    ("guessed", "long_rows", "many_rows", "is_planned"),
    [
        (0.99, 0.8, 1.0, True),  # 0.89 in the mean of the other shapes
        (0.99, 0.97, 0.97, False),
        (0.99, 0.5, 1.01, False),  # slower at one
        (1.01, 0.5, 0.5, False),  # slower at the guess
    ],
)
def test_other_shapes_than_the_guessed_one(
    guessed: float, long_rows: float, many_rows: float, is_planned: bool, monkeypatch: Patch
) -> None:
    def seconds(
        schedule: Schedule, _: Machine, sizes: dict[str, int], *__: object, **___: object
    ) -> float:
        if not schedule.factors:
            return 1.0
        n, m = sizes["n"], sizes["m"]
        return guessed if n == m else long_rows if n < m else many_rows

    monkeypatch.setattr(plan_choice, "schedule_seconds", seconds)
    monkeypatch.setattr(plan_choice, "extend_plan", lambda *_, **__: (Simd("j"),))
    chosen = choose_plan(program_named("running_products"), N1, 1)
    assert (chosen.taken == PLANNED) == is_planned


def shares(chosen: PlanChoice) -> bool:
    return any(isinstance(step, Parallel | ParallelChunks) for step in chosen.plan)


@pytest.mark.parametrize(
    ("words", "on_two", "larger", "is_alone"),
    [
        ("rows n=700", 0.89, 0.0, False),
        ("rows n=700", 0.91, 0.0, True),  # sizes are known: nothing larger comes
        ("rows", 0.91, 0.8, False),
        ("rows", 0.91, 0.95, True),
    ],
)
def test_the_rule_for_threads(
    words: str, on_two: float, larger: float, is_alone: bool, monkeypatch: Patch
) -> None:
    guessed = plan_choice.likely_sizes(program_named(words))

    def seconds(
        schedule: Schedule, machine: object, at: Mapping[str, int], threads: int, **_: object
    ) -> float:
        is_shared = any(mark is Mark.PARALLEL for _, mark in schedule.marks)
        if threads == 1 or not is_shared:
            return 1.0
        return on_two if at == guessed else larger

    monkeypatch.setattr(plan_choice, "schedule_seconds", seconds)
    chosen = choose_plan(program_named(words), TWO, 2)
    assert (chosen.taken == ALONE) == is_alone
    assert shares(chosen) != is_alone


def test_waves_of_one_thread_are_weighed(monkeypatch: Patch) -> None:
    """They read arrays from far memory once in many passes, two threads in every pass."""
    monkeypatch.setattr(stencils, "take_shared_waves", lambda *_: False)
    passes = "upwind n=1700 T=float"
    chosen = choose_plan(program_named(passes), machine_of("clx", 2), 2, text=True)
    assert chosen.taken == ALONE
    assert any(isinstance(step, Skew) for step in chosen.plan)
    assert chosen.declined is not None
    seconds = dict(chosen.seconds)
    assert seconds["on 2 threads"] > 0.9 * seconds[ALONE]
    assert chosen.plan == planned(passes, "clx", 1, True, True).plan


def test_what_is_slow_on_one_thread_gives_way_to_what_is_faster_there(monkeypatch: Patch) -> None:
    """Not to marks that are slower on one thread and on two."""

    def seconds(
        schedule: Schedule, machine: object, at: object, threads: int, **_: object
    ) -> float:
        if schedule.contractions:
            return 1.2 if threads == 1 else 0.6
        if schedule.mark("p") is Mark.UNROLL:
            return 1.75 if threads == 1 else 0.9
        return 1.0

    monkeypatch.setattr(plan_choice, "schedule_seconds", seconds)
    monkeypatch.setattr(plan_choice, "extend_plan", written_out)
    chosen = choose_plan(program_named("product n=900 m=900 k=900"), TWO, 2)
    assert chosen.taken == PLANNED
    assert chosen.schedule.contractions


def test_a_plan_for_threads_that_is_declined_leaves_nothing_behind() -> None:
    both = planned("named_by_lengths", "spr", 2, False, True)
    assert both.plan == planned("named_by_lengths", "spr", 1, False, True).plan
    assert str(apply_plan(both.source, both.plan)) == str(both.schedule)


# -- prices and the source order ------------------------------------------------------------------


def test_the_source_order_is_priced_like_any_other() -> None:
    _, written = source_order(program_named(SQUARE), N1, 1)
    # 64 million steps of a sum, two cycles apart.
    assert 0.4 * 128e6 / 2.5e9 < schedule_seconds(written, N1, {}) < 6 * 128e6 / 2.5e9


def test_threads_share_the_work_of_contractions_by_price() -> None:
    schedule = planned("product n=900 m=900 k=900", "n1", 2).schedule
    assert schedule.contractions[0].shares == 2
    one, two = (schedule_seconds(schedule, TWO, {}, threads) for threads in (1, 2))
    assert 0.45 * one < two < 0.7 * one


KEEPING = (Parallel, Simd, Privatize, PromoteToRegisters)


@pytest.mark.parametrize("words", ["product T=int", "running_rows", "jacobi m=5", "row_products"])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_source_order_has_marks_only(words: str, threads: int) -> None:
    program = program_named(words)
    plan, schedule = source_order(program, N1, threads)
    assert all(isinstance(step, KEEPING) for step in plan)
    assert schedule.tree.get_map().is_equal(initial_schedule(program).tree.get_map())
    assert loop_names(schedule.tree) == loop_names(program.schedule)
    assert any(isinstance(step, Parallel) for step in plan) is (threads > 1)


def test_what_is_too_hard_is_unmarked(monkeypatch: Patch) -> None:
    def gives_up(_: object, otherwise: Callable[[], object], *given: object) -> object:
        return otherwise()

    monkeypatch.setattr(source_order_module, "guarded", gives_up)
    program = program_named("product T=int")
    plan, schedule = source_order(program, N1, 2)
    assert plan == Plan(())
    assert schedule.tree.get_map().is_equal(initial_schedule(program).tree.get_map())
