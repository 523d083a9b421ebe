"""Stencils on a GPU: the steps, sizes and threads of overlapped tiles, by a model of their time.

Sweeps take a launch for each statement and move all its grids. A block that computes T steps of a
tile in shared memory moves the tile once, but computes what its neighbours compute too, and waits
at a barrier after every statement:

    seconds of T steps = launch + waves * (move + sum over statements max(shared, issue, latency))
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import ceil, prod

from loopwright.analysis.find_time_stencil import find_time_stencil
from loopwright.analysis.size_estimates import likely_sizes
from loopwright.ir.device import shared_part
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Call, Load, Unary
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.time_stencil import StencilStatement, TimeStencil, TimeTiles
from loopwright.ir.visit import walk
from loopwright.transform.step import Step
from loopwright.transform.time_tiles import TileTimeInBlocks

__all__ = ["StencilTime", "plan_grid_stencil"]

_STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_LINES = (128, 256, 512, 1024)  # threads of a block for grids of one dimension
_PLANES = ((8, 32), (16, 32), (32, 32), (8, 64), (16, 64))  # rows and columns of them for others
_ROUNDS = (1, 2, 3, 4, 6)  # elements of a thread along a dimension
_LEAST_SIZE = 4
_REGISTERS = 40  # of a thread (as nvcc gives for stencils)
_GAIN = 1.1  # by which tiles must be faster than sweeps

_ROUND_CYCLES = 110.0  # of a warp, for one element of every lane: its loads and operations in turn
_CHAIN_CYCLES = 14.0  # for each operation of them
_BARRIER_CYCLES = 60.0
_MOVE_CYCLES = 2500.0  # from the launch of a block to its first barrier
_OVERHEAD = 10  # instructions for one element beside its own
_SCHEDULERS = 4  # that start an instruction of a warp in a cycle each
_BANK_BYTES = 4
_CACHE_SPEED = 1.6  # bandwidth of the second-level cache beside that of memory
_NODE_SECONDS = 1.5e-6  # from one kernel of a graph to the next (measured, H200)


def plan_grid_stencil(schedule: Schedule, machine: GpuMachine) -> tuple[Step, ...]:
    """The step that computes a stencil in tiles; none where that gains little, or there is none."""
    program = schedule.program
    found = find_time_stencil(program)
    if isinstance(found, str) or not schedule.in_registers:
        return ()
    model = StencilTime(program, found, machine)
    best: tuple[float, TileTimeInBlocks] | None = None
    for step in _offered(found):
        seconds = model.tiled(TimeTiles(found, step.steps, step.sizes, (step.rows, step.columns)))
        if seconds is not None and (best is None or seconds < best[0]):
            best = seconds, step
    if best is None or best[0] * _GAIN > model.swept():
        return ()
    return (best[1],)


def _offered(found: TimeStencil) -> Iterator[TileTimeInBlocks]:
    """Tiles for which the widest box that is computed has a whole number of elements a thread."""
    rank = len(found.start)
    blocks = [(1, columns) for columns in _LINES] if rank == 1 else _PLANES
    for steps, threads in product(_STEPS, blocks):
        for rounds in product(_ROUNDS, repeat=min(rank, 2)):
            wide = [n * count for n, count in zip(rounds, threads[-len(rounds) :], strict=True)]
            for outer in product((4, 8, 16), repeat=rank - len(wide)):
                sizes = [
                    extent - _widest(found, k, steps) if k >= len(outer) else extent
                    for k, extent in enumerate((*outer, *wide))
                ]
                if min(sizes) >= _LEAST_SIZE:
                    yield TileTimeInBlocks(steps, tuple(sizes), *threads)


def _widest(found: TimeStencil, k: int, steps: int) -> int:
    """Elements beyond a tile that some statement computes in the first of so many steps."""
    return max(_sides(own, k, steps - 1) for own in found.statements)


def _sides(own: StencilStatement, k: int, left: int) -> int:
    low, high = own.region.low[k], own.region.high[k]
    return low[0] + high[0] + (low[1] + high[1]) * left


class StencilTime:
    """Seconds of a time step of a stencil, at likely sizes or those given."""

    def __init__(
        self,
        program: Program,
        found: TimeStencil,
        machine: GpuMachine,
        sizes: dict[str, int] | None = None,
    ) -> None:
        self.program = program
        self.found = found
        self.machine = machine
        sizes = likely_sizes(program) if sizes is None else sizes
        ends = zip(found.start, found.end, strict=True)
        self.grid = tuple(max(int(evaluate(end - start, sizes)), 1) for start, end in ends)
        self.bytes = {name: program.array(name).dtype.bytes for name, _ in found.boxes}
        moved = sum(self.bytes[name] for name in (*found.carried, *found.carried, *found.fixed))
        self.speed = machine.memory_bytes_per_second
        if moved * prod(self.grid) < machine.cache_bytes:
            self.speed *= _CACHE_SPEED

    def tiled(self, tiles: TimeTiles) -> float | None:
        """With tiles, each of whose blocks has `threads`; None where no block fits."""
        assert tiles.threads is not None
        machine, found = self.machine, self.found
        shared = sum(
            shared_part(prod(tiles.extents(name)) * self.bytes[name]) for name, _ in found.boxes
        )
        threads = prod(tiles.threads)
        held = machine.occupancy(threads, _REGISTERS, shared).blocks
        if not held:
            return None
        sizes = zip(self.grid, tiles.sizes, strict=True)
        count = prod(ceil(n / size) for n, size in sizes)
        active = min(held, ceil(count / machine.multiprocessors))
        cycles = _MOVE_CYCLES
        for own in found.statements:
            for left in range(tiles.steps):
                busy, waits = self._statement(own, tiles, left)
                cycles += max(active * busy, waits) + _BARRIER_CYCLES
        moved = sum(
            prod(tiles.extents(name)) * self.bytes[name] for name in (*found.carried, *found.fixed)
        ) + sum(prod(tiles.sizes) * self.bytes[name] for name in found.carried)
        waves = ceil(count / (active * machine.multiprocessors))
        moving = count * moved / self.speed
        return (_NODE_SECONDS + waves * cycles / machine.frequency_hz + moving) / tiles.steps

    def _statement(self, own: StencilStatement, tiles: TimeTiles, left: int) -> tuple[float, float]:
        """Cycles of a multiprocessor, and of a warp that waits, for one statement of a block."""
        assert tiles.threads is not None
        loads, operations = self._work(own.name)
        extents = [
            1 if not iterator else size + _sides(own, k, left)
            for k, (size, iterator) in enumerate(zip(tiles.sizes, own.iterators, strict=True))
        ]
        rank = min(len(extents), 2)
        threads = tiles.threads[-rank:]
        rounds = prod(extents[:-rank]) * prod(
            ceil(n / count) for n, count in zip(extents[-rank:], threads, strict=True)
        )
        warps = prod(tiles.threads) / self.machine.warp
        element = self.bytes[own.array]
        shared = (loads + 1) * element / _BANK_BYTES
        issue = (loads + 1 + operations + _OVERHEAD) / _SCHEDULERS
        busy = prod(extents) / self.machine.warp * shared
        busy = max(busy, rounds * warps * issue)
        return busy, rounds * (_ROUND_CYCLES + _CHAIN_CYCLES * operations)

    def swept(self) -> float:
        """With one launch for each statement."""
        seconds = 0.0
        for own in self.found.statements:
            reads = {access.array for access in self.program.statement(own.name).reads}
            size = sum(self.bytes.get(name, 0) for name in reads) + self.bytes[own.array]
            extents = zip(self.grid, own.iterators, strict=True)
            points = prod(n if iterator else 1 for n, iterator in extents)
            seconds += max(_NODE_SECONDS, points * size / self.speed)
        return seconds

    def _work(self, name: str) -> tuple[int, int]:
        """Loads and operations of an instance."""
        nodes = list(walk(self.program.statement(name).value))
        loads = sum(isinstance(node, Load) for node in nodes)
        return loads, sum(isinstance(node, Binary | Unary | Call) for node in nodes)
