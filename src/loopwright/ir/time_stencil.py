"""TimeStencil: a time loop over statements that update grids from near neighbours."""

from __future__ import annotations

from loopwright.ir.expr import Expr
from loopwright.ir.plane_stream import PlaneStream
from loopwright.lazy_dataclass import dataclass

__all__ = ["Growth", "StencilStatement", "TimeStencil", "TimeTiles", "beyond"]


@dataclass(frozen=True, slots=True)
class Growth:
    """Elements beyond a tile, on both sides of each dimension: base + rate * steps."""

    low: tuple[tuple[int, int], ...]  # base and rate of each dimension, towards smaller subscripts
    high: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class StencilStatement:
    """One statement of a time step; it writes each element of a box of a grid once."""

    name: str
    array: str  # that it writes
    # For each dimension of the grid the iterator that moves along it ("": none) and the number or
    # expression that is added to it.
    iterators: tuple[str, ...]
    shifts: tuple[Expr, ...]
    low: tuple[Expr, ...]  # the elements that it writes, from these on
    stop: tuple[Expr, ...]  # up to before these
    # Beyond a tile, in a step that `steps` others follow: what must be computed for the tile.
    region: Growth

    def beyond(self, left: int) -> tuple[int, ...]:
        """Elements beyond a tile in each dimension, in a step that `left` others follow."""
        sides = zip(self.region.low, self.region.high, strict=True)
        return tuple(low[0] + high[0] + (low[1] + high[1]) * left for low, high in sides)


@dataclass(frozen=True, slots=True)
class TimeStencil:
    """`for t in [first, stop): S1; S2; ...`, each S a nest over a box of elements of a grid.

    A statement reads elements at constant distances from the one that it writes, none of them
    written by itself in the same step. So the elements of a tile after some steps follow from those
    of a larger box before them.
    """

    time: str
    first: Expr
    stop: Expr
    # The elements of grids that statements access: from the first ones up to before the others.
    start: tuple[Expr, ...]
    end: tuple[Expr, ...]
    statements: tuple[StencilStatement, ...]  # in the order of a step
    carried: tuple[str, ...]  # grids whose elements a step reads from the one before
    made: tuple[str, ...]  # grids of which a step reads what it has made, or what nobody writes
    fixed: tuple[str, ...]  # grids that nobody writes
    lines: tuple[str, ...]  # arrays of one dimension, of which step t reads element t
    boxes: tuple[tuple[str, Growth], ...]  # of each grid, in a block of `steps`


@dataclass(frozen=True, slots=True)
class TimeTiles:
    """A stencil in overlapped tiles: some steps of a tile are computed in memory near by.

    That is the scratchpad of a core of a mesh, or the shared memory of a block of a GPU.
    """

    stencil: TimeStencil
    steps: int  # at most, before results go to main memory
    sizes: tuple[int, ...]  # elements of a tile in each dimension
    threads: tuple[int, int] | None = None  # rows and columns of a block's; None: on a mesh
    each: int = 1  # neighbours that a thread computes at once, of a column or of a line
    stream: PlaneStream | None = None  # planes along the first dimension pass one by one

    def extents(self, array: str) -> tuple[int, ...]:
        """Elements of the box of a grid, at most; of one whose planes stream, of its window."""
        growth = dict(self.stencil.boxes)[array]
        sides = zip(self.sizes, growth.low, growth.high, strict=True)
        found = tuple(
            size + beyond(low, self.steps) + beyond(high, self.steps) for size, low, high in sides
        )
        return found if self.stream is None else (self.stream.window(array, self.steps), *found[1:])

    def __str__(self) -> str:
        box = " x ".join(map(str, self.sizes))
        way = "" if self.stream is None else ", planes of the first dimension stream"
        return f"tiles of {box} elements, {self.steps} steps at a time{way}"


def beyond(growth: tuple[int, int], steps: int) -> int:
    """Elements beyond a tile for so many steps."""
    base, rate = growth
    return max(base + rate * steps, 0)
