"""Tile, TileWithin and StripMine: split loops into a loop over tiles and a loop inside the tile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import isl, isl_integer
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
    "TileWithin",
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
class TileWithin(Step):
    """Split each loop of a nest again, inside of tiles that are there: with each of them anew.

    rewrite:  for j_t in [0, m) step 140: for j in [j_t, min(j_t + 140, m)): S(j)
              ->  for j_t in [0, m) step 140: for j_t_2 in [j_t, min(j_t + 140, m)) step 48:
                    for j in [j_t_2, min(j_t_2 + 48, j_t + 140, m)): S(j)
    needs:    the loops stand directly inside each other and may be interchanged
    refuses:  IllegalStep with the reversed dependence
    """

    kind: ClassVar[str] = "tile_within"

    loops: tuple[str, ...]  # directly nested, outermost first
    sizes: tuple[int, ...]  # iterations of each loop in one tile
    within: tuple[int, ...]  # and in the tiles that are there

    def __post_init__(self) -> None:
        _require_sizes(self, self.loops, self.sizes)
        _require_sizes(self, self.loops, self.within)

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        require_unmarked(self, schedule, self.loops)
        tiled = _tiled(self, schedule, root, self.loops, self.sizes, self.within)
        return reordered(self, schedule, tiled)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[TileWithin]:
        """Two sizes that do not divide each other, of every run of two loops."""
        for names in open_chains(schedule):
            for first in range(len(names) - 1):
                yield cls(names[first : first + 2], (3, 3), (7, 7))


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
    step: Step,
    schedule: Schedule,
    root: Node,
    loops: tuple[str, ...],
    sizes: tuple[int, ...],
    within: tuple[int, ...] = (),
) -> Node:
    points = nested_chain(step, schedule, root, loops)
    taken = {band.loop for band in bands(root)}
    size_of = dict(zip(loops, sizes, strict=True))
    whole_of = dict(zip(loops, within or sizes, strict=True))
    tiles: list[Band] = []
    for point in points:
        size, whole = size_of[point.loop], whole_of[point.loop]
        tiles.append(strips_of(point, size, taken, whole if whole % size else 0))
        taken.add(tiles[-1].loop)
    return rebuilt_chain(root, points, [*tiles, *points])


def strips_of(
    point: Band,
    size: int,
    taken: set[str],
    within: int = 0,
    *,
    start: isl.MultiUnionPwAff | None = None,
) -> Band:
    """The loop over the first values of the strips of `point`: size * floor(f / size).

    In tiles of size `within` they begin anew. Strips are counted from `start` on, else from 0.
    """
    name = fresh_name(f"{point.loop}_t", taken)
    if start is not None:
        begin = start.set_tuple_name(isl.dim_type.set, point.loop)
        first = begin.add(_first_of(point.partial.sub(begin), size))
    elif within:
        tile = _first_of(point.partial, within)
        first = tile.add(_first_of(point.partial.sub(tile), size))
    else:
        first = _first_of(point.partial, size)
    return Band(name, first.set_tuple_name(isl.dim_type.set, name), point.child)


def _first_of(values: isl.MultiUnionPwAff, size: int) -> isl.MultiUnionPwAff:
    count = isl_integer(size)
    return values.scale_down_val(count).floor().scale_val(count)
