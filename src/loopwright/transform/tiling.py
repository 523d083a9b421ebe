"""Tile and StripMine: split loops into a loop over tiles and a loop inside the tile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import context, isl
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, Node, bands, nodes_of
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.interchange import nested_chain, open_chains, rebuilt_chain
from loopwright.transform.schedule_legality import reordered, require_unmarked
from loopwright.transform.step import Step

__all__ = [
    "StripMine",
    "Tile",
    "strips_of",
]


# What `candidates` offers; `apply` takes any size.
SIZES = (4, 16, 64)


@dataclass(frozen=True, slots=True)
class Tile(Step):
    """Split each loop of a nest into a loop over tiles and a loop inside the tile.

    rewrite:  for i in [0, n): for j in [0, m): S(i, j)
              ->  for i_t in [0, n) step T: for j_t in [0, m) step U:
                    for i in [i_t, min(i_t + T, n)): for j in [j_t, min(j_t + U, m)): S(i, j)
    needs:    the loops stand directly inside each other and may be interchanged
    refuses:  IllegalStep with the reversed dependence
    """

    kind: ClassVar[str] = "tile"

    loops: tuple[str, ...]  # directly nested, outermost first
    sizes: tuple[int, ...]  # iterations of each loop in one tile

    def __post_init__(self) -> None:
        _require_sizes(self, self.loops, self.sizes)

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        require_unmarked(self, schedule, self.loops)
        return reordered(self, schedule, _tiled(self, schedule, root, self.loops, self.sizes))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Tile]:
        """Square tiles of every run of two or more nested loops."""
        for names in open_chains(schedule):
            for first in range(len(names)):
                for last in range(first + 2, len(names) + 1):
                    for size in SIZES:
                        yield cls(names[first:last], (size,) * (last - first))


@dataclass(frozen=True, slots=True)
class StripMine(Step):
    """Split one loop into a loop over strips and a loop inside the strip.

    rewrite:  for i in [0, n): S(i)
              ->  for i_t in [0, n) step T: for i in [i_t, min(i_t + T, n)): S(i)
    needs:    nothing; the order stays the same
    refuses:  IllegalStep when there is no such loop
    """

    kind: ClassVar[str] = "strip_mine"

    loop: str
    size: int  # iterations in one strip

    def __post_init__(self) -> None:
        _require_sizes(self, (self.loop,), (self.size,))

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        require_unmarked(self, schedule, [self.loop])
        return reordered(self, schedule, _tiled(self, schedule, root, (self.loop,), (self.size,)))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[StripMine]:
        for names in open_chains(schedule):
            for loop in names:
                for size in SIZES:
                    yield cls(loop, size)


def _require_sizes(step: Step, loops: tuple[str, ...], sizes: tuple[int, ...]) -> None:
    if not loops or len(set(loops)) != len(loops) or len(loops) != len(sizes):
        raise UsageError(f"{step.kind} takes different loops and one size for each", str(step))
    if min(sizes) < 1:
        raise UsageError(f"{step.kind} takes sizes of at least 1", str(step))


def _tiled(
    step: Step, schedule: Schedule, root: Node, loops: tuple[str, ...], sizes: tuple[int, ...]
) -> Node:
    points = nested_chain(step, schedule, root, loops)
    taken = {band.loop for band in bands(root)}
    size_of = dict(zip(loops, sizes, strict=True))
    tiles: list[Band] = []
    for point in points:
        tiles.append(strips_of(point, size_of[point.loop], taken))
        taken.add(tiles[-1].loop)
    return rebuilt_chain(root, points, [*tiles, *points])


def strips_of(point: Band, size: int, taken: set[str]) -> Band:
    """The loop over the first values of the strips of `point`: size * floor(f / size)."""
    name = fresh_name(f"{point.loop}_t", taken)
    count = isl.Val.int_from_si(context(), size)
    first = point.partial.scale_down_val(count).floor().scale_val(count)
    return Band(name, first.set_tuple_name(isl.dim_type.set, name), point.child)
