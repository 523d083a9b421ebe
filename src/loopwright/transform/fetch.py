"""Fetch: ask for the rows that a loop walks down before they are used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from loopwright.diagnostics import UsageError
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, read_tree
from loopwright.transform.legal import find_band, open_bands
from loopwright.transform.step import Step, refuse

__all__ = ["Fetch"]

AHEAD = (8, 16)  # what `candidates` offers; `apply` takes any number from 1


@dataclass(frozen=True, slots=True)
class Fetch(Step):
    """Prefetch what a loop will touch in rows further on.

    rewrite:  for j: ... u[j, i] ...
              ->  for j: prefetch u[j + ahead, i]; ... u[j, i] ...
              for arrays whose first subscript alone moves with the loop
    needs:    a loop that is not marked and holds no loops but unrolled ones
    refuses:  IllegalStep when the loop is another one, or fetches already

    A line of every row is used and the next row lies pages away: no prefetcher of a processor
    foresees that. Nothing is computed in another way, and any address may be asked for.
    """

    kind: ClassVar[str] = "fetch"

    loop: str
    ahead: int  # iterations

    def __post_init__(self) -> None:
        if self.ahead < 1:
            raise UsageError("fetch takes one or more iterations", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        band = find_band(self, schedule, read_tree(schedule.tree), self.loop)
        if not _is_plain(schedule, band):
            refuse(self, f"loop '{self.loop}' is marked or holds other loops")
        if self.loop in dict(schedule.ahead):
            refuse(self, f"loop '{self.loop}' fetches already")
        return replace(schedule, ahead=(*schedule.ahead, (self.loop, self.ahead)))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Fetch]:
        known = dict(schedule.ahead)
        for band in open_bands(schedule):
            if band.loop not in known and _is_plain(schedule, band):
                yield from (cls(band.loop, ahead) for ahead in AHEAD)


def _is_plain(schedule: Schedule, band: Band) -> bool:
    """Whether a loop is serial and holds no loops but unrolled ones."""
    inner = (schedule.mark(other.loop) for other in bands(band.child))
    is_innermost = all(mark is Mark.UNROLL for mark in inner)
    return is_innermost and schedule.mark(band.loop) is Mark.SERIAL
