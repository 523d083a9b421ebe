"""Tables of intervals: by rows, and with updates by the entry before behind those of a loop.

    for l: for i: for k in [i, i + l): x[i][i + l] = max(x[i][i + l], x[i][k] + x[k + 1][i + l])

is a table by diagonals, as books have it: iterations of i go down a column of x and along another
diagonal at a time. By begin i and end j (`transform/interval_rows`) subscripts are single
iterators, and the loop k may run outside, for all later j in vectors, as soon as x[i][k] is known.

    for j: x[j] = max(x[j], x[j - 1]); for k < j: x[j] = max(x[j], x[k] + w[k][j])

The update by x[j - 1] would be the last that is known, and every gathered term would wait for it:
it goes behind them (`transform/update_order`). Folding of sequences, parsing, matrix chains.
"""

from __future__ import annotations

from loopwright.analysis.size_estimates import likely_sizes
from loopwright.ir.expr import Expr, Var
from loopwright.ir.machine import Machine
from loopwright.ir.program import Access, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, moved_by, nodes_of
from loopwright.ir.visit import linear_terms, names
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.affine import plan_marks, plan_order
from loopwright.transform.interval_rows import WalkRows
from loopwright.transform.reschedule import Reschedule
from loopwright.transform.step import Step
from loopwright.transform.update_order import UpdateLast

__all__ = ["plan_interval_tables"]

# Of the time by diagonals: by rows in vectors it is a tenth and less; elsewhere prices are not so
# exact (foldings that wait for the entry before: expected 0.9, measured 2).
_CLEARLY = 0.5


def plan_interval_tables(
    schedule: Schedule, machine: Machine, *, parallel: bool
) -> tuple[Step, ...]:
    """The steps that walk tables by rows, and put updates by other elements of a row last."""
    if not machine.vector_registers:
        return ()
    draft = Draft(schedule)
    for band in list(bands(nodes_of(schedule))):
        if isinstance(band.child, Band) and _is_by_diagonals(schedule, band, band.child):
            draft.take(WalkRows(band.loop, band.child.loop))
    by_rows = bool(draft.steps)
    _put_updates_last(draft)
    if by_rows and not _is_cheaper(draft.schedule, schedule, machine):
        draft = Draft(schedule)
        _put_updates_last(draft)
    return tuple(draft.steps)


def _put_updates_last(draft: Draft) -> None:
    """Let updates by other elements of the row that they write come behind those of a loop."""
    program = draft.schedule.program
    for band in list(bands(nodes_of(draft.schedule))):
        moving = moved_by(band, program)
        deeper = frozenset[str]().union(*(inner.statements for inner in bands(band.child)))
        updated = {program.statement(name).write.array for name in deeper}
        for name in sorted(band.statements - deeper):
            statement = program.statement(name)
            if statement.write.array in updated and _follows(statement, moving.get(name)):
                draft.take(UpdateLast(name))


def _is_cheaper(schedule: Schedule, than: Schedule, machine: Machine) -> bool:
    """Whether another order of a schedule, on one thread, is cheaper than the best of `than`.

    Where the terms of an entry wait for the entry before, rows give nothing, and diagonals may be
    taken several at a time.
    """
    sizes = likely_sizes(than.program)
    if not any(isinstance(x, Reschedule) for x in plan_order(schedule, machine, parallel=False)):
        return False
    prices = []
    for start in (schedule, than):
        draft = Draft(start)
        draft.take(*plan_order(draft.schedule, machine, parallel=False))
        draft.take(*plan_marks(draft.schedule, machine, parallel=False))
        prices.append(schedule_seconds(draft.schedule, machine, sizes))
    return prices[0] < _CLEARLY * prices[1]


def _is_by_diagonals(schedule: Schedule, lengths: Band, begins: Band) -> bool:
    """Whether loops over lengths and begins of intervals write tables by begin and end.

    Lengths are in subscripts as a part of ends only, and the intervals are gathered over.
    """
    program = schedule.program
    outer, inner = moved_by(lengths, program), moved_by(begins, program)
    if not any(bands(begins.child)) or not begins.statements <= outer.keys() & inner.keys():
        return False
    is_table = False
    for name in begins.statements:
        statement = program.statement(name)
        for access in (statement.write, *statement.reads):
            entries = [linear_terms(entry, 1) for entry in access.index]
            counts = [(x[Var(outer[name])], x[Var(inner[name])]) for x in entries]
            if any(length and (length, begin) != (1, 1) for length, begin in counts):
                return False
            is_table |= access is statement.write and {(1, 1), (0, 1)} <= set(counts)
    return is_table


def _follows(statement: Statement, iterator: str | None) -> bool:
    """Whether a statement reads another element of the row that it writes along an iterator."""
    write = statement.write
    return iterator is not None and any(
        read.array == write.array and _differs_along(read, write.index, iterator)
        for read in statement.reads
    )


def _differs_along(read: Access, index: tuple[Expr, ...], iterator: str) -> bool:
    """Whether an access differs from subscripts where these follow an iterator, and only there."""
    differ = [x for x, y in zip(read.index, index, strict=True) if x != y]
    fixed = [y for x, y in zip(read.index, index, strict=True) if x == y]
    moves = [y for y in index if iterator in names(y)]
    return bool(differ) and len(moves) == 1 and moves[0] not in fixed and len(differ) == 1
