"""PlaneStream: the order in which the planes of a stencil pass through a scratchpad.

    position p of the stream:  brings plane p of a grid that is read
                               step 0:  S0 computes plane p - 1, S1 plane p - 2
                               step 1:  S0 computes plane p - 3, S1 plane p - 4
                               puts plane p - 4

A plane is what a grid has at one subscript of its first dimension. Statements overwrite planes in
their place, as the program does; of each grid the planes that are still used are a window.
"""

from __future__ import annotations

from loopwright.lazy_dataclass import dataclass

__all__ = ["PlaneStream", "StreamedGrid"]


@dataclass(frozen=True, slots=True)
class StreamedGrid:
    """When a stream of one step uses plane q of a grid: at positions q + first to q + last."""

    name: str
    first: int
    last: int
    written: int | None  # the last write; None: nobody writes it
    # Of a grid of which a step reads what it has made: elements that nobody writes, before and
    # behind those that are written, in each dimension but the first, at most. None of other grids.
    edges: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class PlaneStream:
    """Statement s of step t computes plane p - (delays[s] + rate * t) at position p."""

    rate: int
    delays: tuple[int, ...]  # of the statements, in the order of a step
    grids: tuple[StreamedGrid, ...]

    def grid(self, name: str) -> StreamedGrid:
        """What the stream does with a grid."""
        return next(grid for grid in self.grids if grid.name == name)

    def window(self, name: str, steps: int) -> int:
        """Planes of a grid in the scratchpad; of those that are brought whole, one comes ahead."""
        grid = self.grid(name)
        return grid.last - grid.first + 1 + self.rate * (steps - 1) + (grid.edges is None)
