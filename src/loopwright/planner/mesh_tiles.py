"""Tile sizes for a nest on a mesh of cores, by the bytes and blocks that DMA moves.

A core brings in a box of each array at the innermost tile loop that changes it. With n_b tiles of
the loops b and boxes of `rows` blocks and `bytes`, a box at loop L is moved n_1 * ... * n_L times,
each for `request + rows * block + bytes * byte` cycles of the queue that all cores share. Loops
that change no subscript of an array do not count: it stays in the scratchpad meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import ceil, prod

from loopwright.ir.mesh_machine import MeshMachine
from loopwright.lazy_dataclass import dataclass

__all__ = ["MovedBox", "TiledLoop", "best_sizes", "box_bytes", "far_cycles"]

_FEW = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096)
_POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_MOST_LOOPS = 3  # of which all sizes in _FEW are tried
_LINE = 128  # bytes: boxes begin at multiples
_CYCLES = 5.0  # of a core for an instance of a statement, data in the scratchpad
_FAR_CYCLES = 280.0  # of a core for an element in main memory (unchecked)


@dataclass(frozen=True, slots=True)
class TiledLoop:
    """A loop that is cut into tiles."""

    name: str
    trips: float  # at likely sizes
    axis: int  # 0: along rows of the mesh, 1: columns, 2: all cores; -1: not mapped
    is_single: bool = False  # tiles of one iteration


@dataclass(frozen=True, slots=True)
class MovedBox:
    """Accesses to an array that share a box."""

    element: int  # bytes
    # For each dimension the coefficients of loops, by name, and elements beyond: offsets differ.
    sides: tuple[tuple[tuple[tuple[str, int], ...], int], ...]
    depth: int  # tile loops up to the one that stages it
    ways: int  # 1: in or out, 2: both
    is_ahead: bool  # two at a time, moved while others are used


def extents(box: MovedBox, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Elements of a box in every dimension."""
    return tuple(
        1 + beyond + sum(abs(c) * (sizes.get(name, 1) - 1) for name, c in side)
        for side, beyond in box.sides
    )


def box_bytes(elements: int, size: int, buffers: int) -> int:
    """Bytes of a scratchpad that boxes of so many elements take."""
    return -(-elements * size * buffers // _LINE) * _LINE


def best_sizes(
    loops: Sequence[TiledLoop],
    boxes: Sequence[MovedBox],
    instances: float,
    machine: MeshMachine,
    shape: tuple[int, int],
    room: int,
) -> tuple[dict[str, int], float] | None:
    """The sizes of the tiles that take the least time, and about how many cycles that is.

    None where not even tiles of one iteration fit into `room` bytes.
    """
    sizes = _FEW if len(loops) <= _MOST_LOOPS else _POWERS
    offered = [
        [1] if loop.is_single else [s for s in sizes if s < 2 * loop.trips or s == 1]
        for loop in loops
    ]
    best: tuple[dict[str, int], float] | None = None
    for chosen in product(*offered):
        tile = {loop.name: size for loop, size in zip(loops, chosen, strict=True)}
        cycles = _cycles(loops, boxes, instances, machine, shape, room, tile)
        if cycles is not None and (best is None or cycles < best[1]):
            best = tile, cycles
    return best


def _cycles(
    loops: Sequence[TiledLoop],
    boxes: Sequence[MovedBox],
    instances: float,
    machine: MeshMachine,
    shape: tuple[int, int],
    room: int,
    tile: Mapping[str, int],
) -> float | None:
    counts = [ceil(loop.trips / tile[loop.name]) for loop in loops]
    used = 0
    moved = {False: 0.0, True: 0.0}
    for box in boxes:
        sides = extents(box, tile)
        used += box_bytes(prod(sides), box.element, 1 + box.is_ahead)
        if used > room:
            return None
        times = box.ways * prod(counts[: box.depth])
        rows = prod(sides[:-1])
        requests = prod(sides[:-2])
        size = rows * sides[-1] * box.element
        moved[box.is_ahead] += times * machine.dma_cycles(requests, rows, size)
    work = instances * _CYCLES / machine.cores / _balance(loops, counts, shape, machine)
    return moved[False] + max(moved[True], work)


def _balance(
    loops: Sequence[TiledLoop], counts: Sequence[int], shape: tuple[int, int], machine: MeshMachine
) -> float:
    """The part of the cores' time that they work, with tiles dealt out in turns."""
    part = shape[0] * shape[1] / machine.cores
    cores = (*shape, shape[0] * shape[1])
    for loop, count in zip(loops, counts, strict=True):
        if loop.axis >= 0:
            part *= count / (ceil(count / cores[loop.axis]) * cores[loop.axis])
    return part


def far_cycles(instances: float, machine: MeshMachine) -> float:
    """Cycles that accesses to main memory take, without DMA, one for each instance."""
    return instances * _FAR_CYCLES / machine.cores
