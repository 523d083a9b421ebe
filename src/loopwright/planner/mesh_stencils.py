"""Stencils on a mesh of cores: the steps and the sizes of overlapped tiles, by the DMA model.

A tile of b elements that is computed for T steps is read with all that its steps need around it and
written once. What neighbours compute twice grows with T, what DMA moves for a step shrinks:

    cycles of a step = about max(tiles * (boxes in and out), instances * their cycles / cores) / T
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, inf, prod

from loopwright.analysis.find_time_stencil import find_time_stencil
from loopwright.analysis.size_estimates import likely_sizes
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Call, Load, Unary
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.time_stencil import TimeStencil, TimeTiles
from loopwright.ir.visit import walk
from loopwright.planner.mesh_tiles import box_bytes
from loopwright.transform.step import Step
from loopwright.transform.time_tiles import TileTime

__all__ = ["plan_mesh_stencil"]

_STEPS = (1, 2, 3, 4, 6, 8, 12, 16)
_ROWS = (4, 8, 12, 16, 24, 32, 48, 64, 96)  # sizes along all dimensions but the last one
_WIDTHS = (8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024, 1536, 2048)
_MOST_WIDTHS = 6  # that are tried, the largest that fit
_EXPOSED = 0.25  # of the shorter one of transfers and work, the part that nothing hides
_GAIN = 1.2  # by which tiles must be faster than a sweep for each statement


def plan_mesh_stencil(
    schedule: Schedule, machine: MeshMachine, shape: tuple[int, int], room: int
) -> tuple[Step, ...]:
    """The step that computes a stencil in tiles; none where the program is none, or gains little.

    `room` are the bytes of a scratchpad for boxes.
    """
    program = schedule.program
    found = find_time_stencil(program)
    if isinstance(found, str):
        return ()
    model = _StencilModel(program, found, machine, shape)
    best: tuple[float, TimeTiles] | None = None
    for tiles in _offered(found, program, room):
        cycles = model.step_cycles(tiles)
        if best is None or cycles < best[0]:
            best = cycles, tiles
    if best is None or best[0] * _GAIN > model.sweep_cycles(room):
        return ()
    return (TileTime(best[1].steps, best[1].sizes, *shape),)


def _offered(found: TimeStencil, program: Program, room: int) -> Iterator[TimeTiles]:
    """Tiles that fit."""
    rank = len(found.start)
    for steps in _STEPS:
        for rows in product(_ROWS, repeat=rank - 1):
            fitting = 0
            for width in reversed(_WIDTHS):
                tiles = TimeTiles(found, steps, (*rows, width))
                if _scratchpad(tiles, program) <= room:
                    yield tiles
                    fitting += 1
                if fitting == _MOST_WIDTHS:
                    break


def _scratchpad(tiles: TimeTiles, program: Program) -> int:
    """Bytes of a scratchpad that a tile takes (lower/lower_time_tiles)."""
    found = tiles.stencil

    def size(name: str) -> int:
        return box_bytes(prod(tiles.extents(name)), program.array(name).dtype.bytes, 1)

    kept = sum(map(size, (*found.carried, *found.fixed)))
    kept += sum(box_bytes(tiles.steps, program.array(name).dtype.bytes, 1) for name in found.lines)
    element = max(program.array(name).dtype.bytes for name, _ in found.boxes)
    packed = box_bytes(prod(tiles.sizes), element, 1)
    return kept + max(sum(map(size, found.made)), packed)


class _StencilModel:
    """What steps of a stencil cost, at likely sizes."""

    def __init__(
        self, program: Program, found: TimeStencil, machine: MeshMachine, shape: tuple[int, int]
    ) -> None:
        self.program = program
        self.found = found
        self.machine = machine
        self.shape = shape
        sizes = likely_sizes(program)
        ends = zip(found.start, found.end, strict=True)
        self.grid = tuple(max(int(evaluate(end - start, sizes)), 1) for start, end in ends)
        self.work = {own.name: _operations(program, own.name) for own in found.statements}

    def step_cycles(self, tiles: TimeTiles) -> float:
        """Cycles of a time step with these tiles."""
        counts = [ceil(n / size) for n, size in zip(self.grid, tiles.sizes, strict=True)]
        moved = 0.0
        for name in (*self.found.carried, *self.found.fixed):
            moved += self._moved(name, tiles.extents(name))
        for name in self.found.carried:
            moved += self._moved(name, tiles.sizes)
        work = float(prod(tiles.sizes)) * 2 * len(self.found.carried)  # to pack rows
        for own in self.found.statements:
            for left in range(tiles.steps):
                region = zip(tiles.sizes, own.beyond(left), strict=True)
                points = prod(size + more for size, more in region)
                work += points * self.work[own.name]
        every = prod(counts)
        cores = prod(self.shape)
        busy = work * every / cores / self._balance(counts)
        barrier = (self.machine.barrier_cycles or 0.0) + (self.machine.dma_latency or 0.0)
        return (_overlapped(moved * every, busy) + barrier) / tiles.steps

    def sweep_cycles(self, room: int) -> float:
        """Cycles of a time step with one sweep for each statement, in boxes with their borders."""
        cycles = 0.0
        for own in self.found.statements:
            if "" in own.iterators:
                continue  # a line of a grid
            reads = {
                access.array
                for access in self.program.statement(own.name).reads
                if len(access.index) == len(self.grid)
            }
            sides = zip(own.region.low, own.region.high, strict=True)
            border = [2 if low[1] or high[1] else 0 for low, high in sides]
            moved = min(
                self._swept(own.array, reads, (*rows, width), border, room)
                for rows in product(_ROWS, repeat=len(self.grid) - 1)
                for width in _WIDTHS
            )
            busy = prod(self.grid) * self.work[own.name] / prod(self.shape)
            cycles += _overlapped(moved, busy)
        return cycles

    def _swept(
        self, array: str, reads: set[str], sizes: Sequence[int], border: Sequence[int], room: int
    ) -> float:
        """Cycles of the queue for a sweep in boxes; infinite where they do not fit."""
        extents = [size + more for size, more in zip(sizes, border, strict=True)]
        element = self.program.array(array).dtype.bytes
        if (prod(extents) * len(reads) + prod(sizes)) * element > room:
            return inf
        counts = prod(ceil(n / size) for n, size in zip(self.grid, sizes, strict=True))
        return counts * (
            sum(self._moved(name, extents) for name in reads) + self._moved(array, sizes)
        )

    def _moved(self, name: str, extents: Sequence[int]) -> float:
        """Cycles of the queue for a box."""
        inside = [min(extent, n) for extent, n in zip(extents, self.grid, strict=True)]
        size = prod(inside) * self.program.array(name).dtype.bytes
        return self.machine.dma_cycles(prod(inside[:-2]), prod(inside[:-1]), size)

    def _balance(self, counts: Sequence[int]) -> float:
        """The part of the cores' time that they work, with tiles dealt out in turns."""
        along = (prod(self.shape),) if len(counts) == 1 else self.shape
        part = 1.0
        for count, cores in zip(counts, along, strict=False):
            part *= count / (ceil(count / cores) * cores)
        return part


def _overlapped(queue: float, busy: float) -> float:
    """Cycles of transfers and work: while some cores wait for the queue, others compute."""
    return max(queue, busy) + _EXPOSED * min(queue, busy)


def _operations(program: Program, name: str) -> int:
    """Loads, operations and the store of one instance."""
    value = program.statement(name).value
    return 1 + sum(isinstance(node, Load | Binary | Unary | Call) for node in walk(value))
