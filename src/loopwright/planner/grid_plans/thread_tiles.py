"""Iterations that one thread takes where neighbours read the same elements.

A thread of a stencil that computes several points one above the other loads what they share once:

    A[i - 1][j], A[i][j], A[i + 1][j]    6 loads of the column for 4 points instead of 12

and has more loads under way, unless they must wait for the stores of an array that is read and
written. Fewer threads are left: where there are three loops, whose planes are far apart in memory,
two points are better than four (measured, H200).
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.analysis.block_volume import subscript_of
from loopwright.ir.program import Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, Leaf, moved_by
from loopwright.planner.grid_plans.block_shapes import follow_iterators

__all__ = ["points_of_thread"]

_POINTS = {2: 4, 3: 2}  # by the number of parallel loops
_MOST_LOADS = 48  # of all points of a thread, which are to fit into its registers


def points_of_thread(schedule: Schedule, loops: Sequence[Band], along: Band) -> int:
    """Iterations of loop `along`, one of the parallel ones, for one thread; 1 where none is saved.

    Threads that have loops of their own have work enough. Of skewed loops, whose iterations are
    few and depend on others, it cannot be told what neighbours share.
    """
    program = schedule.program
    points = _POINTS.get(len(loops), 1)
    has_loops = not any(isinstance(band.child, Leaf) for band in loops)
    if has_loops or not follow_iterators(schedule, loops):
        return 1
    loads = saved = 0
    for name, iterator in moved_by(along, program).items():
        statement = program.statement(name)
        if any(access.array == statement.write.array for access in statement.reads):
            return 1
        again = _loaded_again(statement, iterator)
        loads += points * len(statement.reads) - (points - 1) * again
        saved += again
    return points if saved and loads <= _MOST_LOADS else 1


def _loaded_again(statement: Statement, iterator: str) -> int:
    """Elements of an iteration that the next one along an iterator reads as well."""
    reads = set()
    for access in statement.reads:
        index = [subscript_of(entry) for entry in access.index]
        starts = tuple(entry.start for entry in index)
        reads.add((access.array, tuple(entry.factors for entry in index), starts))
    found = 0
    for array, factors, starts in reads:
        steps = [dict(own).get(iterator, 0) for own in factors]
        moved = tuple(start + step for start, step in zip(starts, steps, strict=True))
        found += any(steps) and (array, factors, moved) in reads
    return found
