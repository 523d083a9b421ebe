"""Privatize: give each iteration of a loop its own copy of a local array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from loopwright.ir.program import Role
from loopwright.ir.schedule import Schedule
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import accessors, open_bands, with_private
from loopwright.transform.step import Step, refuse

__all__ = ["Privatize"]


@dataclass(frozen=True, slots=True)
class Privatize(Step):
    """Give each iteration of a loop its own copy of a local array.

    Iterations that share one memory cell are ordered by it, although no value passes between them.
    With a copy for each iteration the loop may be parallel or vectorised.

    rewrite:  alloc t
              for i: t = f(i); a[i] = t
              ->  for i: alloc t; t = f(i); a[i] = t
    needs:    a local array used inside the loop only; no value flows between iterations
    refuses:  IllegalStep with the flow that leaves an iteration
    """

    kind: ClassVar[str] = "privatize"

    array: str
    loop: str

    def apply(self, schedule: Schedule) -> Schedule:
        local = [a.name for a in schedule.program.arrays if a.role is Role.LOCAL]
        if self.array not in local:
            names = ", ".join(local) or "none"
            refuse(self, f"'{self.array}' is no local array; the local arrays are {names}")
        if self.array in dict(schedule.private):
            refuse(
                self, f"array '{self.array}' is private to '{dict(schedule.private)[self.array]}'"
            )
        return with_private(self, schedule, self.array, self.loop)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Privatize]:
        """Every loop that holds all uses of a local array, outermost first."""
        for array in schedule.program.arrays:
            if array.role is not Role.LOCAL or array.name in dict(schedule.private):
                continue
            users = accessors(schedule.analyses, array.name)
            for band in open_bands(schedule):
                if users and users <= band.statements:
                    yield cls(array.name, band.loop)
