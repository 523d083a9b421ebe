"""How arrays are dealt over a grid of processes: block-cyclic in some dimensions, whole in others.

Block k of a dimension that is dealt over c processes lies on process k mod c, as its local block
k div c (the distribution of ScaLAPACK). A dimension that is not dealt is whole on every process.
The local part of an array is one array: its blocks side by side, in the order of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass

__all__ = ["BlockLayout", "BlockedDimension", "ProcessGrid", "Segment", "grid_for"]


@dataclass(frozen=True, slots=True)
class ProcessGrid:
    """Processes in rows and columns, numbered row by row."""

    rows: int
    columns: int

    @property
    def size(self) -> int:
        return self.rows * self.columns

    def place(self, rank: int) -> tuple[int, int]:
        """The row and the column of a rank."""
        return divmod(rank, self.columns)

    def count(self, axis: int | None) -> int:
        """Processes along an axis: 0 runs over the rows, 1 over the columns, None has one."""
        return 1 if axis is None else (self.rows, self.columns)[axis]

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}"


def grid_for(ranks: int, asked: str = "") -> ProcessGrid:
    """The grid that was asked for as 'PxQ', or the one of these ranks nearest to a square."""
    if not asked:
        rows = next(p for p in range(math.isqrt(ranks), 0, -1) if ranks % p == 0)
        return ProcessGrid(rows, ranks // rows)
    words = asked.lower().split("x")
    if len(words) != 2 or not all(word.isdecimal() and int(word) for word in words):
        raise UsageError("a grid is written as rows x columns", found=repr(asked), hint="2x3")
    grid = ProcessGrid(int(words[0]), int(words[1]))
    if grid.size != ranks:
        raise UsageError(
            f"a grid of {grid} has {grid.size} processes",
            found=f"{ranks} ranks",
            hint=f"mpirun -n {grid.size}, or a grid of {grid_for(ranks)}",
        )
    return grid


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring elements of a dimension that are neighbours in the local array as well."""

    start: int  # in the whole array
    local: int  # in the local one
    length: int


@dataclass(frozen=True, slots=True)
class BlockedDimension:
    """One dimension of an array: its extent, its blocks, and the axis of the grid they go over."""

    extent: int
    block: int
    axis: int | None = None  # 0: rows of the grid, 1: columns, None: whole on every process

    @property
    def blocks(self) -> int:
        return -(-self.extent // self.block)

    def size_of(self, block: int) -> int:
        """Elements of a block; the last one may be smaller than the others."""
        return min(self.block, self.extent - block * self.block)

    def local_extent(self, position: int, count: int) -> int:
        """Elements on process `position` of the `count` that the dimension is dealt over."""
        if self.axis is None:
            return self.extent
        full, rest = divmod(self.extent, self.block)
        mine = (full // count + (position < full % count)) * self.block
        return mine + (rest if full % count == position else 0)

    def segments(self, position: int, count: int) -> Iterator[Segment]:
        """What process `position` has, in order."""
        if self.axis is None or count == 1:
            if self.extent:
                yield Segment(0, 0, self.extent)
            return
        for local, block in enumerate(range(position, self.blocks, count)):
            yield Segment(block * self.block, local * self.block, self.size_of(block))

    def find(self, block: int, count: int) -> tuple[int, slice]:
        """The process that has a block, and where in its local array."""
        if self.axis is None:
            start = block * self.block
            return 0, slice(start, start + self.size_of(block))
        start = block // count * self.block
        return block % count, slice(start, start + self.size_of(block))


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """How a whole array is dealt: its dimensions, over the axes of a grid."""

    grid: ProcessGrid
    dimensions: tuple[BlockedDimension, ...]

    def __post_init__(self) -> None:
        axes = [d.axis for d in self.dimensions if d.axis is not None]
        if len(set(axes)) < len(axes):
            raise UsageError("an axis of the grid takes one dimension of an array", found=str(axes))
        if any(d.block < 1 or d.extent < 0 for d in self.dimensions):
            raise UsageError("blocks have at least one element", found=str(self.dimensions))

    @classmethod
    def matrix(cls, grid: ProcessGrid, shape: tuple[int, int], block: int) -> BlockLayout:
        """The layout of a matrix with square blocks, dealt over rows and columns."""
        return cls(grid, tuple(BlockedDimension(n, block, axis) for axis, n in enumerate(shape)))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.extent for d in self.dimensions)

    def local_shape(self, rank: int) -> tuple[int, ...]:
        """The shape of what a rank has."""
        place = self.grid.place(rank)
        return tuple(
            d.local_extent(0 if d.axis is None else place[d.axis], self.grid.count(d.axis))
            for d in self.dimensions
        )

    def pieces(self, rank: int) -> Iterator[tuple[Segment, ...]]:
        """The boxes of the whole array that a rank has, the last dimension fastest."""
        place = self.grid.place(rank)
        yield from product(
            *(
                tuple(d.segments(0 if d.axis is None else place[d.axis], self.grid.count(d.axis)))
                for d in self.dimensions
            )
        )

    def owners(self, rank: int) -> int:
        """The least rank with the same part: itself unless some axis of the grid is unused."""
        place = list(self.grid.place(rank))
        used = {d.axis for d in self.dimensions}
        row, column = (at if axis in used else 0 for axis, at in enumerate(place))
        return row * self.grid.columns + column

    def describe(self) -> dict[str, object]:
        """The layout as numbers, for fingerprints and files."""
        return {
            "grid": [self.grid.rows, self.grid.columns],
            "dimensions": [[d.extent, d.block, d.axis] for d in self.dimensions],
        }
