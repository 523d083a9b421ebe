"""Shapes of thread blocks, ranked by the bytes that a block moves for each of its iterations.

Lanes lie along memory, so that a block of x lanes has x = 32, 64 or 128; its rows and planes are
free. A block of a stencil also loads what lies around it, one of a product rows and columns of its
operands: how much that is for each iteration depends on the shape, as in the seed's references 3
and 4 (Likhoded, Paliashchuk 2015 and 2016).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from loopwright.analysis.block_volume import EstimatedVolume
from loopwright.analysis.size_estimates import band_trips
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, moved_by, nodes_of, path_to
from loopwright.lazy_dataclass import dataclass

__all__ = ["BlockShape", "follow_iterators", "rank_block_shapes"]

_LANES = (32, 64, 128)
_ROWS = (1, 2, 4, 8, 16)
_USUAL = (32, 8, 1)  # along x, y and z, where no other shape moves less
_THREADS = (128, 256)  # least and most
_GAIN = 0.9  # of the usual shape's bytes, that another one moves at most


@dataclass(frozen=True, slots=True)
class BlockShape:
    """Threads of a block, what it moves, and how many blocks there are."""

    threads: tuple[int, ...]  # along x, y and, where there are three loops, z
    bytes_per_iteration: float
    blocks: int
    is_enough: bool  # blocks for all multiprocessors

    def __str__(self) -> str:
        shape = " x ".join(map(str, self.threads))
        few = "" if self.is_enough else f", only {self.blocks} blocks"
        return f"{shape} ({self.bytes_per_iteration:.3g} bytes{few})"


def rank_block_shapes(
    schedule: Schedule,
    loops: Sequence[Band],
    trips: Mapping[str, Mapping[str, float]],
    machine: GpuMachine,
) -> tuple[BlockShape, ...]:
    """Shapes for two or three parallel loops (x, y and z), the one to take first.

    Shapes with blocks for all multiprocessors come first, then those that move less. The usual
    shape stays in front of those that bring too little. `trips` are those of `average_trips`.
    """
    program = schedule.program
    counts = [band_trips(band, program, trips) for band in loops]
    serial = _iterators(_inside(loops), program)
    statements = sorted(loops[0].statements)
    volume = EstimatedVolume(program, statements)
    mapped = [moved_by(band, program) for band in loops]
    usual = tuple(map(_most_threads, counts, _USUAL))
    found: list[BlockShape] = []
    shapes = _shapes(counts) if follow_iterators(schedule, loops) else ()
    for threads in dict.fromkeys((usual, *shapes)):
        in_block: dict[str, dict[str, float]] = {}
        for name in statements:
            own = {x: trips[name].get(x, 1.0) for x in serial.get(name, ())}
            for moved, size, count in zip(mapped, threads, counts, strict=True):
                if name in moved:
                    own[moved[name]] = min(float(size), count)
            in_block[name] = own
        iterations = math.prod(map(min, threads, counts))
        blocks = math.prod(math.ceil(c / size) for c, size in zip(counts, threads, strict=True))
        moved_bytes = volume.bytes_moved(in_block, machine.sector) / iterations
        enough = blocks >= machine.multiprocessors
        found.append(BlockShape(threads, moved_bytes, blocks, enough))
    first = found[0]
    least = min(x.bytes_per_iteration for x in found if x.is_enough or not first.is_enough)
    keeps = not first.is_enough or least > _GAIN * first.bytes_per_iteration

    def order(shape: BlockShape) -> tuple[object, ...]:
        is_first = keeps and shape is first
        size = math.prod(shape.threads)
        # Of equal ones the larger; rows are nearer to each other than planes.
        rest = shape.bytes_per_iteration, -size, -shape.threads[1]
        return not is_first, not shape.is_enough, *rest

    return tuple(sorted(found, key=order))


def follow_iterators(schedule: Schedule, loops: Sequence[Band]) -> bool:
    """Whether the loops and those around them follow an iterator each, of every statement.

    Of others, as skewed ones are, it cannot be told what a block has of an array.
    """
    program, statements = schedule.program, loops[0].statements
    mapped = [moved_by(band, program) for band in loops]
    around = [moved_by(b, program) for b in path_to(nodes_of(schedule), loops[0].loop)]
    return all(
        len({moved.get(name, "") for moved in mapped} - {""}) == len(loops)
        and all(name in moved for moved in around)
        for name in statements
    )


def _inside(loops: Sequence[Band]) -> list[Band]:
    """The loops in all of the mapped ones."""
    names = {band.loop for band in loops}
    deepest = min(loops, key=lambda band: sum(1 for _ in bands(band.child)))
    return [band for band in bands(deepest.child) if band.loop not in names]


def _iterators(inner: Sequence[Band], program: Program) -> dict[str, set[str]]:
    """The iterators that loops move, by statement."""
    found: dict[str, set[str]] = {}
    for band in inner:
        for name, iterator in moved_by(band, program).items():
            found.setdefault(name, set()).add(iterator)
    return found


def _shapes(counts: Sequence[float]) -> Iterator[tuple[int, ...]]:
    """Shapes of 128 to 256 threads, no longer along any loop than it is."""
    others = (_ROWS,) * (len(counts) - 1)
    for threads in product(_LANES, *others):
        fits = all(size == _most_threads(c, size) for c, size in zip(counts, threads, strict=True))
        if fits and _THREADS[0] <= math.prod(threads) <= _THREADS[1]:
            yield threads


def _most_threads(count: float, most: int) -> int:
    """A power of two up to `most`, no more than a loop of `count` iterations fills."""
    size = 1
    while size < most and size < count:
        size *= 2
    return size
