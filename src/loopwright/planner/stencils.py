"""Time tiling: programs that pass over large arrays again and again take several passes at once.

A loop of passes (time) whose rows depend on neighbouring rows only is skewed (`transform/skew`):
a wave rolls over the rows and takes `block` passes along, so that memory is read once for all of
them. The block is as large as the rows in use fit into a cache near to the core. It pays where
memory cannot keep up with arithmetic, and where rows are recurrences: passes of one wave overlap.
"""

from __future__ import annotations

from loopwright.analysis.sizes import bytes_of, likely_sizes, row_bytes
from loopwright.diagnostics import IllegalStep
from loopwright.ir.expr import Binary, Call, Expr, Load, Select, Unary
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import children
from loopwright.transform.legal import open_bands
from loopwright.transform.mark import Parallel
from loopwright.transform.reorder import Interchange
from loopwright.transform.skew import Skew
from loopwright.transform.step import Step
from loopwright.transform.tile import StripMine
from loopwright.transform.tree import Band, bands, chain, read_tree
from loopwright.transform.waves import smallest_skew

__all__ = ["plan_stencils"]

_MOST_PASSES = 16  # beyond, the ramps at both ends of a wave cost more than is saved
_FEW_PASSES = 4  # fewer do not pay when the next cache would hold more
# What one core reads and writes from memory, and how much slower than arithmetic it must be by this
# count for a skew to pay: jacobi-2d (2.0) gains nothing, fdtd-2d (3.7) gains 1.4 (measured, N1).
_MEMORY_BYTES_PER_CYCLE = 8.0
_MARGIN = 2.5
# Passes that are in work at once where rows are recurrences: as many as hide their latency.
_CHAINS = 8


def plan_stencils(schedule: Schedule, machine: Machine, *, parallel: bool) -> tuple[Step, ...]:
    """Steps that skew every outermost loop of passes over rows, if that pays."""
    steps: list[Step] = []
    for loop in _time_loops(schedule):
        found = _passes(schedule, machine, loop, parallel=parallel)
        try:
            after = schedule
            for step in found:
                after = step.apply(after)
        except IllegalStep:
            continue
        schedule = after
        steps += found
    return tuple(steps)


def _time_loops(schedule: Schedule) -> list[str]:
    """Outermost loops around rows of at least one more loop."""
    inner: set[str] = set()
    found = []
    for band in open_bands(schedule):
        if band.loop in inner:
            continue
        below = list(bands(band.child))
        inner.update(other.loop for other in below)
        if any(isinstance(other.child, Band) for other in below):
            found.append(band.loop)
    return found


def _passes(schedule: Schedule, machine: Machine, loop: str, *, parallel: bool) -> tuple[Step, ...]:
    skew = smallest_skew(schedule, loop, _MOST_PASSES, apart=False)
    if skew is None or skew.slope == 0:
        return ()
    block = _block(schedule.program, machine, skew)
    if block < 2:
        return ()
    chains = _is_recurrence(schedule, loop)
    if not chains and not _is_bound_by_memory(schedule, machine, loop):
        return ()
    if parallel or chains:
        apart = smallest_skew(schedule, loop, block, apart=True)
        if apart is not None:
            return _side_by_side(schedule, apart, machine, parallel=parallel, chains=chains)
    return (Skew(loop, skew.slope, skew.shifts, skew.rows, block),)


def _block(program: Program, machine: Machine, skew: Skew) -> int:
    """Passes whose rows fit into L2, or if those are few, into half of the last cache."""
    sizes = likely_sizes(program)
    arrays = [array for array in program.arrays if array.rank > 1]
    if sum(bytes_of(array, sizes) for array in arrays) <= machine.cache(2).size:
        return 1
    row = max(1, sum(row_bytes(array, sizes) for array in arrays))

    def passes(room: int) -> int:
        return (room // row - max(skew.shifts) - 2) // skew.slope

    near = passes(machine.cache(2).size * 3 // 4)
    far = passes(machine.caches[-1].size // 2)
    return min(_MOST_PASSES, near if near >= _FEW_PASSES else max(near, far))


def _is_bound_by_memory(schedule: Schedule, machine: Machine, loop: str) -> bool:
    """Whether one pass moves its arrays more slowly than it computes.

    Every array that a part of the body reads comes from memory once and goes back if written; per
    element and part, against the vector operations and accesses of its statement.
    """
    band = next(b for b in bands(read_tree(schedule.tree)) if b.loop == loop)
    program = schedule.program
    moved = spent = 0.0
    for name in band.statements:
        statement = program.statement(name)
        if len(statement.iterators) < 3:
            continue  # borders do not count
        accesses = (statement.write, *statement.reads)
        lanes = max(1, machine.lanes(statement.write.dtype.bits))
        moved += sum(program.array(x).dtype.bytes for x in {a.array for a in accesses})
        moved += statement.write.dtype.bytes
        spent += max(_operations(statement.value) + 1, len(accesses)) / 2 / lanes
    return moved / _MEMORY_BYTES_PER_CYCLE > _MARGIN * spent


def _operations(value: Expr) -> int:
    """Operations on data; those on subscripts are the address units' work."""
    if isinstance(value, Load):
        return 0
    own = isinstance(value, Binary | Unary | Call | Select)
    return own + sum(_operations(part) for part in children(value))


def _is_recurrence(schedule: Schedule, loop: str) -> bool:
    """Whether the loop's body is one nest whose innermost loop depends on itself."""
    band = next(b for b in bands(read_tree(schedule.tree)) if b.loop == loop)
    nest = chain(band)
    if any(True for _ in bands(nest[-1].child)):
        return False
    try:
        Parallel(nest[-1].loop).apply(schedule)
    except IllegalStep:
        return True
    return False


def _side_by_side(
    schedule: Schedule, skew: Skew, machine: Machine, *, parallel: bool, chains: bool
) -> tuple[Step, ...]:
    """Passes of a wave are independent: they go to threads, or overlap in one core's pipelines."""
    loop = skew.loop
    if not chains:
        return skew, Parallel(loop)
    inner = chain(next(b for b in bands(read_tree(schedule.tree)) if b.loop == loop))[2:]
    order = Interchange((*(band.loop for band in inner), loop))
    if not parallel:
        return skew, order
    share = max(2, min(_CHAINS, skew.block // 2))
    return skew, StripMine(loop, share), Parallel(f"{loop}_t_2"), order
