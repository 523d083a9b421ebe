"""Passes over entries that ask for nothing but their numbers: one loop in place of loops over rows.

    for x in 0 .. N: for k in ptr(x) .. ptr(x+1): S(k)   ->   for k in 0 .. M: S(k)

where k numbers the entries (see numbering): both visit 0 .. M-1 in order. The outer loop costs as
much as an entry or two for each of its iterations, and rows are short.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.expr import Expr
from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.walk import substitute as substitute_expr
from loopwright.ir.walk import walk
from loopwright.sparse.spf.bodies import as_expr
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.synthesis.numbering import told_by
from loopwright.sparse.synthesis.stages import Stage
from loopwright.sparse.synthesis.stream import Stream, over
from loopwright.sparse.uf import Atom, IntegerSet, Linear, Var, substitute, variables

__all__ = ["flattened"]


def flattened(stage: Stage, stream: Stream) -> Stage:
    """A stage with another computation for one thread, if it goes over the entries of a stream."""
    numbering = stream.numbering
    number = None if numbering is None else numbering.number.atom
    if not isinstance(number, Var) or len(stream.domain.variables) < 2:
        return stage
    assert numbering is not None
    told = told_by(number.name, stream.domain)
    domain = over(number.name, numbering.total)
    computation = stage.computation
    made: list[Stmt] = []
    for stmt in computation.statements:
        if not stmt.loops:
            made.append(stmt)
            continue
        if stmt.domain != stream.domain:
            return stage
        own = _flat(stmt, number.name, told, domain, computation)
        if own is None:
            return stage
        made.append(own)
    if made == [*computation.statements]:
        return stage
    return replace(stage, alone=computation.with_statements(made))


def _flat(
    stmt: Stmt,
    number: str,
    told: Mapping[Atom, Linear],
    domain: IntegerSet,
    computation: Computation,
) -> Stmt | None:
    """The statement for each number; None where it asks for more than these tell."""
    given = {a.name: as_expr(t, computation.by_name) for a, t in told.items() if isinstance(a, Var)}
    index = tuple(substitute(entry, told) for entry in stmt.index)
    value = substitute_expr(stmt.value, given)
    guard = None if stmt.guard is None else substitute_expr(stmt.guard, given)
    others = {*stmt.variables} - {number}
    used = {name for entry in index for name in variables(entry)}
    used |= {name for part in (value, guard) if part is not None for name in _names(part)}
    if used & others:
        return None
    # Where an entry of the schedule is another variable, it stands still as the number goes on.
    schedule = tuple(entry for entry in stmt.schedule if not variables(entry) & others)
    return replace(stmt, domain=domain, schedule=schedule, index=index, value=value, guard=guard)


def _names(expr: Expr) -> set[str]:
    return {part.name for part in walk(expr) if isinstance(part, ExprVar)}
