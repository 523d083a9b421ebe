"""TileTime: a stencil in overlapped tiles, some time steps of each in the scratchpad of a core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.find_time_stencil import MOST_STEPS, find_time_stencil
from loopwright.diagnostics import UsageError
from loopwright.ir.schedule import Schedule
from loopwright.ir.time_stencil import TimeTiles
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.step import Step, refuse

__all__ = ["TileTime"]

_UNIT = 4  # bytes: what DMA moves is a multiple


@dataclass(frozen=True, slots=True)
class TileTime(Step):
    """Compute some steps of a stencil tile by tile, on the cores of a mesh.

    rewrite:  for t: for i: B[i] = f(A[i - 1 : i + 2]); for i: A[i] = f(B[i - 1 : i + 2])
              ->  for every T steps:
                      core: for i_t: A_box = A[i_t - 2 T : i_t + size + 2 T]
                                     T steps in A_box and B_box, on less elements from step to step
                                     A_next[i_t : i_t + size] = its elements of A_box
                      A_next is A of the next steps
    needs:    the program is a stencil (analysis/find_time_stencil)
    refuses:  IllegalStep with the reason why it is none

    Neighbours compute the elements near their common border both, from the same values by the same
    operations: no order of instances says so, but the distances between them.
    """

    kind: ClassVar[str] = "tile_time"

    steps: int
    sizes: tuple[int, ...]  # elements of a tile, in each dimension of the grids
    rows: int  # of cores
    columns: int

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= MOST_STEPS:
            raise UsageError(f"tile_time takes 1 to {MOST_STEPS} steps", str(self))
        if not self.sizes or min(self.sizes) < 1:
            raise UsageError("tile_time takes tiles of one element or more", str(self))
        if self.rows < 1 or self.columns < 1:
            raise UsageError("tile_time takes one or more rows and columns", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        program = schedule.program
        if schedule.marks or schedule.contractions or schedule.closure or schedule.time_tiles:
            refuse(self, "the loops are mapped already")
        found = find_time_stencil(program)
        if isinstance(found, str):
            refuse(self, found)
        if len(found.start) != len(self.sizes):
            refuse(self, f"the grids have {len(found.start)} dimensions")
        for name in (*(name for name, _ in found.boxes), *found.lines):
            size = program.array(name).dtype.bytes
            if size % _UNIT:
                refuse(self, f"elements of {size} bytes are not moved by DMA")
        tiles = TimeTiles(found, self.steps, self.sizes)
        return replace(schedule, time_tiles=tiles, mesh=(self.rows, self.columns))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[TileTime]:
        if schedule.marks or schedule.contractions or schedule.closure or schedule.time_tiles:
            return
        found = find_time_stencil(schedule.program)
        if not isinstance(found, str):
            yield cls(2, (5,) * len(found.start), 2, 2)
