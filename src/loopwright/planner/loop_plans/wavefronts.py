"""Which recurrences run in strips of rows, with vectors along their anti-diagonals.

Taken are two loops of which neither has independent iterations, though the instances of a diagonal
are independent: alignments, longest common subsequences, paths on grids.
"""

from __future__ import annotations

from loopwright.analysis.size_estimates import band_trips, likely_trips
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Leaf,
    Sequence,
    bands,
    moved_by,
    nodes_of,
    restricted,
    statements_in,
)
from loopwright.lower.passes import nest_before
from loopwright.lower.tiles.diagonal_strips import has_diagonals
from loopwright.planner.cost.wavefront_cost import RecurrenceCost
from loopwright.planner.draft import Draft
from loopwright.transform.diagonals import Diagonals
from loopwright.transform.loop_fusion import Distribute
from loopwright.transform.loop_marks import Parallel, Simd
from loopwright.transform.step import Step

__all__ = [
    "COLUMNS",
    "ROWS",
    "by_diagonals",
    "columns_of",
    "has_one_loop",
    "part_wavefronts",
    "take_diagonals",
]

# Rows of a strip: enough for values to be in the cache, not on their way to it, when the next
# diagonal asks for them (measured, N1: 64 take a third less time than 16).
ROWS = 64
# Diagonals of a block: rows of that many elements are written at once, a few lines of a page.
COLUMNS = 64
# Where prefetchers follow fewer streams than a strip has rows, each block begins all of them anew:
# longer rows pay for that (measured, Cascade Lake, tables of one to three arrays: 64 columns take
# 1.5 to 3 times as long as 512, which lie within 15% of the best of sixteen shapes).
_LONG_COLUMNS = 512
_MOST_LONG = 6  # arrays with buffers of that length, 270 KB of the stack each in double
_LEAST_LANES = 2
_WORTH = 0.9  # of the time of the source order: what diagonals may take
_LEAST_ROWS = 2 * ROWS
_LEAST_COLUMNS = 4 * COLUMNS


def take_diagonals(draft: Draft, machine: Machine) -> None:
    """Take all loops by diagonals that are worth it."""
    for band in list(bands(nodes_of(draft.schedule))):
        draft.take(*by_diagonals(draft, machine, band))


def part_wavefronts(draft: Draft, machine: Machine) -> frozenset[str]:
    """The statements of loops to be taken by diagonals, parted from what stands beside them.

        for i: a[i, 0] = f(i); for j: a[i, j] = g(a[i - 1, j], a[i, j - 1])
    ->  for i: a[i, 0] = f(i)
        for i: for j: a[i, j] = g(a[i - 1, j], a[i, j - 1])
    """
    found: set[str] = set()
    for band in list(bands(nodes_of(draft.schedule))):
        trial = draft
        if isinstance(band.child, Sequence):
            trial = Draft(draft.schedule)
            if not has_one_loop(band.child) or not _may_pay(draft.schedule, machine, band):
                continue
            if not trial.take(Distribute(band.loop)):
                continue
        known = {other.loop: other for other in bands(nodes_of(trial.schedule))}
        parts = [x for x in known.values() if x.statements <= band.statements]
        waves = [x for x in parts if by_diagonals(trial, machine, x)]
        if not waves:
            continue
        if trial is not draft:
            draft.take(*trial.steps)
        found.update(name for wave in waves for name in wave.statements)
    return frozenset(found)


def _may_pay(schedule: Schedule, machine: Machine, band: Band) -> bool:
    """Whether diagonals are worth it in some loop of those that the parts of `band` would be.

    Asked before the loop is distributed, which takes a proof.
    """
    assert isinstance(band.child, Sequence)
    parts = (restricted(band, statements_in(x.instances)) for x in band.child.filters)
    return any(
        isinstance(loop.child, Band)
        and _is_large(schedule, machine, loop, loop.child)
        and _is_worth_it(schedule, machine, loop, loop.child)
        for part in parts
        for loop in bands(part)
    )


def has_one_loop(parts: Sequence) -> bool:
    """Whether one part of a sequence is a loop, and the others are single statements."""
    loops = [part for part in parts.filters if not isinstance(part.child, Leaf)]
    return len(loops) == 1 and isinstance(loops[0].child, Band)


def by_diagonals(draft: Draft, machine: Machine, band: Band) -> list[Step]:
    """Steps that take a loop and the one inside of it by diagonals; none where that is no gain."""
    inner = band.child
    if not isinstance(inner, Band) or any(True for _ in bands(inner.child)):
        return []
    if {draft.schedule.mark(x.loop) for x in (band, inner)} != {Mark.SERIAL}:
        return []
    if not _is_large(draft.schedule, machine, band, inner):
        return []
    if not _is_worth_it(draft.schedule, machine, band, inner):
        return []
    copies = draft.copies(inner)
    for free in (Simd(inner.loop), Parallel(band.loop)):
        if draft.reach(*copies, free) is not None:
            return []
    accesses = {
        x.array
        for name in inner.statements
        for s in (draft.schedule.program.statement(name),)
        for x in (s.write, *s.reads)
    }
    columns = columns_of(machine) if len(accesses) <= _MOST_LONG else COLUMNS
    steps = [*copies, Diagonals(band.loop, inner.loop, ROWS, columns)]
    after = draft.reach(*steps)
    if after is None:
        return []
    nest, variables = nest_before(after, "diagonals")
    is_written = band.loop in variables and has_diagonals(nest, variables[band.loop])
    return steps if is_written else []


def columns_of(machine: Machine) -> int:
    """How many diagonals a block has."""
    streams = machine.prefetch_streams
    return COLUMNS if streams is None or streams >= ROWS else _LONG_COLUMNS


def _is_worth_it(schedule: Schedule, machine: Machine, band: Band, inner: Band) -> bool:
    """Whether diagonals are expected to be clearly faster than the order of the source."""
    program = schedule.program
    around = [moved_by(loop, program) for loop in (band, inner)]
    own = [s for s in program.statements if s.name in inner.statements]
    pairs = {tuple(found.get(s.name, "") for found in around) for s in own}
    if len(pairs) != 1 or "" in (pair := pairs.pop()):
        return False
    cost = RecurrenceCost(machine, own, *pair)
    return cost.by_diagonals() <= _WORTH * cost.in_order()


def _is_large(schedule: Schedule, machine: Machine, band: Band, inner: Band) -> bool:
    """Whether there are rows and columns enough for vectors of several lanes."""
    program = schedule.program
    trips = schedule.analyses.get(likely_trips)
    bits = {program.statement(name).write.dtype.bits for name in inner.statements}
    return (
        machine.lanes(max(bits)) >= _LEAST_LANES
        and band_trips(band, program, trips) >= _LEAST_ROWS
        and band_trips(inner, program, trips) >= _LEAST_COLUMNS
    )
