"""Loops that depend on one of their own iterations, the pivot: they are split before and after it.

    for k: for i: for j: d[i][j] = min(d[i][j], d[i][k] + d[k][j])
    ->  for k: for i: simd for j < k; j = k; simd for j > k

Of the iterations of j only j = k writes what all others read, d[i][k]: those before it read the old
value, those after it the new one, and each part by itself is independent. So are, for threads, the
iterations of i before and after i = k, which writes the row d[k] that all others read. All pairs of
shortest paths, relaxations over dense graphs and eliminations in place have such pivots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from loopwright.analysis.size_estimates import band_trips, likely_trips
from loopwright.ir.expr import Var
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program, Role
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, moved_by, nodes_of, path_to
from loopwright.planner.draft import Draft
from loopwright.transform.index_set_splitting import SplitIndexSet
from loopwright.transform.loop_marks import Parallel, Simd
from loopwright.transform.scalar_expansion import ExpandScalar
from loopwright.transform.schedule_legality import accessors, open_bands
from loopwright.transform.step import Step

__all__ = ["expanded_scalars", "split_at_pivots"]

_LEAST = 64  # iterations of a loop that is worth two more loops


def split_at_pivots(draft: Draft, *, parallel: bool) -> frozenset[str]:
    """Split innermost loops that have vectors before and after their pivot; their statements.

    In `parallel` runs the loop around them is split as well, where threads may share its parts.
    """
    done: set[str] = set()
    program = draft.schedule.program
    trips = draft.schedule.analyses.get(likely_trips)
    for band in list(open_bands(draft.schedule)):
        is_inner = not any(True for _ in bands(band.child))
        path = path_to(nodes_of(draft.schedule), band.loop)
        is_open = all(draft.schedule.mark(one.loop) is Mark.SERIAL for one in path)
        if not is_inner or not is_open or band_trips(band, program, trips) < _LEAST:
            continue
        pivots = [one.loop for one in path[:-1] if _is_pivot(program, band, one)]
        if not pivots or draft.reach(*draft.copies(band), Simd(band.loop)) is not None:
            continue
        around = path[-2]
        is_shared = parallel and len(path) > 2 and _is_pivot(program, around, path[-3])
        is_split = is_shared and _split_both(draft, band, around, pivots, path[-3].loop)
        steps = expanded_scalars(draft, band, (band,))
        if is_split or any(_split(draft, steps, band.loop, pivot, Simd) for pivot in pivots):
            done |= band.statements
    return frozenset(done)


def _is_pivot(program: Program, band: Band, around: Band) -> bool:
    """Whether statements read elements at the value of a loop around, of an array that they write.

    Written is the element at the value of the loop itself, in the same dimension.
    """
    moving, still = moved_by(band, program), moved_by(around, program)
    for name in band.statements:
        written = program.statement(name).write
        for other in band.statements:
            for read in program.statement(other).reads:
                if read.array == written.array and any(
                    entry == Var(moving.get(name, "")) and at == Var(still.get(other, ""))
                    for entry, at in zip(written.index, read.index, strict=True)
                ):
                    return True
    return False


def expanded_scalars(draft: Draft, band: Band, over: Sequence[Band]) -> list[Step]:
    """Scalars of an innermost loop with an element for every iteration of some loops.

    In the end they need no memory: lowering contracts them, as one iteration sets and uses each.
    """
    program = draft.schedule.program
    found: list[Step] = []
    for array in program.arrays:
        users = accessors(draft.schedule.analyses, array.name)
        if array.role is not Role.LOCAL or array.rank or not users or not users <= band.statements:
            continue
        user = min(users)
        iterators = tuple(moved_by(one, program).get(user, "") for one in over)
        found.append(ExpandScalar(array.name, iterators))
    return found


def _split_both(draft: Draft, band: Band, around: Band, pivots: Sequence[str], outer: str) -> bool:
    """Split an innermost loop for vectors and the loop around it for threads."""
    before = draft.schedule, list(draft.steps)
    steps = expanded_scalars(draft, band, (around, band))
    is_split = any(_split(draft, steps, band.loop, pivot, Simd) for pivot in pivots)
    if is_split and _split(draft, (), around.loop, outer, Parallel):
        return True
    draft.schedule, draft.steps = before
    return False


def _split(
    draft: Draft,
    before: Sequence[Step],
    loop: str,
    pivot: str,
    mark: Callable[[str], Step],
) -> bool:
    """Split a loop before and after its pivot, where both parts may be marked."""
    steps = [*before, SplitIndexSet(loop, loop, pivot, 0)]
    first = draft.reach(*steps)
    if first is None:
        return False
    middle = _copied(draft.schedule, first)
    steps.append(SplitIndexSet(middle, middle, pivot, 1))
    both = draft.reach(*steps)
    if both is None:
        return False
    last = _copied(first, both)
    if draft.reach(*steps, mark(loop), mark(last)) is None:
        return False
    return draft.take(*steps)


def _copied(before: Schedule, after: Schedule) -> str:
    """The outermost of the loops that are new."""
    known = {band.loop for band in _loops(before)}
    return next(band.loop for band in _loops(after) if band.loop not in known)


def _loops(schedule: Schedule) -> Iterator[Band]:
    yield from bands(nodes_of(schedule))
