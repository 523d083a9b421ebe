"""Apply steps to a schedule. Knows no kind of step, so that it loads none but those at hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopwright.analysis.inner_contraction import inner_contraction
from loopwright.diagnostics import IllegalStep
from loopwright.ir.program import Program
from loopwright.ir.schedule import LoopCore, Schedule
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.step import Step

__all__ = ["apply_plan", "apply_step", "apply_steps", "initial_schedule"]


def apply_plan(program: Program, plan: Iterable[Step]) -> Schedule:
    """The schedule that `plan` makes of a program's source order.

    Every step proves itself; the first that cannot raises IllegalStep.
    """
    return apply_steps(initial_schedule(program), plan)


def apply_steps(schedule: Schedule, steps: Iterable[Step]) -> Schedule:
    """The schedule that steps make of another one; the first that is illegal raises IllegalStep."""
    for step in steps:
        schedule = apply_step(schedule, step)
    return schedule


def apply_step(schedule: Schedule, step: Step) -> Schedule:
    """`step.apply(schedule)`, computed once: planners try steps, then take them."""
    tried = schedule.get(_steps_tried)
    if step not in tried:
        after: Schedule | IllegalStep
        try:
            after = _with_cores(step, schedule, step.apply(schedule))
        except IllegalStep as error:
            after = error
        tried[step] = after
    found = tried[step]
    if isinstance(found, IllegalStep):
        raise found.with_traceback(None)
    return found


def _steps_tried(schedule: Schedule) -> dict[Step, Schedule | IllegalStep]:
    """What steps have made of a schedule so far."""
    return {}


def _with_cores(step: Step, before: Schedule, after: Schedule) -> Schedule:
    """`after` with the contractions that its cores compute now.

    Refuses a step after which the statements of a core no longer form a contraction.
    """
    if after.program is before.program or not after.loop_cores:
        return after
    cores: list[LoopCore] = []
    for core in after.loop_cores:
        found = inner_contraction(after.program, after.tree, core.loops)
        if isinstance(found, str):
            raise IllegalStep(step, f"{core} would be none: {found}")
        cores.append(replace(core, contraction=found))
    return replace(after, loop_cores=tuple(cores))
