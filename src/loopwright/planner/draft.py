"""A plan in the making: steps that are tried, and taken only when they are legal."""

from __future__ import annotations

from loopwright.diagnostics import IllegalStep
from loopwright.ir.program import Role
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band
from loopwright.transform.apply import apply_step
from loopwright.transform.privatize import Privatize
from loopwright.transform.schedule_legality import accessors
from loopwright.transform.step import Step

__all__ = ["Draft"]


class Draft:
    """The steps taken so far and the schedule they lead to."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.steps: list[Step] = []

    def take(self, *steps: Step) -> bool:
        """Take the steps if all of them are legal."""
        after = self.reach(*steps)
        if after is None:
            return False
        self.schedule = after
        self.steps += steps
        return True

    def reach(self, *steps: Step) -> Schedule | None:
        """The schedule that the steps lead to; None when one of them is illegal."""
        schedule = self.schedule
        try:
            for step in steps:
                schedule = apply_step(schedule, step)
        except IllegalStep:
            return None
        return schedule

    def copies(self, band: Band) -> list[Step]:
        """The local arrays of which every iteration of a loop may have its own copy."""
        program = self.schedule.program
        taken = dict(self.schedule.private)
        offered = [
            Privatize(array.name, band.loop)
            for array in program.arrays
            if array.role is Role.LOCAL and array.name not in taken
            if (users := accessors(self.schedule.analyses, array.name)) and users <= band.statements
        ]
        return [step for step in offered if self.reach(step) is not None]
