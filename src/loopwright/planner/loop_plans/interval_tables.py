"""Tables of intervals: by rows, and with updates by the entry before behind those of a loop.

    for l: for i: for k in [i, i + l): x[i][i + l] = max(x[i][i + l], x[i][k] + x[k + 1][i + l])

is a table by diagonals, as books have it: iterations of i go down a column of x and along another
diagonal at a time. By begin i and end j (`transform/interval_rows`) subscripts are single
iterators, and the loop k may run outside, for all later j in vectors, as soon as x[i][k] is known.

    for j: x[j] = max(x[j], x[j - 1]); for k < j: x[j] = max(x[j], x[k] + w[k][j])

The update by x[j - 1] would be the last that is known, and every gathered term would wait for it:
it goes behind them (`transform/update_order`). Folding of sequences, parsing, matrix chains.

    best = max(x[i + 1][j], x[i][j - 1]); for k: best = max(best, ...); x[i][j] = best

gathers in x[i][j] itself first (`transform/gather_in_place`), and takes the entry before as an
update of its own (`transform/split_update`).
"""

from __future__ import annotations

import math

from loopwright.analysis.size_estimates import likely_sizes
from loopwright.analysis.update_statements import operands
from loopwright.ir.expr import Expr, Var
from loopwright.ir.machine import Machine
from loopwright.ir.program import Access, Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, moved_by, nodes_of
from loopwright.ir.visit import linear_terms, loads, names
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.affine import plan_marks, plan_order
from loopwright.transform.forward_scalar import ForwardScalar
from loopwright.transform.gather_in_place import GatherInPlace
from loopwright.transform.interval_rows import WalkRows
from loopwright.transform.reschedule import Reschedule
from loopwright.transform.split_update import SplitUpdate
from loopwright.transform.step import Step
from loopwright.transform.update_order import ExchangeTerms, UpdateLast, next_update

__all__ = ["plan_interval_tables"]

# Of the time by diagonals: by rows in vectors it is a tenth and less; elsewhere prices are not so
# exact (foldings that wait for the entry before: expected 0.9, measured 2).
_CLEARLY = 0.5
_AS_GOOD = 0.95  # of what fewer steps lead to


def plan_interval_tables(
    schedule: Schedule, machine: Machine, *, parallel: bool
) -> tuple[Step, ...]:
    """The steps that walk tables by rows, and put updates by other elements of a row last."""
    if not machine.vector_registers:
        return ()
    plain = Draft(schedule)
    forwarded = _forwarded(plain)
    drafts = {tuple(draft.steps): draft for draft in (plain, forwarded, _in_place(forwarded))}
    tables = [draft for draft in drafts.values() if _is_made_a_table(draft)]
    best = None
    prices = [_seconds(draft.schedule, machine, is_new=True) for draft in tables]
    found = any(map(math.isfinite, prices))
    least = _CLEARLY * _seconds(schedule, machine) if found else 0.0
    for draft, seconds in zip(tables, prices, strict=True):
        if seconds < least:
            best, least = draft, _AS_GOOD * seconds
    if best is None:
        best = Draft(schedule)
        _put_updates_last(best)
    return tuple(best.steps)


def _is_made_a_table(draft: Draft) -> bool:
    """Take a draft's program by rows, updates last; whether that is to be weighed."""
    is_rewritten = bool(draft.steps)
    is_forwarded = any(isinstance(step, ForwardScalar) for step in draft.steps)
    by_rows = _walk_rows(draft)
    return (_put_updates_last(draft) and is_rewritten) or by_rows or is_forwarded


def _scalars(schedule: Schedule) -> list[tuple[str, list[Statement]]]:
    """Local scalars, and the statements that use each."""
    program = schedule.program
    return [
        (array.name, [s for s in program.statements if array.name in _arrays_of(s)])
        for array in program.arrays
        if array.role is Role.LOCAL and not array.rank
    ]


def _forwarded(draft: Draft) -> Draft:
    """Terms of two entries of a table that have a name are put where they are gathered."""
    draft = draft.copy()
    tables = {s.write.array for s in draft.schedule.program.statements if s.write.index}
    for name, using in _scalars(draft.schedule):
        read = [access.array for access in using[0].reads] if using else []
        of_two = any(read.count(array) > 1 for array in tables)
        # What is gathered is gathered in a loop of its own.
        is_gathered = using and len(using[0].iterators) > 2
        if len(using) == 2 and using[0].write.array == name and of_two and is_gathered:
            draft.take(ForwardScalar(name))
    return draft


def _in_place(draft: Draft) -> Draft:
    """Scalars that gather from a table what is stored to it gather in the table."""
    draft = draft.copy()
    for name, using in _scalars(draft.schedule):
        stored = {s.write.array for s in using} - {name}
        is_gathered = any(s.write.array == name and stored & _arrays_of(s) for s in using)
        if len(using) > 2 and is_gathered:
            draft.take(GatherInPlace(name))
    return draft


def _arrays_of(statement: Statement) -> set[str]:
    return {access.array for access in (statement.write, *statement.reads)}


def _walk_rows(draft: Draft) -> bool:
    """Walk tables that are written by diagonals by rows; whether there are any."""
    schedule, walked = draft.schedule, False
    for band in list(bands(nodes_of(schedule))):
        if isinstance(band.child, Band) and _is_by_diagonals(schedule, band, band.child):
            walked |= draft.take(WalkRows(band.loop, band.child.loop))
    return walked


def _put_updates_last(draft: Draft) -> bool:
    """Let updates by other elements of the row that they write come behind those of a loop.

    Whether any did. An element that is set to two terms takes the one of the row by itself.
    """
    program = draft.schedule.program
    moved = False
    for band in list(bands(nodes_of(draft.schedule))):
        moving = moved_by(band, program)
        deeper = frozenset[str]().union(*(inner.statements for inner in bands(band.child)))
        updated = {program.statement(name).write.array for name in deeper}
        for name in sorted(band.statements - deeper):
            statement = program.statement(name)
            if statement.write.array in updated and _follows(statement, moving.get(name)):
                moved |= _put_last(draft, statement, moving[name])
    return moved


def _put_last(draft: Draft, statement: Statement, iterator: str) -> bool:
    """Put what a statement takes from the row behind the other updates of its element."""
    program, own = draft.schedule.program, statement.write
    _, terms = operands(program, statement.value) or ("", ())
    if own.load() in terms:
        return draft.take(UpdateLast(statement.name))
    of_row = [
        any(_is_of_row(Access(x.array, x.index, x.dtype), own, iterator) for x in loads(term))
        for term in terms
    ]
    first: Step = ExchangeTerms(statement.name)
    if sum(of_row) == 1:
        first = SplitUpdate(statement.name, of_row.index(True))
    # Both leave the term of the row in the statement behind this one.
    after = draft.reach(first)
    if after is None:
        return draft.take(UpdateLast(statement.name))
    behind = next_update(after, statement.name)
    return behind is not None and draft.take(first, UpdateLast(behind))


def _seconds(schedule: Schedule, machine: Machine, *, is_new: bool = False) -> float:
    """What the best order of a schedule takes on one thread.

    Of a new program only orders that it gets by its new form count. Where the terms of an entry
    wait for the entry before, rows give nothing, and diagonals may be taken several at a time.
    """
    order = plan_order(schedule, machine, parallel=False)
    if is_new and not any(isinstance(step, Reschedule) for step in order):
        return math.inf
    draft = Draft(schedule)
    draft.take(*order)
    draft.take(*plan_marks(draft.schedule, machine, parallel=False))
    return schedule_seconds(draft.schedule, machine, likely_sizes(schedule.program))


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
    return iterator is not None and any(
        _is_of_row(read, statement.write, iterator) for read in statement.reads
    )


def _is_of_row(read: Access, write: Access, iterator: str) -> bool:
    return read.array == write.array and _differs_along(read, write.index, iterator)


def _differs_along(read: Access, index: tuple[Expr, ...], iterator: str) -> bool:
    """Whether an access differs from subscripts where these follow an iterator, and only there."""
    differ = [x for x, y in zip(read.index, index, strict=True) if x != y]
    fixed = [y for x, y in zip(read.index, index, strict=True) if x == y]
    moves = [y for y in index if iterator in names(y)]
    return bool(differ) and len(moves) == 1 and moves[0] not in fixed and len(differ) == 1
