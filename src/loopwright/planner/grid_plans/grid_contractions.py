"""Nests of an affine program that are matrix products, as product kernels of a GPU.

Of the tiles that a kernel may have, the one is taken for which

    (share of the peak that the tile allows) * (share of the multiprocessors that have blocks)

is largest at likely sizes; small products stay loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import permutations
from typing import TypeAlias

from loopwright.analysis.size_estimates import band_trips, likely_trips
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, Leaf, bands, nodes_of, perfect_nest
from loopwright.planner.draft import Draft
from loopwright.planner.grid_plans.register_budget import fits_registers
from loopwright.transform.map_contraction import MapContraction
from loopwright.transform.step import Step

__all__ = ["TILES", "plan_grid_contractions"]

# rows, columns, depth, thread_rows, thread_columns, stages, blocks of a multiprocessor, and the
# share of the peak that large products reach with them (measured, H200).
TILES = {
    4: (
        (128, 128, 16, 8, 8, 3, 2, 0.95),
        # Three blocks spill; the share was measured with three.
        (64, 128, 8, 8, 8, 2, 2, 0.90),
        (64, 64, 16, 8, 4, 2, 4, 0.75),
        (32, 32, 16, 4, 2, 2, 8, 0.40),
    ),
    8: (
        (64, 128, 16, 8, 8, 4, 2, 0.75),
        (64, 128, 8, 8, 8, 3, 2, 0.73),
        (64, 64, 8, 8, 8, 3, 4, 0.70),
        (64, 64, 16, 4, 4, 2, 2, 0.50),
        (32, 32, 16, 2, 2, 2, 4, 0.30),
    ),
}
_Tile: TypeAlias = tuple[int, int, int, int, int, int, int, float]
_LEAST = 1 << 20  # multiply-adds of a product that is worth a kernel of its own


def plan_grid_contractions(schedule: Schedule, machine: GpuMachine) -> tuple[Step, ...]:
    """Steps that run products by kernels of their own."""
    draft = Draft(schedule)
    trips = schedule.analyses.get(likely_trips)
    for band in list(bands(nodes_of(schedule))):
        nest = perfect_nest(band)
        if len(nest) != 3 or not isinstance(nest[-1].child, Leaf):
            continue
        sizes = {inner.loop: band_trips(inner, schedule.program, trips) for inner in nest}
        element = max(
            schedule.program.statement(name).write.dtype.bytes for name in band.statements
        )
        if math.prod(sizes.values()) < _LEAST or element not in TILES:
            continue
        tiles = [tile for tile in TILES[element] if _fits(tile, element, schedule, machine)]
        for step in _ways(nest, sizes, tiles, machine):
            if draft.take(step):
                break
    return tuple(draft.steps)


def _ways(
    nest: tuple[Band, ...], sizes: dict[str, float], tiles: Sequence[_Tile], machine: GpuMachine
) -> Iterator[MapContraction]:
    """Every order of the loops as i, j, p, with the best tile for it; j last in memory first."""
    names = [inner.loop for inner in nest]
    if not tiles:
        return
    for i, j, p in sorted(permutations(names), key=lambda way: (way[2] != names[-1], way)):
        best = max(tiles, key=partial(_share, sizes[i], sizes[j], machine))
        yield MapContraction((i, j, p), *best[:-1])


def _fits(tile: _Tile, element: int, schedule: Schedule, machine: GpuMachine) -> bool:
    """Whether the elements of a thread fit into its registers; those of all into shared memory."""
    rows, columns, depth, own_rows, own_columns, stages, resident, _ = tile
    cap = schedule.registers or machine.registers_per_thread
    factors, sums = own_rows + own_columns, own_rows * own_columns
    kept = 0 if schedule.in_registers else rows * columns
    shared = (kept + stages * depth * (rows + columns + 4)) * element
    held = machine.occupancy(rows * columns // sums, 1, shared).blocks
    own = factors + sums if schedule.in_registers else factors
    return held >= max(1, resident) and fits_registers(own * element, cap)


def _share(m: float, n: float, machine: GpuMachine, tile: _Tile) -> float:
    """The share of the peak that a product of m x n elements gets with a tile."""
    rows, columns, *_, resident, peak = tile
    blocks = math.ceil(m / rows) * math.ceil(n / columns)
    places = machine.multiprocessors * resident
    used = m * n / (blocks * rows * columns)  # of the tiles, without what lies beyond the edges
    busy = min(1.0, blocks / machine.multiprocessors)
    whole = blocks / (math.ceil(blocks / places) * places) if blocks > places else 1.0
    return float(peak) * used * busy * whole
