"""Updates by the element before come behind those that a loop gathers into the same element.

    for j: x[j] = max(x[j], x[j - 1]); for k < j: x[j] = max(x[j], x[k] + w[k][j])

A loop k that gathers from elements of its own row can run outside, for all later j in vectors, as
soon as x[k] is known. The update by x[j - 1] in front of it would be the last that is known, and
every gathered term would wait for it (`transform/update_order`). Tables of intervals are made so:
folding of sequences, parsing, matrix chains with another way to a cell.
"""

from __future__ import annotations

from loopwright.ir.expr import Expr
from loopwright.ir.machine import Machine
from loopwright.ir.program import Access, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import bands, moved_by, nodes_of
from loopwright.ir.visit import names
from loopwright.planner.draft import Draft
from loopwright.transform.step import Step
from loopwright.transform.update_order import UpdateLast

__all__ = ["plan_update_order"]


def plan_update_order(schedule: Schedule, machine: Machine, *, parallel: bool) -> tuple[Step, ...]:
    """The steps that put updates by other elements of their row last."""
    draft = Draft(schedule)
    if not machine.vector_registers:
        return ()
    for band in bands(nodes_of(schedule)):
        moving = moved_by(band, schedule.program)
        deeper = frozenset[str]().union(*(inner.statements for inner in bands(band.child)))
        updated = {schedule.program.statement(name).write.array for name in deeper}
        for name in sorted(band.statements - deeper):
            statement = schedule.program.statement(name)
            if statement.write.array in updated and _follows(statement, moving.get(name)):
                draft.take(UpdateLast(name))
    return tuple(draft.steps)


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
