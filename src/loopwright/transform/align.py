"""Align: begin the vectors of a loop where the elements it stores begin in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from loopwright.diagnostics import UsageError
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import read_tree
from loopwright.transform.legal import find_band, open_bands
from loopwright.transform.step import Step, refuse

__all__ = ["Align"]

LANES = (2, 4)  # what `candidates` offers; `apply` takes any number from 2


@dataclass(frozen=True, slots=True)
class Align(Step):
    """Run the first iterations of a simd loop alone, up to one that stores at a whole vector.

    rewrite:  simd for j in [a, b): A[i, j] = ...
              ->  for j in [a, c): A[i, j] = ...
                  simd for j in [c, b): A[i, j] = ...
                  where c is the first j >= a with &A[i, j] - &A[0, 0] a multiple of the lanes
    needs:    a simd loop; the order stays the same
    refuses:  IllegalStep when the loop is not simd or aligned already

    Processors store vectors that lie across the boundary of one more slowly.
    """

    kind: ClassVar[str] = "align"

    loop: str
    lanes: int

    def __post_init__(self) -> None:
        if self.lanes < 2:
            raise UsageError("align takes two or more lanes", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        find_band(self, schedule, read_tree(schedule.tree), self.loop)
        if schedule.mark(self.loop) is not Mark.SIMD:
            refuse(self, f"loop '{self.loop}' is not simd")
        if self.loop in dict(schedule.factors):
            refuse(self, f"loop '{self.loop}' is aligned already")
        return replace(schedule, factors=(*schedule.factors, (self.loop, self.lanes)))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Align]:
        aligned = dict(schedule.factors)
        for band in open_bands(schedule):
            if schedule.mark(band.loop) is Mark.SIMD and band.loop not in aligned:
                yield from (cls(band.loop, lanes) for lanes in LANES)
