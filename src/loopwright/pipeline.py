"""The compiler: the arrows from a program to a loop nest, in order.

    SourceTree --frontends--> Program --planner--> Plan --transform--> Schedule --lower--> LoopNest

from a Program on; `frontends/program` is the first, `kernels` goes on. isl's quota bounds effort.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import ISL_QUOTA, GaveUp, attempt
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.text import schedule_text
from loopwright.kernels import ENTRY, dump
from loopwright.log import log
from loopwright.lower.astgen import lower_schedule
from loopwright.lower.specialise import specialise
from loopwright.machines.host import host
from loopwright.planner.generic import default_plan
from loopwright.transform.facts import forget
from loopwright.transform.plan import Plan, apply_plan, initial_schedule

__all__ = ["generic_nest", "generic_schedule"]

_SOURCE_QUOTA = 20_000_000  # for writing down the loops of the source, the last resort


def generic_nest(program: Program, unit: Mapping[str, int], *, parallel: bool) -> LoopNest:
    """The nest of any affine program; `unit` names the strides that are 1 in the call's arrays."""
    plan, schedule = generic_schedule(program, parallel=parallel)
    steps = "; ".join(map(str, plan)) or "loops in source order"
    log("plan", lambda: f"loops of '{program.name}': {steps}")
    dump("schedule", lambda: schedule_text(schedule))
    return replace(specialise(_lowered(program, schedule), unit), name=ENTRY)


def _lowered(program: Program, schedule: Schedule) -> LoopNest:
    """The loops of a schedule; where they are too hard to write down, those of the source."""
    try:
        with attempt(ISL_QUOTA):
            return lower_schedule(schedule)
    except GaveUp as error:
        _tell_gave_up(program, error)
    try:
        with attempt(_SOURCE_QUOTA):
            return lower_schedule(initial_schedule(program))
    except GaveUp as error:
        message = f"the loops of '{program.name}' are too hard to write down"
        raise UsageError(message, str(error), "simpler conditions, or several functions") from None


def _tell_gave_up(program: Program, error: GaveUp) -> None:
    log("plan", lambda: f"'{program.name}' is left in source order: isl gave up, {error}")


def generic_schedule(program: Program, *, parallel: bool) -> tuple[Plan, Schedule]:
    """A legal plan for any affine program and the schedule it makes.

    Planners keep to quotas of their own. When isl gives up on what they have found together, the
    plan is empty: the program runs in the order it was written.
    """
    plan = default_plan(program, host(), parallel=parallel)
    try:
        with attempt(ISL_QUOTA):
            return plan, apply_plan(program, plan)
    except GaveUp as error:
        _tell_gave_up(program, error)
        forget()
        return Plan(()), apply_plan(program, Plan(()))
