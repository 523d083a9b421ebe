"""A plan in the making: steps that are tried, and taken only when they are legal."""

from __future__ import annotations

from loopwright.diagnostics import IllegalStep
from loopwright.ir.program import Role
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, nodes_of
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

    def copy(self) -> Draft:
        """Another draft that goes on from here."""
        made = Draft(self.schedule)
        made.steps += self.steps
        return made

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

    def loop_made(self, *steps: Step) -> str | None:
        """The loop that the last of some steps makes, a cut; None when one of them is illegal."""
        *before, _ = steps
        first, after = self.reach(*before), self.reach(*steps)
        if first is None or after is None:
            return None
        known = {band.loop for band in bands(nodes_of(first))}
        (made,) = {band.loop for band in bands(nodes_of(after))} - known
        return made

    def copies(self, band: Band) -> list[Privatize]:
        """The local arrays of which every iteration of a loop may have its own copy.

        A scalar belongs to the innermost loop that its values do not leave: loops around are then
        free of it as well, and so is the innermost one, which may have vectors.
        """
        program = self.schedule.program
        taken = dict(self.schedule.private)
        found: list[Privatize] = []
        for array in program.arrays:
            users = accessors(self.schedule.analyses, array.name)
            if array.role is not Role.LOCAL or array.name in taken:
                continue
            if not users or not users <= band.statements:
                continue
            inner = bands(band) if not array.rank else (band,)
            loops = [b.loop for b in inner if users <= b.statements]
            steps = (Privatize(array.name, loop) for loop in reversed(loops))
            found += next(([step] for step in steps if self.reach(step) is not None), [])
        return found
