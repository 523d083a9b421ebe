"""Loops that data may leave out: copies of a loop around them would run all of their rows.

A statement under a branch on data is a selection between a new value and the old one. Where the
condition stays the same while the innermost loop runs, the loop is entered only where it holds
(`lower/skip_idle_loops`). Several iterations of a loop around it that has the condition anew in
each, taken together, must run it for all of them.
"""

from __future__ import annotations

from loopwright.ir.expr import Expr
from loopwright.ir.program import Program, Statement
from loopwright.ir.schedule_tree import Band, moved_by
from loopwright.ir.visit import loads, names, update_conditions

__all__ = ["loses_skips"]


def loses_skips(program: Program, outer: Band, inner: Band) -> bool:
    """Whether copies of `outer` take together rows of `inner` that conditions choose one by one."""
    around, moving = moved_by(outer, program), moved_by(inner, program)
    return any(
        _varies(program, cond, outer, around.get(name, ""))
        and not _varies(program, cond, inner, moving.get(name, ""))
        for name in inner.statements
        for cond in _conditions(program.statement(name))
    )


def _conditions(statement: Statement) -> list[Expr]:
    """Conditions on data without which a statement leaves its element as it is."""
    found = update_conditions(statement.value, statement.write.load())
    return [cond for cond in found if loads(cond)]


def _varies(program: Program, cond: Expr, band: Band, iterator: str) -> bool:
    """Whether a condition may change from one iteration of a loop to the next."""
    read = {load.array for load in loads(cond)}
    writers = {s.name for s in program.statements if s.write.array in read}
    return iterator in names(cond) or bool(writers & band.statements)
