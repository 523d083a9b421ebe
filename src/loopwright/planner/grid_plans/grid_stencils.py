"""Stencils on a GPU: the steps, sizes and threads of overlapped tiles, by a model of their time.

Sweeps take a launch for each statement and move all its grids. A block that computes T steps of a
tile in shared memory moves the tile once, but computes what its neighbours compute too, and waits
at a barrier after every statement:

    seconds of T steps = launch + waves * (move + sum over statements max(shared, issue, latency))
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import ceil, inf, prod

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
_LINES = ((1, 128), (1, 256), (1, 512))  # threads of a block for grids of one dimension
_PLANES = ((4, 32), (8, 32), (16, 32))  # rows and columns of them for others
# Elements of a thread, and how many of them it computes at once: of a line, so many that lanes read
# different banks.
_OF_LINES = ((1, 1), (2, 1), (3, 3), (5, 5), (6, 3), (10, 5))
_OF_COLUMNS = ((1, 1), (2, 2), (3, 3), (4, 4), (6, 3), (6, 6), (8, 4))
_OF_ROWS = (1, 2, 3, 4)
_OUTER = (4, 8, 16)  # elements of a tile along all dimensions but the last two
_LEAST_SIZE = 4
_REGISTERS = 40  # of a thread (as nvcc gives for stencils)
_GAIN = 1.1  # by which tiles must be faster than sweeps

# Fitted to 900 kernels on an H200, most of them within 20%.
_CHAIN_CYCLES = 21.0  # of a warp, for each operation of an element: they wait for each other
_MORE_CYCLES = 40.0  # for each neighbour that is computed with it
_BARRIER_CYCLES = 70.0
_MOVE_CYCLES = 5800.0  # of a block, to begin, to bring its boxes, and to end
_EXPOSED = 0.55  # of the shorter one of work and waits, the part that nothing hides
_OVERHEAD = 12  # instructions for one element beside its own
_SCHEDULERS = 4  # that start an instruction of a warp in a cycle each
_BANK_BYTES = 4
_NODE_SECONDS = 1.5e-6  # of a short kernel in a graph (measured, H200)


def plan_grid_stencil(schedule: Schedule, machine: GpuMachine) -> tuple[Step, ...]:
    """The step that computes a stencil in tiles; none where that gains little, or there is none."""
    program = schedule.program
    found = find_time_stencil(program)
    if isinstance(found, str) or not schedule.in_registers or not _has_neighbours(found):
        return ()
    model = StencilTime(program, found, machine)
    best = min(_offered(found), key=model.tiled, default=None)
    if best is None or model.tiled(best) * _GAIN > model.swept():
        return ()
    assert best.threads is not None
    return (TileTimeInBlocks(best.steps, best.sizes, *best.threads, best.each),)


def _has_neighbours(found: TimeStencil) -> bool:
    """Whether steps use what neighbours have made; else elements go by themselves, as in a sum."""
    sides = (side for own in found.statements for side in (*own.region.low, *own.region.high))
    return any(rate for _, rate in sides)


def _offered(found: TimeStencil) -> Iterator[TimeTiles]:
    """Tiles for which the widest box that is computed has a whole number of elements a thread."""
    rank = len(found.start)
    for steps in _STEPS:
        beyond = [_widest(found, k, steps) for k in range(rank)]
        for threads, (rows, each), columns in product(
            _LINES if rank == 1 else _PLANES,
            _OF_LINES if rank == 1 else _OF_COLUMNS,
            (1,) if rank == 1 else _OF_ROWS,
        ):
            near = (rows * threads[0], columns * threads[1]) if rank > 1 else (rows * threads[1],)
            inner = [x - more for x, more in zip(near, beyond[-len(near) :], strict=True)]
            for outer in product(_OUTER, repeat=rank - len(near)):
                sizes = (*outer, *inner)
                if min(sizes) >= _LEAST_SIZE:
                    yield TimeTiles(found, steps, sizes, threads, each)


def _widest(found: TimeStencil, k: int, steps: int) -> int:
    """Elements beyond a tile that some statement computes in the first of so many steps."""
    return max(own.beyond(steps - 1)[k] for own in found.statements)


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
        iterators = {x for statement in program.statements for x in statement.iterators}
        self._names = sorted(iterators.union(program.params))
        self._known: dict[tuple[str, int], tuple[int, int]] = {}
        self.bytes = {name: program.array(name).dtype.bytes for name, _ in found.boxes}

    def tiled(self, tiles: TimeTiles) -> float:
        """With tiles, each of whose blocks has `threads`; infinite where no block fits."""
        assert tiles.threads is not None
        machine, found = self.machine, self.found
        shared = sum(
            shared_part(prod(tiles.extents(name)) * self.bytes[name]) for name, _ in found.boxes
        )
        threads = prod(tiles.threads)
        held = machine.occupancy(threads, _REGISTERS, shared).blocks
        if not held:
            return inf
        sizes = zip(self.grid, tiles.sizes, strict=True)
        count = prod(ceil(n / size) for n, size in sizes)
        active = min(held, ceil(count / machine.multiprocessors))
        cycles = _MOVE_CYCLES
        for own in found.statements:
            for left in range(tiles.steps):
                busy, waits = self._statement(own, tiles, left)
                busy *= active
                cycles += max(busy, waits) + _EXPOSED * min(busy, waits) + _BARRIER_CYCLES
        moved = sum(
            prod(tiles.extents(name)) * self.bytes[name] for name in (*found.carried, *found.fixed)
        ) + sum(prod(tiles.sizes) * self.bytes[name] for name in found.carried)
        waves = ceil(count / (active * machine.multiprocessors))
        moving = count * moved / machine.memory_bytes_per_second
        return (waves * cycles / machine.frequency_hz + moving) / tiles.steps

    def _statement(self, own: StencilStatement, tiles: TimeTiles, left: int) -> tuple[float, float]:
        """Cycles of a multiprocessor, and of a warp that waits, for one statement of a block."""
        assert tiles.threads is not None
        extents = [
            size + more if iterator else 1
            for size, more, iterator in zip(
                tiles.sizes, own.beyond(left), own.iterators, strict=True
            )
        ]
        rank = min(len(extents), 2)
        threads = tiles.threads[-rank:]
        together = (tiles.each * threads[0], *threads[1:])
        rounds = prod(extents[:-rank]) * prod(
            ceil(n / count) for n, count in zip(extents[-rank:], together, strict=True)
        )
        loads, operations = self._work(own, tiles.each)
        warps = prod(tiles.threads) / self.machine.warp
        element = self.bytes[own.array]
        shared = (loads + tiles.each) * element / _BANK_BYTES
        issue = (loads + tiles.each * (1 + operations) + _OVERHEAD) / _SCHEDULERS
        busy = prod(extents) / tiles.each / self.machine.warp * shared
        busy = max(busy, rounds * warps * issue)
        wait = _CHAIN_CYCLES * operations + _MORE_CYCLES * (tiles.each - 1)
        return busy, rounds * wait

    def swept(self) -> float:
        """With one launch for each statement."""
        seconds = 0.0
        for own in self.found.statements:
            reads = {access.array for access in self.program.statement(own.name).reads}
            size = sum(self.bytes.get(name, 0) for name in reads) + self.bytes[own.array]
            extents = zip(self.grid, own.iterators, strict=True)
            points = prod(n if iterator else 1 for n, iterator in extents)
            seconds += max(_NODE_SECONDS, points * size / self.machine.memory_bytes_per_second)
        return seconds

    def _work(self, own: StencilStatement, each: int) -> tuple[int, int]:
        """Different elements that neighbours of a column or line load, and operations of each."""
        key = own.name, each
        if key not in self._known:
            statement = self.program.statement(own.name)
            along = own.iterators[max(len(own.iterators) - 2, 0)]
            nodes = list(walk(statement.value))
            found: set[tuple[object, ...]] = set()
            for r in range(each):
                # Any place: distances are the same everywhere.
                at = {x: 1000 * k + (r if x == along else 0) for k, x in enumerate(self._names, 1)}
                for node in nodes:
                    if isinstance(node, Load):
                        found.add((node.array, *(evaluate(entry, at) for entry in node.index)))
            operations = sum(isinstance(node, Binary | Unary | Call) for node in nodes)
            self._known[key] = len(found), operations
        return self._known[key]
