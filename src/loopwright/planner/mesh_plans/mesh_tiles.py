"""Tile sizes for a nest on a mesh of cores, by the bytes and blocks that DMA moves.

A core brings in a box of each array at the innermost tile loop that changes it. With n_b tiles of
the loops b and boxes of `rows` blocks and `bytes`, a box at loop L is moved n_1 * ... * n_L times,
each for `request + rows * block + bytes * byte` cycles of the queue that all cores share. Loops
that change no subscript of an array do not count: it stays in the scratchpad meanwhile.

A box that the cores of a row or column have in common is brought in once for all of them, each
bringing a part; of the panel that they hold together each gets a window at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from loopwright.ir.mesh_machine import MeshMachine
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.dma_model import DmaRequest, request_service_cycles
from loopwright.planner.mesh_plans.mesh_cover import TileCover

__all__ = [
    "MovedBox",
    "NestWork",
    "TileSizes",
    "TiledLoop",
    "best_sizes",
    "box_bytes",
    "far_cycles",
]

_FEW = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096)
# Of two loops boxes may fill the scratchpad: what is read beside a matrix is read less often then.
_FINE = tuple(sorted({*_FEW, 12, 20, 28, 40, 56, 80, 112, 160, 224, 320}))
_POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
# Of nests that are done by vectors: of loops that are dealt out, and of others.
_MAPPED = (8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 192, 256)
_INNER = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
# Of one or two loops, too: nearly all is used once, and long blocks count. Of two that are dealt
# out, a few rows.
_LONG = (384, 512, 1024, 2048, 4096)
_SHORT = (1, 2, 4)
_MOST_LOOPS = 3  # of which all sizes in _FEW are tried
_LINE = 128  # bytes: boxes begin at multiples
_CYCLES = 5.0  # of a core for an instance of a statement, data in the scratchpad
_VECTOR_CYCLES = 0.27  # where four of them are one operation on vectors
_EXCHANGE_CYCLES = 2.5  # of a core for a vector that one gives and the others take
_VECTOR = 32  # bytes
_PANEL_CYCLES = 200.0  # of a core for each panel, its requests and waits
_WINDOW_CYCLES = 200.0  # of a core for each window
_FACTOR_CYCLES = 2.0  # of a core for each element of a factor that is written down
_GAP = 4096  # bytes between blocks: any
_WINDOWS = (32, 16, 8)  # iterations of the loop inside of a panel
_FAR_CYCLES = 280.0  # of a core for an element in main memory (unchecked)

# All sizes that are tried are priced at once: what depends on them is a vector, one entry for each.
_Each: TypeAlias = Any  # an int or float that all have in common, or such a vector


@dataclass(frozen=True, slots=True)
class TiledLoop:
    """A loop that is cut into tiles."""

    name: str
    trips: float  # at likely sizes
    axis: int  # 0: along rows of the mesh, 1: columns, 2: all cores; -1: not mapped
    is_single: bool = False  # tiles of one iteration
    is_known: bool = True  # whether `trips` are more than a guess


@dataclass(frozen=True, slots=True)
class MovedBox:
    """Accesses to an array that share a box."""

    element: int  # bytes
    # For each dimension the coefficients of loops, by name, and elements beyond: offsets differ.
    sides: tuple[tuple[tuple[tuple[str, int], ...], int], ...]
    depth: int  # tile loops up to the one that stages it
    ways: int  # 1: in or out, 2: both
    is_ahead: bool  # two at a time, moved while others are used
    shared: int = 1  # cores that have it in common, each of which brings in a part
    window: str = ""  # of shared ones: the loop that goes through a panel in windows
    unit: int = 1  # of shared ones: parts have multiples of so many rows, and are transposed


@dataclass(frozen=True, slots=True)
class TileSizes:
    """The iterations of each loop in a tile, and of some in a window of a panel."""

    tiles: dict[str, int]
    windows: dict[str, int]
    cycles: float
    strips: dict[str, int] = field(default_factory=dict)  # parts of windows, along other loops


def extents(box: MovedBox, sizes: Mapping[str, _Each]) -> tuple[_Each, ...]:
    """Elements of a box in every dimension."""
    return tuple(
        1 + beyond + sum(abs(c) * (sizes.get(name, 1) - 1) for name, c in side)
        for side, beyond in box.sides
    )


def box_bytes(elements: int, size: int, buffers: int) -> int:
    """Bytes of a scratchpad that boxes of so many elements take."""
    return -(-elements * size * buffers // _LINE) * _LINE


def _ceil(each: _Each) -> _Each:
    return np.ceil(each).astype(np.int64)


@dataclass(frozen=True, slots=True)
class NestWork:
    """What a nest does beside moving boxes."""

    instances: float
    is_vector: bool = False  # four instances are one operation
    # Factors that are written down for each window, by the loops that they depend on.
    factors: tuple[tuple[str, str], ...] = ()
    element: int = 8  # bytes of a factor
    row: str = ""  # the loop of the rows of register tiles
    lane: str = ""  # of their vectors
    cover: TileCover | None = None  # of these two, where they are no rectangle
    products: int = 1  # of an instance


def best_sizes(
    loops: Sequence[TiledLoop],
    boxes: Sequence[MovedBox],
    work: NestWork,
    machine: MeshMachine,
    shape: tuple[int, int],
    room: int,
) -> TileSizes | None:
    """The sizes of the tiles that take the least time, and about how many cycles that is.

    None where not even tiles of one iteration fit into `room` bytes.
    """
    sizes = _FINE if len(loops) <= 2 else _FEW if len(loops) <= _MOST_LOOPS else _POWERS
    is_product = work.is_vector and len(loops) <= _MOST_LOOPS
    found: TileSizes | None = None
    if is_product and not any(loop.is_single for loop in loops):
        is_short = len(loops) < _MOST_LOOPS
        offered = [
            [
                s
                for s in (
                    *(_SHORT if is_short and loop.axis == 0 else ()),
                    *(_MAPPED if loop.axis >= 0 else _INNER),
                    *(_LONG if is_short else ()),
                )
                if s < 2 * loop.trips
            ]
            for loop in loops
        ]
        found = _best(offered, loops, boxes, work, machine, shape, room)
    if found is not None:
        return found
    offered = [
        [1] if loop.is_single else [s for s in sizes if s < 2 * loop.trips or s == 1]
        for loop in loops
    ]
    return _best(offered, loops, boxes, work, machine, shape, room)


def _best(
    offered: Sequence[Sequence[int]],
    loops: Sequence[TiledLoop],
    boxes: Sequence[MovedBox],
    work: NestWork,
    machine: MeshMachine,
    shape: tuple[int, int],
    room: int,
) -> TileSizes | None:
    """The best of the sizes that are offered for each loop."""
    model = _Model(loops, boxes, work, machine, shape, room)
    inner = {box.window for box in boxes if box.shared > 1}
    axes = np.meshgrid(*(np.array(sizes, np.int64) for sizes in offered), indexing="ij")
    tile = {loop.name: axis.ravel() for loop, axis in zip(loops, axes, strict=True)}
    count = prod(map(len, offered))
    longest: npt.NDArray[np.int64] = np.zeros(count, np.int64)
    for name in inner:
        longest = np.maximum(longest, tile[name])
    # The longest windows that fit: shorter ones only cost more.
    length = np.zeros(count, np.int64)
    is_open = np.ones(count, bool)
    whole = np.all([longest % w != 0 for w in _WINDOWS], axis=0)
    offers: list[tuple[_Each, _Each]] = [(w, longest % w == 0) for w in _WINDOWS]
    for tried, is_offered in (*offers, (longest, whole)):
        windows = {name: np.minimum(tried, tile[name]) for name in inner}
        fits = is_open & is_offered & (model.memory(tile, {**tile, **windows}) <= room)
        length = np.where(fits, tried, length)
        is_open &= ~fits
    (kept,) = np.nonzero(~is_open)
    if not len(kept):
        return None
    tile = {name: each[kept] for name, each in tile.items()}
    windows = {name: np.minimum(length[kept], tile[name]) for name in inner}
    cycles = np.broadcast_to(model.cycles(tile, windows), len(kept))
    least = int(np.argmin(cycles))
    return TileSizes(
        {name: int(each[least]) for name, each in tile.items()},
        {name: int(each[least]) for name, each in windows.items()},
        float(cycles[least]),
    )


@dataclass(slots=True)
class _Model:
    """The time of a nest by its sizes."""

    loops: Sequence[TiledLoop]
    boxes: Sequence[MovedBox]
    work: NestWork
    machine: MeshMachine
    shape: tuple[int, int]
    room: int
    known: dict[int, float] = field(default_factory=dict)  # cycles of requests

    def memory(self, tile: Mapping[str, _Each], inside: Mapping[str, _Each]) -> _Each:
        """Bytes of all boxes and factors; `inside` are the sizes in a window."""
        work, used = self.work, 0
        for loops in work.factors:
            used += box_bytes(_rounded([inside.get(name, 1) for name in loops]), work.element, 1)
        for box in self.boxes:
            used += self._memory(box, tile, inside)
        return used

    def cycles(self, tile: Mapping[str, _Each], windows: Mapping[str, _Each]) -> _Each:
        """About the cycles of the nest, where boxes fit."""
        work, inside = self.work, {**tile, **windows}
        counts = [np.maximum(1, _ceil(loop.trips / tile[loop.name])) for loop in self.loops]
        busy = work.instances * (_VECTOR_CYCLES if work.is_vector else _CYCLES)
        moved: dict[bool, _Each] = {False: 0.0, True: 0.0}
        for box in self.boxes:
            sides = extents(box, tile)
            times = box.ways * prod(counts[: box.depth])
            requests, rows = prod(sides[:-2]), sides[-2] if len(sides) > 1 else 1
            width = sides[-1] * box.element
            if box.shared == 1:
                moved[box.is_ahead] += times * requests * self._request(rows, width)
                continue
            shares = np.minimum(box.shared, sides[0])  # of a few rows there are fewer parts
            part = self._request(*(
                (-(-rows // shares), width) if len(sides) > 1 else (1, -(-width // shares))
            ))  # fmt: skip
            moved[True] += times * self._turns_for_all(box, counts) * shares * part
            vectors = prod(sides[:-1]) * _ceil(width / _VECTOR)
            many = _ceil(tile[box.window] / windows[box.window])
            busy += times * (vectors * _EXCHANGE_CYCLES + _PANEL_CYCLES + many * _WINDOW_CYCLES)
        if self.work.factors and windows:
            most = np.max([_ceil(tile[name] / w) for name, w in windows.items()], axis=0)
            windows_ = prod(counts) * most
            for loops in work.factors:
                busy += windows_ * prod(inside.get(name, 1) for name in loops) * _FACTOR_CYCLES
        busy /= self.machine.cores * self._balance(tile)
        return moved[False] + np.maximum(moved[True], busy)

    def _turns_for_all(self, box: MovedBox, counts: Sequence[_Each]) -> _Each:
        """Panels that a row or column brings in, for each tile: fewer, where all cores have one."""
        used = {name for side, _ in box.sides for name, _ in side}
        for loop, count in zip(self.loops, counts, strict=True):
            if loop.axis >= 0 and loop.name not in used:
                turns = count / box.shared
                return (_ceil(turns) if loop.is_known else turns + 0.5) / count
        return 1.0

    def _memory(
        self, box: MovedBox, tile: Mapping[str, _Each], inside: Mapping[str, _Each]
    ) -> _Each:
        sides = extents(box, tile)
        if box.shared == 1:
            return box_bytes(prod(sides), box.element, 1 + box.is_ahead)
        part = (-(-sides[0] // (box.shared * box.unit)) * box.unit, *sides[1:])
        first, *rest = extents(box, inside)
        window = _padded((-(-first // box.unit) * box.unit, *rest), box.element)
        return box_bytes(prod(part), box.element, 2) + box_bytes(prod(window), box.element, 1)

    def _request(self, rows: _Each, width: _Each) -> _Each:
        """Cycles of the queue for a request of some blocks."""
        pairs, places = np.unique((rows << 32) + width, return_inverse=True)
        found = []
        for pair in pairs.tolist():
            if pair not in self.known:
                blocks, size = divmod(pair, 1 << 32)
                request = DmaRequest(blocks, size, _GAP if blocks > 1 else 0)
                self.known[pair] = request_service_cycles(self.machine, request)
            found.append(self.known[pair])
        return np.array(found)[places.ravel()]

    def _balance(self, tile: Mapping[str, _Each]) -> _Each:
        """The part of the cores' time that they work, with tiles dealt out in turns."""
        part = self.shape[0] * self.shape[1] / self.machine.cores
        cores = (*self.shape, self.shape[0] * self.shape[1])
        for loop in self.loops:
            if loop.axis >= 0 and loop.trips > 0:
                turn = cores[loop.axis] * tile[loop.name]
                # Of extents that nobody knows the last turn is half full.
                whole = _ceil(loop.trips / turn) * turn if loop.is_known else loop.trips + turn / 2
                part *= np.minimum(1.0, loop.trips / whole)
        return part


def _rounded(sides: Sequence[_Each]) -> _Each:
    """Elements of a factor, its rows whole vectors."""
    *outer, last = sides
    return prod(outer) * (-(-last // 4) * 4)


def _padded(sides: Sequence[_Each], element: int) -> tuple[_Each, ...]:
    """Extents whose rows are whole vectors."""
    lanes = max(1, _VECTOR // element)
    return (*sides[:-1], -(-sides[-1] // lanes) * lanes)


def far_cycles(instances: float, machine: MeshMachine) -> float:
    """Cycles that accesses to main memory take, without DMA, one for each instance."""
    return instances * _FAR_CYCLES / machine.cores
