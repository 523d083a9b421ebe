"""Tile sizes of products on a mesh: register tiles, windows and strips, all sizes at once.

A nest of three loops, two of them dealt out, whose sums are done in register tiles of 4 rows and up
to 4 vectors (`register_tiles`). Boxes that cores have in common come as parts of panels, and
are given from core to core in windows: of some steps of the sum, and of some iterations, a strip,
of one of the other two loops. The longer a window is, the less often sums are loaded and stored;
the more memory it takes, the smaller is the tile of results, and the more often panels come. All
sizes are priced at once, as vectors of NumPy.

    cycles = boxes that are moved while nobody computes + max(panels, work of the core with most)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import ceil
from typing import Any, TypeAlias

import numpy as np

from loopwright.ir.mesh_machine import MeshMachine
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.dma_model import DmaRequest, request_service_cycles
from loopwright.planner.mesh_plans.mesh_cover import TileCover
from loopwright.planner.mesh_plans.mesh_tiles import MovedBox, NestWork, TiledLoop, TileSizes

__all__ = ["product_sizes"]

_Numbers: TypeAlias = Any  # a vector of NumPy, or one number for all
_Sizes: TypeAlias = Mapping[str, _Numbers]  # of all candidates, by the name of the loop
_LANES = 4
_STEPS = (8, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256)  # of a panel, and of a window
_PAIRS = tuple((s, window) for s in _STEPS for window in _STEPS if s % window == 0)
# Where both operands lie along the steps, blocks are as long as panels are deep.
_FINE_PAIRS = tuple(
    (many * window, window)
    for window in (8, 12, 16, 20, 24, 28, 32, 40, 48)
    for many in range(1, 17)
    if 24 <= many * window <= 256
)
_ANY = (8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 144, 192, 256)
_STRIPS = (16, 32, 48)
_HEIGHTS, _LARGE = (4, 2, 1), 16  # rows of register tiles, vectors of the largest
_ROW_UNITS, _LANE_UNITS = (1, 2, 4), (4, 16)  # tiles are multiples of one of them
_MOST_TURNS = 16  # of a loop that is dealt out
_LEAST, _MOST = 8, 256  # iterations of a tile
_GAP = 4096  # bytes between blocks: any
_WIDEST = 1 << 32  # bytes of a block, and more
_VECTOR = 32  # bytes
_LINE = 128  # bytes: boxes begin at multiples
_LEAST_ELEMENT = 4  # bytes
# Cycles of a core, as dry runs of generated code count them.
_GIVE_CYCLES = 2.65  # a vector that one gives and the others take, and its own copies
_ROW_CYCLES, _RAGGED_ROW_CYCLES = 2.0, 4.0  # each row of them; where four vectors do not divide it
_ROOT_CYCLES = 33.0  # a core of a row or column that gives: all meet
_WINDOW_CYCLES = 110.0
_STRIP_CYCLES = 20.0
_PANEL_CYCLES = 150.0
_FACTOR_CYCLES = 2.0  # an element of a factor that is written down
_TURN_CYCLES = 3.0  # an element of a part that is transposed


def product_sizes(
    loops: Sequence[TiledLoop],
    boxes: Sequence[MovedBox],
    work: NestWork,
    machine: MeshMachine,
    shape: tuple[int, int],
    room: int,
) -> TileSizes | None:
    """The sizes that take the least time; None where the nest is no such product, or none fits."""
    if not _is_product(loops, boxes, work):
        return None
    if work.cover is not None:  # trips are those of the middle row
        trips = (work.cover.rows, work.cover.columns, loops[2].trips)
        loops = [replace(loop, trips=many) for loop, many in zip(loops, trips, strict=True)]
    names = [loop.name for loop in loops]
    # Strips of tiles that are cut by a slope would begin elsewhere on each core.
    offered = (_PAIRS, _STRIPS) if work.cover is None else (_FINE_PAIRS, ())
    chosen, cuts = _candidates(loops, shape, work.lane, room, *offered)
    tiles = dict(zip(names, chosen.T, strict=True))
    inside = dict(zip(names, cuts.T, strict=True))
    model = _Prices(loops, boxes, work, machine, shape)
    fits = model.memory(tiles, inside) <= room
    if not fits.any():
        return None
    chosen, cuts = chosen[fits], cuts[fits]
    tiles = dict(zip(names, chosen.T, strict=True))
    inside = dict(zip(names, cuts.T, strict=True))
    cycles = model.cycles(tiles, inside)
    best = int(np.argmin(cycles))
    whole = {name: int(size) for name, size in zip(names, chosen[best], strict=True)}
    part = {name: int(size) for name, size in zip(names, cuts[best], strict=True)}
    strips = {name: part[name] for name in names[:2] if part[name] < whole[name]}
    return TileSizes(whole, {names[2]: part[names[2]]}, float(cycles[best]), strips)


def _is_product(
    loops: Sequence[TiledLoop], boxes: Sequence[MovedBox], work: NestWork
) -> bool:  # fmt: skip
    """Whether two loops are dealt out and the third one adds up, with some boxes in common."""
    if len(loops) != 3 or not work.is_vector or any(loop.is_single for loop in loops):
        return False
    rows, columns, steps = loops
    is_mapped = (rows.axis, columns.axis, steps.axis) == (0, 1, -1)
    shared = [box for box in boxes if box.shared > 1]
    return (
        is_mapped
        and {work.lane, work.row} == {rows.name, columns.name}
        and bool(shared)
        and all(box.window == steps.name for box in shared)
    )


def _candidates(
    loops: Sequence[TiledLoop],
    shape: tuple[int, int],
    lane: str,
    room: int,
    pairs: Sequence[tuple[int, int]],  # steps of a panel, and of a window
    strips: Sequence[int],
) -> tuple[_Numbers, _Numbers]:
    """Sizes of tiles that are tried, and of the windows inside, one row for each choice."""
    rows, columns, steps = loops
    mapped = [
        _tiles(loop, cores, _LANE_UNITS if loop.name == lane else _ROW_UNITS)
        for loop, cores in zip((rows, columns), shape, strict=True)
    ]
    inner = [pair for pair in pairs if pair[0] < 2 * steps.trips] or [pairs[0]]
    outer: list[tuple[int, ...]] = []
    for one, other in product(*mapped):
        if one * other * _LEAST_ELEMENT > room:
            continue
        outer.append((one, other, one, other))
        outer += [(one, other, s, other) for s in strips if s < one]
        outer += [(one, other, one, s) for s in strips if s < other]
    tiles = np.repeat(np.array(outer).reshape(-1, 4), len(inner), axis=0)
    panels = np.tile(np.array(inner), (len(outer), 1))
    whole = np.column_stack([tiles[:, :2], panels[:, 0]])
    return whole, np.column_stack([tiles[:, 2:], panels[:, 1]])


def _tiles(loop: TiledLoop, cores: int, units: tuple[int, ...]) -> list[int]:
    """Sizes of a loop that is dealt out: with the last turn of its tiles full, where that is known.

    Rows are done by fours, then by two and by one; of columns, tiles of 16 need no smaller ones
    beside them.
    """
    if not loop.is_known:
        return [s for s in _ANY if s < 2 * loop.trips] or [_ANY[0]]
    found: set[int] = set()
    for turns in range(1, _MOST_TURNS + 1):
        for by in units:
            found.add(ceil(loop.trips / (cores * turns) / by) * by)
    return sorted(s for s in found if _LEAST <= s <= _MOST) or [max(_LEAST, min(found))]


@dataclass(frozen=True, slots=True)
class _Prices:
    """The time and the memory of a nest, by vectors of sizes."""

    loops: Sequence[TiledLoop]
    boxes: Sequence[MovedBox]
    work: NestWork
    machine: MeshMachine
    shape: tuple[int, int]

    def memory(self, tiles: _Sizes, inside: _Sizes) -> _Numbers:
        """Bytes of a scratchpad."""
        total = sum(
            (_bytes(_product_of([inside[a], _up(inside[b], _LANES)]), self.work.element)
             for a, b in self.work.factors),
            start=np.zeros(1),
        )  # fmt: skip
        for box in self.boxes:
            sides = _extents(box, tiles)
            if box.shared == 1:
                total = total + _bytes(_product_of(sides), box.element * (1 + box.is_ahead))
                continue
            part = [_over(sides[0], box.shared * box.unit) * box.unit, *sides[1:]]
            window = _extents(box, inside)
            window[0] = _up(window[0], box.unit)
            window[-1] = _up(window[-1], max(1, _VECTOR // box.element))
            total = total + _bytes(_product_of(part), 2 * box.element)
            total = total + _bytes(_product_of(window), box.element)
        return total

    def cycles(self, tiles: _Sizes, inside: _Sizes) -> _Numbers:
        """About the cycles of the nest."""
        counts = [np.ceil(loop.trips / tiles[loop.name]) for loop in self.loops]
        *_, steps = (loop.name for loop in self.loops)
        if self.work.cover is not None:
            return self._covered(self.work.cover, tiles, inside)
        busy = self.work.instances * self._instance(tiles, inside, steps)
        moved: dict[bool, _Numbers] = {False: 0.0, True: 0.0}
        panels = _product_of(counts)
        windows = panels * np.ceil(tiles[steps] / inside[steps])
        for name in (self.work.row, self.work.lane):
            busy = busy + windows * (_over(tiles[name], inside[name]) - 1) * _STRIP_CYCLES
        busy = busy + panels * _PANEL_CYCLES + windows * _WINDOW_CYCLES
        for box in self.boxes:
            sides = _extents(box, tiles)
            times = box.ways * _product_of(counts[: box.depth])
            rows = sides[-2] if len(sides) > 1 else 1
            if box.shared == 1:
                requests = times * _product_of(sides[:-2])
                one = self._request(rows, sides[-1] * box.element)
                moved[box.is_ahead] = moved[box.is_ahead] + requests * one
                continue
            shares = np.minimum(box.shared, sides[0])
            width = sides[-1] * box.element
            part = (
                self._request(_over(rows, shares), width)
                if len(sides) > 1
                else self._request(1, _over(width, shares))
            )
            moved[True] = moved[True] + times * self._turns(box, counts) * shares * part
            busy = busy + times * self._given(box, tiles, inside)
        for a, b in self.work.factors:
            busy = busy + windows * inside[a] * inside[b] * _FACTOR_CYCLES
        busy = busy / (self.machine.cores * self._balance(tiles))
        return moved[False] + np.maximum(moved[True], busy)

    def _covered(self, cover: TileCover, tiles: _Sizes, inside: _Sizes) -> _Numbers:
        """Cycles of a nest whose tiles are no rectangle: those of all turns that are not empty."""
        rows, columns, steps = (loop.name for loop in self.loops)
        down, across = self.shape
        turns = cover.tiles(down * tiles[rows], across * tiles[columns])
        own = cover.tiles(tiles[rows], tiles[columns])
        panels = np.ceil(self.loops[2].trips / tiles[steps])
        windows = panels * np.ceil(tiles[steps] / inside[steps])
        busy = tiles[rows] * tiles[columns] * panels * tiles[steps]
        busy = busy * self._instance(tiles, inside, steps) * self.work.products
        busy = busy + panels * _PANEL_CYCLES + windows * _WINDOW_CYCLES
        alone: _Numbers = 0.0  # moved while nobody computes
        ahead: _Numbers = 0.0  # in a turn
        for box in self.boxes:
            sides = _extents(box, tiles)
            height = sides[-2] if len(sides) > 1 else 1
            if box.shared == 1:
                alone = alone + own * box.ways * self._request(height, sides[-1] * box.element)
                continue
            cores = across if box.shared == down and self._moves(box, columns) else down
            part = _over(sides[0], box.shared * box.unit) * box.unit
            givers = _over(sides[0], part)
            one = self._request(part, sides[-1] * box.element)
            ahead = ahead + cores * givers * one
            busy = busy + panels * self._given(box, tiles, inside)
            if box.unit > 1:
                busy = busy + windows * part * inside[steps] * _TURN_CYCLES
        for a, b in self.work.factors:
            busy = busy + windows * inside[a] * inside[b] * _FACTOR_CYCLES
        # Of an odd number the first panel of a turn comes while nobody computes, and of an even one
        # that of the first turn (`lower/contraction_nests/panels_ahead`).
        odd = turns * (ahead + np.maximum((panels - 1) * ahead, busy))
        even = ahead + turns * np.maximum(panels * ahead, busy)
        return alone + np.where(panels % 2 == 0, even, odd)

    def _moves(self, box: MovedBox, loop: str) -> bool:
        return any(name == loop for side, _ in box.sides for name, _ in side)

    def _given(self, box: MovedBox, tiles: _Sizes, inside: _Sizes) -> _Numbers:
        """Cycles of a core for all windows of a panel that it gives or takes."""
        *_, steps = (loop.name for loop in self.loops)
        sides, window = _extents(box, tiles), _extents(box, inside)
        moving = {name for side, _ in box.sides for name, _ in side}
        windows = np.ceil(tiles[steps] / inside[steps]) if steps in moving else 1
        strips = _product_of(
            [_over(tiles[n], inside[n]) for n in moving if n in tiles and n != steps]
        )
        part = _over(sides[0], box.shared * box.unit) * box.unit
        givers = np.minimum(np.ceil(window[0] / part) + (window[0] % part != 0), box.shared)
        # Strips together are a whole tile: the last one is narrower.
        all_strips = _extents(box, {**tiles, steps: inside[steps]})
        width = window[-1] * box.element
        along = {name for name, _ in box.sides[-1][0]} - {steps}
        rows = _product_of(all_strips[:-1]) * (strips if along else 1)
        vectors = _product_of(all_strips[:-1]) * _over(all_strips[-1] * box.element, _VECTOR)
        each: _Numbers = np.where(width % (4 * _VECTOR) == 0, _ROW_CYCLES, _RAGGED_ROW_CYCLES)
        if box.unit > 1:  # rows lie along the first dimension, and go by four vectors
            rows, each = vectors / 4, _ROW_CYCLES
        return windows * (vectors * _GIVE_CYCLES + rows * each + strips * givers * _ROOT_CYCLES)

    def _instance(self, tiles: _Sizes, inside: _Sizes, steps: str) -> _Numbers:
        """Cycles of an instance in register tiles of a window."""
        rows, lanes, depth = tiles[self.work.row], tiles[self.work.lane], inside[steps]
        strip, last = inside[self.work.lane], lanes % inside[self.work.lane]
        total, left = 0.0, rows
        for height in _HEIGHTS:
            many, left = left // height, left % height
            cycles = lanes // strip * self._of_rows(height, strip, depth)
            total += many * (cycles + np.where(last, self._of_rows(height, last, depth), 0.0))
        return total / (rows * lanes * depth)

    def _of_rows(self, height: int, lanes: _Numbers, depth: _Numbers) -> _Numbers:
        """Cycles for some rows of a window, in register tiles of that height."""
        latency = self.machine.fma_latency or 4.0
        cycles = 10.0 + 0.0 * lanes  # loops
        left = lanes
        for vectors in (4, 2, 1, 0) if height > 1 else (4, 1, 0):
            wide = vectors * _LANES or 1
            many, left = left // wide, left % wide
            sums = height * max(vectors, 1)
            each = max(float(sums), 1.0 + height + max(vectors, 1), latency)
            # The first and the last step of large tiles stand beside loads and stores of sums.
            ends = sums + 6 if height * vectors == _LARGE else 2 * sums + 4
            cycles = cycles + many * (depth * each + ends)
        return cycles

    def _turns(self, box: MovedBox, counts: Sequence[_Numbers]) -> _Numbers:
        """Panels that a row or column brings in, for each tile: fewer, where all cores have one."""
        used = {name for side, _ in box.sides for name, _ in side}
        for loop, count in zip(self.loops, counts, strict=True):
            if loop.axis >= 0 and loop.name not in used:
                turns = count / box.shared
                return (np.ceil(turns) if loop.is_known else turns + 0.5) / count
        return 1.0

    def _request(self, rows: _Numbers, width: _Numbers) -> _Numbers:
        """Cycles of the queue for requests of some blocks."""
        # Few are different: one number for each pair is sorted faster than pairs are.
        keys = np.asarray(rows, dtype=np.int64) * _WIDEST + np.asarray(width, dtype=np.int64)
        found, place = np.unique(keys, return_inverse=True)
        prices = [
            request_service_cycles(self.machine, DmaRequest(r, w, _GAP if r > 1 else 0))
            for r, w in (divmod(int(key), _WIDEST) for key in found)
        ]
        return np.array(prices)[place.reshape(keys.shape)]

    def _balance(self, tiles: _Sizes) -> _Numbers:
        """The part of the cores' time that they work, with tiles dealt out in turns."""
        part: _Numbers = self.shape[0] * self.shape[1] / self.machine.cores
        for loop, cores in zip(self.loops, self.shape, strict=False):
            turn = cores * tiles[loop.name]
            # Of extents that nobody knows the last turn is half full.
            whole = np.ceil(loop.trips / turn) * turn if loop.is_known else loop.trips + turn / 2
            part = part * np.minimum(1.0, loop.trips / whole)
        return part


def _extents(box: MovedBox, sizes: _Sizes) -> list[_Numbers]:
    """Elements of a box in every dimension."""
    return [
        1 + beyond + sum(abs(c) * (sizes[name] - 1) for name, c in side if name in sizes)
        for side, beyond in box.sides
    ]


def _product_of(factors: Sequence[_Numbers]) -> _Numbers:
    found: _Numbers = 1
    for factor in factors:
        found = found * factor
    return found


def _over(x: _Numbers, by: _Numbers) -> _Numbers:
    return -(-x // by)


def _up(x: _Numbers, by: int) -> _Numbers:
    return _over(x, by) * by


def _bytes(elements: _Numbers, size: int) -> _Numbers:
    """Bytes that boxes of so many elements take: they begin at lines."""
    return _up(elements * size, _LINE)
