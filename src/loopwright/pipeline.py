"""The compiler: the arrows from a program to a loop nest, in order.

    SourceTree --frontends--> Program --planner--> Plan --transform--> Schedule --lower--> LoopNest

from a Program on; `frontends/extract` is the first, `kernels` goes on. isl's quota bounds effort.

Where an arrow fails by a fault of ours (`faults`), the next simpler plan is taken: the model's
without the planner that failed, then marks on the loops of the source, then source order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NoReturn

from loopwright.diagnostics import UsageError
from loopwright.faults import FAULTS, survive
from loopwright.ir.islkit import ISL_QUOTA, GaveUp, bounded
from loopwright.ir.loops import LoopNest, Mark
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.text import schedule_text
from loopwright.kernels import ENTRY
from loopwright.lazy_dataclass import dataclass
from loopwright.log import dump, log
from loopwright.lower.buffers import specialise
from loopwright.lower.passes import lower_schedule
from loopwright.machines.host import host
from loopwright.planner.generic import default_plan, extend_plan
from loopwright.transform.plan import Plan, apply_plan, apply_steps, initial_schedule
from loopwright.transform.step import Step

__all__ = [
    "Lowered",
    "TooHard",
    "generic_nest",
    "generic_schedule",
    "given_schedule",
    "lowered",
    "marks_or_none",
]

_SOURCE_QUOTA = 20_000_000  # for writing down the loops of the source, the last resort


class TooHard(UsageError):  # noqa: N818, names what happened
    """The loops of a program cannot be written down with bounded effort."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """The loops of a program, and the plan that led to them."""

    plan: Plan
    schedule: Schedule
    nest: LoopNest


def generic_nest(
    program: Program, unit: Mapping[str, int], *, parallel: bool, plan: Plan | None = None
) -> LoopNest:
    """The nest of any affine program; `unit` names the strides that are 1 in the call's arrays.

    The steps of a plan of the user must be legal.
    """
    if plan is None:
        found = lowered(program, *generic_schedule(program, parallel=parallel))
    else:
        found = lowered(program, plan, given_schedule(program, plan))
    steps = "; ".join(map(str, found.plan)) or "loops in source order"
    log("plan", lambda: f"loops of '{program.name}': {steps}")
    dump("schedule", lambda: schedule_text(found.schedule))
    return replace(specialise(found.nest, unit), name=ENTRY)


def lowered(program: Program, plan: Plan, schedule: Schedule) -> Lowered:
    """The loops of a schedule of `program`.

    Those of a simpler one where a pass of the lowering is at fault, and those of the source where
    they are too hard to write down. Raises TooHard where these are as well.
    """

    def in_source_order(error: GaveUp) -> Lowered:
        _tell_gave_up(program, error)
        return _source_loops(program)

    try:
        lower = partial(lower_schedule, schedule)
        return bounded(lambda: Lowered(plan, schedule, lower()), in_source_order, ISL_QUOTA)
    except FAULTS as error:
        survive(error, f"the loops of '{program.name}'")
    simpler = _marked_source(program, parallel=_is_parallel(schedule))
    if len(plan) and len(simpler[0]) and simpler[0] != plan:
        return lowered(program, *simpler)
    return _source_loops(program)


def _source_loops(program: Program) -> Lowered:
    """The loops as they were written, the last resort; raises TooHard."""

    def loops() -> Lowered:
        source = initial_schedule(program)
        return Lowered(Plan(()), source, lower_schedule(source))

    def too_hard(error: GaveUp) -> NoReturn:
        message = f"the loops of '{program.name}' are too hard to write down"
        raise TooHard(message, str(error), "simpler conditions, or several functions") from None

    return bounded(loops, too_hard, _SOURCE_QUOTA)


def _tell_gave_up(program: Program, error: GaveUp) -> None:
    log("plan", lambda: f"'{program.name}' is left in source order: isl gave up, {error}")


def given_schedule(program: Program, plan: Plan) -> Schedule:
    """The schedule of the user's plan for the loops of a program; each step must be legal.

    A whole contraction has no loops in a nest: its kernel takes offset tables of a call.
    """

    def too_hard(error: GaveUp) -> NoReturn:
        reason = f"the plan of '{program.name}' is too hard to check"
        raise UsageError(reason, found=str(error)) from error

    schedule = bounded(lambda: apply_plan(program, plan), too_hard)
    if schedule.whole_contraction is not None:
        raise UsageError(
            f"a plan for the loops of '{program.name}' cannot take out the whole of them",
            found=str(plan),
            hint="contract for three loops of it, or the plan 'model', by which a function of "
            "C that is one contraction runs as its kernel",
        )
    return schedule


def generic_schedule(program: Program, *, parallel: bool) -> tuple[Plan, Schedule]:
    """A legal plan for any affine program and the schedule it makes.

    Planners keep to quotas of their own. When isl gives up on what they have found together, the
    plan is empty: the program runs in the order it was written.
    """
    try:
        return default_plan(program, host(), parallel=parallel, on_fault=survive)
    except FAULTS as error:
        survive(error, f"the plan of '{program.name}'")
        return _marked_source(program, parallel=parallel)


def _marked_source(program: Program, *, parallel: bool) -> tuple[Plan, Schedule]:
    """The loops of the source with threads and vectors, as far as these can be planned."""
    source = initial_schedule(program)
    steps = marks_or_none(source, parallel=parallel)

    def unmarked(error: GaveUp) -> tuple[Plan, Schedule]:
        _tell_gave_up(program, error)
        return Plan(()), initial_schedule(program)

    try:
        return bounded(lambda: (Plan(steps), apply_steps(source, steps)), unmarked, ISL_QUOTA)
    except FAULTS as error:
        survive(error, f"the marks of '{program.name}'")
    return Plan(()), initial_schedule(program)


def marks_or_none(schedule: Schedule, *, parallel: bool) -> tuple[Step, ...]:
    """Threads and vectors for the loops of `schedule`; no steps where their planner is at fault."""
    name = schedule.program.name

    def no_marks(error: GaveUp) -> tuple[Step, ...]:
        log("plan", lambda: f"the loops of '{name}' get no marks: isl gave up, {error}")
        return ()

    try:
        mark = partial(extend_plan, schedule, host(), parallel=parallel)
        return bounded(mark, no_marks, ISL_QUOTA)
    except FAULTS as error:
        survive(error, f"the marks of '{name}'")
    return ()


def _is_parallel(schedule: Schedule) -> bool:
    """Whether threads share out some loop."""
    marks = {mark for _, mark in schedule.marks}
    return Mark.PARALLEL in marks or any(x.is_parallel for x in schedule.contractions)
