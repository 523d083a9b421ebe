"""The plan of any affine program: every planner takes what it knows best, in this order.

    closures   the whole program as one blocked closure
    tables     tables of intervals by rows, updates by the entry before last
    crowds     innermost loops through many rows, in parts
    stencils   loops of passes over rows, skewed
    products   contractions inside larger programs
    order      another order for all other loops
    pipelines  nests that hand rows on, with windows that slide over them
    marks      threads, independent iterations, registers
    alignment  vectors that are stored whole
    fetches    rows far away that are asked for early

Each gets the schedule that those before it have made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from loopwright.ir.islkit import GaveUp, bounded
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.draft import Draft
from loopwright.planner.guard import OnFault, guarded
from loopwright.planner.loop_plans.affine import plan_marks, plan_order
from loopwright.planner.loop_plans.closures import plan_closures
from loopwright.planner.loop_plans.crowded_loops import plan_crowded_loops
from loopwright.planner.loop_plans.fetches import plan_fetches
from loopwright.planner.loop_plans.inner_contractions import (
    plan_contractions,
    plan_text_contractions,
)
from loopwright.planner.loop_plans.interval_tables import plan_interval_tables
from loopwright.planner.loop_plans.pipelines import plan_pipelines
from loopwright.planner.loop_plans.stencils import plan_alignment, plan_stencils
from loopwright.planner.region_work import plan_regions
from loopwright.transform.plan import Plan
from loopwright.transform.schedule_legality import initial_schedule, restarted
from loopwright.transform.step import Step

__all__ = ["ComposedPlan", "composed_plan", "default_plan", "extend_plan"]

_PLANNERS = (
    plan_closures,
    plan_interval_tables,
    plan_crowded_loops,
    plan_stencils,
    plan_contractions,
    plan_order,
    plan_pipelines,
    plan_marks,
    plan_alignment,
    plan_fetches,
    plan_regions,
)
# What plans for C text take in place of others.
_FOR_TEXT: dict[Callable[..., Iterable[Step]], Callable[..., Iterable[Step]]] = {
    plan_contractions: plan_text_contractions,
    plan_order: partial(plan_order, text=True),
    plan_marks: partial(plan_marks, text=True),
}
# Elementary isl operations that each planner may take; a million take about half a second.
_QUOTA = 1_000_000
_QUOTAS: dict[Callable[..., Iterable[Step]], int] = {
    plan_interval_tables: 8_000_000,
    plan_contractions: 2_000_000,
    plan_order: 4_000_000,
    plan_marks: 5_000_000,
}


def _raise(error: Exception, where: str) -> None:
    raise error


@dataclass(frozen=True, slots=True)
class ComposedPlan:
    """What all planners have made of a program."""

    plan: Plan
    schedule: Schedule
    start: Schedule  # the source order, with what is known of it: no planner on it was broken off


def default_plan(
    program: Program,
    machine: Machine,
    *,
    parallel: bool = False,
    text: bool = False,
    on_fault: OnFault = _raise,
) -> tuple[Plan, Schedule]:
    """A legal plan for `program` and its schedule; `parallel`: it will run on several threads.

    `text`: another compiler makes code of it.

    What is too hard for a planner is left to those after it. So is what it fails on, if `on_fault`
    returns.
    """
    start = initial_schedule(program)
    made = composed_plan(start, machine, parallel=parallel, text=text, on_fault=on_fault)
    return made.plan, made.schedule


def composed_plan(
    start: Schedule, machine: Machine, *, parallel: bool, text: bool, on_fault: OnFault
) -> ComposedPlan:
    """As `default_plan`, of an initial schedule that others may use as well."""
    program = start.program
    draft = Draft(start)

    def without(before: Draft) -> Draft:
        nonlocal start
        start, made = _retraced(start, tuple(before.steps))
        return made

    for planner in _PLANNERS:
        if draft.schedule.closure is not None:
            break
        chosen = _FOR_TEXT.get(planner, planner) if text else planner
        draft = guarded(
            partial(_extended, draft, chosen, machine, parallel=parallel),
            partial(without, draft),
            planner.__name__,
            program,
            _QUOTAS.get(planner, _QUOTA),
            on_fault,
        )
    return ComposedPlan(Plan(tuple(draft.steps)), draft.schedule, start)


def _extended(
    draft: Draft, planner: Callable[..., Iterable[Step]], machine: Machine, *, parallel: bool
) -> Draft:
    """`draft` with the steps of one planner."""
    draft.take(*planner(draft.schedule, machine, parallel=parallel))
    return draft


def _retraced(start: Schedule, steps: tuple[Step, ...]) -> tuple[Schedule, Draft]:
    """The source order and the draft after steps that were legal, made anew.

    The work that was broken off may have left results half done: none of them is used again, but
    for the dependences of the program, which are kept when they are whole.
    """

    def again() -> tuple[Schedule, Draft]:
        made = Draft(first := restarted(start))
        made.take(*steps)
        return first, made

    def at_first(error: GaveUp) -> tuple[Schedule, Draft]:
        return (first := restarted(start)), Draft(first)

    return bounded(again, at_first, _QUOTA)


def extend_plan(
    schedule: Schedule, machine: Machine, *, parallel: bool = False, text: bool = False
) -> tuple[Step, ...]:
    """Marks for the loops of `schedule` that have none, their order kept."""
    return plan_marks(schedule, machine, parallel=parallel, text=text)
