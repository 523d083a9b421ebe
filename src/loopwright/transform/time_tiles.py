"""TileTime and TileTimeInBlocks: a stencil in overlapped tiles, some time steps of each at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.find_time_stencil import MOST_STEPS, find_time_stencil
from loopwright.diagnostics import UsageError
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.time_stencil import TimeStencil, TimeTiles
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.step import Step, refuse

__all__ = [
    "TileTime",
    "TileTimeInBlocks",
    "require_moved",
    "require_stencil",
    "require_tiles",
    "stencil_ranks",
]

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
        require_tiles(self, self.steps, self.sizes)
        if self.rows < 1 or self.columns < 1:
            raise UsageError(f"{self.kind} takes one or more rows and columns", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        found = require_stencil(self, schedule, self.sizes)
        require_moved(self, schedule.program, found)
        tiles = TimeTiles(found, self.steps, self.sizes)
        return replace(schedule, time_tiles=tiles, mesh=(self.rows, self.columns))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[TileTime]:
        for rank in stencil_ranks(schedule):
            yield cls(2, (5,) * rank, 2, 2)


@dataclass(frozen=True, slots=True)
class TileTimeInBlocks(Step):
    """Compute some steps of a stencil tile by tile, in the blocks of a GPU.

    rewrite:  for t: for i: B[i] = f(A[i - 1 : i + 2]); for i: A[i] = f(B[i - 1 : i + 2])
              ->  for every T steps:
                      block x for i_t: A_box = A[i_t - 2 T : i_t + size + 2 T]
                                       T steps in A_box and B_box, with barriers between statements
                                       A_next[i_t : i_t + size] = its elements of A_box
                      A_next is A of the next steps
    needs:    the program is a stencil (analysis/find_time_stencil)
    refuses:  IllegalStep with the reason why it is none

    There is one launch for T steps. What neighbours compute twice they compute alike (TileTime).
    """

    kind: ClassVar[str] = "tile_time_in_blocks"

    steps: int
    sizes: tuple[int, ...]  # elements of a tile, in each dimension of the grids
    rows: int  # of threads, along the last dimension but one; 1 where there is one dimension
    columns: int  # two or more
    each: int = 1  # neighbours that a thread computes at once, of a column or of a line

    def __post_init__(self) -> None:
        require_tiles(self, self.steps, self.sizes)
        if self.rows < 1 or self.columns < 2 or (len(self.sizes) == 1 and self.rows > 1):
            raise UsageError(f"{self.kind} takes threads along dimensions of the grids", str(self))
        if self.each < 1:
            raise UsageError(f"threads of {self.kind} compute one element or more", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        found = require_stencil(self, schedule, self.sizes)
        tiles = TimeTiles(found, self.steps, self.sizes, (self.rows, self.columns), self.each)
        return replace(schedule, time_tiles=tiles)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[TileTimeInBlocks]:
        for rank in stencil_ranks(schedule):
            yield cls(2, (5,) * rank, 1 if rank == 1 else 2, 4, 3)


def require_tiles(step: Step, steps: int, sizes: Sequence[int]) -> None:
    if not 1 <= steps <= MOST_STEPS:
        raise UsageError(f"{step.kind} takes 1 to {MOST_STEPS} steps", str(step))
    if not sizes or min(sizes) < 1:
        raise UsageError(f"{step.kind} takes tiles of one element or more", str(step))


def require_moved(step: Step, program: Program, stencil: TimeStencil) -> None:
    """Refuse elements that DMA does not move."""
    for name in (*(name for name, _ in stencil.boxes), *stencil.lines):
        size = program.array(name).dtype.bytes
        if size % _UNIT:
            refuse(step, f"elements of {size} bytes are not moved by DMA")


def _is_mapped(schedule: Schedule) -> bool:
    return bool(schedule.marks or schedule.contractions or schedule.closure or schedule.time_tiles)


def require_stencil(step: Step, schedule: Schedule, sizes: Sequence[int]) -> TimeStencil:
    """The stencil that the program is; refused where it is none of as many dimensions."""
    if _is_mapped(schedule):
        refuse(step, "the loops are mapped already")
    found = find_time_stencil(schedule.program)
    if isinstance(found, str):
        refuse(step, found)
    if len(found.start) != len(sizes):
        refuse(step, f"the grids have {len(found.start)} dimensions")
    return found


def stencil_ranks(schedule: Schedule) -> Iterator[int]:
    """The dimensions of the grids, where the program is a stencil."""
    if not _is_mapped(schedule):
        found = find_time_stencil(schedule.program)
        if not isinstance(found, str):
            yield len(found.start)
