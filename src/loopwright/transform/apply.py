"""Apply steps to a schedule. Knows no kind of step, so that it loads none but those at hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopwright.analysis.inner_contraction import inner_contraction
from loopwright.diagnostics import IllegalStep
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule, ScheduledContraction
from loopwright.time_limit import require_time
from loopwright.transform.machine_kinds import machine_kinds
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
    require_time()
    tried = schedule.get(_steps_tried)
    if step not in tried:
        after: Schedule | IllegalStep
        try:
            after = _with_contractions(step, schedule, step.apply(schedule))
            _require_one_machine(step, after)
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


def _require_one_machine(step: Step, after: Schedule) -> None:
    """Refuse a step after which loops would be for machines of two kinds."""
    kinds = machine_kinds(after)
    if len(kinds) > 1:
        reasons = ", ".join(kinds.values())
        raise IllegalStep(step, f"a plan is for one machine: {reasons}; leave out one of the steps")


def _with_contractions(step: Step, before: Schedule, after: Schedule) -> Schedule:
    """`after` with what the contractions of its loops compute now.

    Refuses a step after which the statements of one no longer form a contraction.
    """
    if after.program is before.program or not after.contractions:
        return after
    if after.whole_contraction is not None:
        raise IllegalStep(step, f"{after.whole_contraction} runs as a kernel already")
    kept: list[ScheduledContraction] = []
    for scheduled in after.contractions:
        found = inner_contraction(after.program, after.tree, scheduled.loops)
        if isinstance(found, str):
            raise IllegalStep(step, f"{scheduled} would be none: {found}")
        kept.append(replace(scheduled, contraction=found))
    return replace(after, contractions=tuple(kept))
