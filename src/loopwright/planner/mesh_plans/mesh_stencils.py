"""Stencils on a mesh of cores: the steps and the sizes of overlapped tiles, by the DMA model.

A tile of b elements that is computed for T steps is read with all that its steps need around it and
written once. What neighbours compute twice grows with T, what DMA moves for a step shrinks:

    cycles of a step = about max(tiles * (boxes in and out), instances * their cycles / cores) / T

Where planes may stream through the scratchpad (mesh_plans/mesh_streams), that is priced beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, inf, prod

from loopwright.analysis.find_plane_stream import find_plane_stream
from loopwright.analysis.find_time_stencil import find_time_stencil, read_distance
from loopwright.analysis.size_estimates import bounded_sizes, likely_sizes
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Call, Load, Unary
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.time_stencil import TimeStencil, TimeTiles
from loopwright.ir.visit import names, walk
from loopwright.planner.mesh_plans.mesh_streams import (
    StreamModel,
    in_pieces,
    largest_fitting,
    offered_streams,
)
from loopwright.planner.mesh_plans.mesh_tiles import box_bytes
from loopwright.transform.step import Step
from loopwright.transform.stream_time import StreamTime
from loopwright.transform.time_tiles import TileTime

__all__ = ["plan_mesh_stencil", "stencil_prices"]

_STEPS = (1, 2, 3, 4, 6, 8, 12, 16)
_ROWS = (4, 8, 12, 16, 24, 32, 48, 64, 96)  # sizes along all dimensions but the last one
_WIDTHS = (8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024, 1536, 2048)
_MOST_WIDTHS = 6  # that are tried, the largest that fit
_EXPOSED = 0.25  # of the shorter one of transfers and work, the part that nothing hides
_REFINED = 8  # tiles whose planes stream, of which other lengths are priced
_GAIN = 1.2  # by which tiles must be faster than a sweep for each statement


def plan_mesh_stencil(
    schedule: Schedule, machine: MeshMachine, shape: tuple[int, int], room: int
) -> tuple[Step, ...]:
    """The step that computes a stencil in tiles; none where the program is none, or gains little.

    `room` are the bytes of a scratchpad for boxes.
    """
    prices = stencil_prices(schedule.program, machine, shape, room)
    chosen = [tiles for _, tiles in prices[:1] if tiles is not None]
    return tuple(_step(tiles, shape) for tiles in chosen)


def stencil_prices(
    program: Program, machine: MeshMachine, shape: tuple[int, int], room: int
) -> list[tuple[float, TimeTiles | None]]:
    """Cycles of a time step, the least first: by the best tiles of either kind, and by sweeps.

    Tiles that are not faster than sweeps by some margin come behind them. There is none where the
    program is no stencil.
    """
    found = find_time_stencil(program)
    if isinstance(found, str):
        return []
    model = _StencilModel(program, found, machine, shape)
    kinds = [[(model.step_cycles(tiles), tiles) for tiles in _offered(found, program, room)]]
    stream = find_plane_stream(program, found)
    if not isinstance(stream, str):
        extents = {name for end in (*found.start, *found.end) for name in names(end)}
        is_known = extents <= bounded_sizes(program).keys()
        streams = StreamModel(program, machine, prod(shape), model.grid)
        offered = offered_streams(
            found, stream, program, model.grid, room, prod(shape), is_known=is_known
        )
        priced = [(streams.step_cycles(tiles), tiles) for tiles in offered]
        priced = sorted(priced, key=lambda pair: pair[0])[:_REFINED]
        again = [x for _, tiles in priced for x in in_pieces(tiles, model.grid[0])]
        kinds.append([*priced, *((streams.step_cycles(tiles), tiles) for tiles in again)])
    best: list[tuple[float, TimeTiles | None]] = [
        min(kind, key=lambda pair: pair[0]) for kind in kinds if kind
    ]
    best.append((model.sweep_cycles(room), None))
    return sorted(best, key=lambda pair: pair[0] * (1.0 if pair[1] is None else _GAIN))


def _step(tiles: TimeTiles, shape: tuple[int, int]) -> Step:
    kind = TileTime if tiles.stream is None else StreamTime
    return kind(tiles.steps, tiles.sizes, *shape)


def _offered(found: TimeStencil, program: Program, room: int) -> Iterator[TimeTiles]:
    """Tiles that fit."""
    rank = len(found.start)
    for steps in _STEPS:
        for rows in product(_ROWS, repeat=rank - 1):

            def tile(width: int, rows: tuple[int, ...] = rows, steps: int = steps) -> TimeTiles:
                return TimeTiles(found, steps, (*rows, width))

            yield from map(
                tile,
                largest_fitting(
                    _WIDTHS, lambda width: _scratchpad(tile(width), program) <= room, _MOST_WIDTHS
                ),
            )


def _scratchpad(tiles: TimeTiles, program: Program) -> int:
    """Bytes of a scratchpad that a tile takes (lower/tiles/lower_time_tiles)."""
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
            far = [
                distance
                for access in self.program.statement(own.name).reads
                if len(access.index) == len(self.grid)
                and (distance := read_distance(own, access)) is not None
            ]
            border = [max(along) - min(along) for along in zip(*far, strict=True)] or [0] * len(
                self.grid
            )
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
