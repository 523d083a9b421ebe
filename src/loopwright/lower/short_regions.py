"""Loops that threads share inside serial ones: left to one thread where they have little to do.

Threads meet behind every run of a parallel loop. How much such a run has to do, only sizes tell
that are not known before the nest runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.expr import Const, Expr
from loopwright.ir.loops import Alloc, Barrier, Block, For, If, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import names, rebuild, statements, statements_inside, substitute
from loopwright.lower.linear_forms import normal

__all__ = ["enough_work", "share_where_worth"]

_NONE, _ONE = Const(0), Const(1)


def enough_work(nest: LoopNest, least: Mapping[str, int]) -> dict[str, Expr]:
    """For loops with parallel ones inside: whether a meeting of threads comes with enough work.

    `least` says how many statements, by the variable of the loop. Loops inside are counted with the
    mean of their iterations, those of triangles in the middle of the loops around. Nothing is known
    of loops whose bounds are data.
    """
    found: dict[str, Expr] = {}
    if not least:
        return found
    for stmt in statements(nest.body):
        if isinstance(stmt, For) and stmt.var in least and stmt.var not in found:
            shared, meetings = _regions(stmt.body, {stmt.var: _middle(stmt, {})})
            cond = normal(shared) >= normal(meetings * least[stmt.var])
            if names(cond) <= set(nest.scalars):
                found[stmt.var] = cond
    return found


def share_where_worth(nest: LoopNest, worth: Mapping[str, Expr]) -> LoopNest:
    """Two versions of the loops that `worth` has a condition for.

        for t: parallel for i: S
    ->  if worth: for t: parallel for i: S
        else: for t: for i: S

    All threads decide alike, as sizes are the same for all.
    """

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.var not in worth or stmt.mark is Mark.PARALLEL:
            return stmt
        if not _is_shared(stmt) or any(isinstance(s, Barrier) for s in statements(stmt)):
            return stmt
        return If(worth[stmt.var], stmt, rebuild(stmt, _alone))

    return replace(nest, body=rebuild(nest.body, visit)) if worth else nest


def _alone(stmt: Stmt) -> Stmt:
    """A statement for one thread: parallel loops are serial, and have one piece."""
    match stmt:
        case For(mark=Mark.PARALLEL):
            return replace(stmt, mark=Mark.SERIAL)
        case Let(parts=parts) if parts:
            return replace(stmt, value=_ONE, parts=0)
    return stmt


def _is_shared(stmt: Stmt) -> bool:
    return any(isinstance(s, For) and s.mark is Mark.PARALLEL for s in statements(stmt))


# -- counting ------------------------------------------------------------------------------------


def _regions(stmt: Stmt, at: Mapping[str, Expr]) -> tuple[Expr, Expr]:
    """Statements that run in parallel loops of `stmt`, and how often threads meet.

    `at` are values of the iterators around. What stands beside parallel loops is a meeting, too.
    """
    if not _is_shared(stmt):
        return _NONE, _ONE
    match stmt:
        case For(mark=Mark.PARALLEL):
            return _instances(stmt, at), _ONE
        case For(var=var, body=body):
            shared, meetings = _regions(body, {**at, var: _middle(stmt, at)})
            return shared * _trips(stmt, at), meetings * _trips(stmt, at)
        case Let(name=name, value=value, body=body):
            return _regions(body, {**at, name: substitute(value, at)})
        case Alloc(body=body):
            return _regions(body, at)
    parts = [_regions(part, at) for part in statements_inside(stmt)]
    return _total([shared for shared, _ in parts]), _total([count for _, count in parts])


def _instances(stmt: Stmt, at: Mapping[str, Expr]) -> Expr:
    """How many statements one run of `stmt` executes."""
    match stmt:
        case Store():
            return _ONE
        case For(var=var, body=body):
            return _trips(stmt, at) * _instances(body, {**at, var: _middle(stmt, at)})
        case Let(name=name, value=value, body=body):
            return _instances(body, {**at, name: substitute(value, at)})
        case Alloc(body=body):
            return _instances(body, at)
        case Block() | If():
            return _total([_instances(part, at) for part in statements_inside(stmt)])
    return _NONE


def _total(parts: list[Expr]) -> Expr:
    total: Expr = _NONE
    for part in parts:
        total = normal(total + part)
    return total


def _trips(loop: For, at: Mapping[str, Expr]) -> Expr:
    start, stop, step = (substitute(x, at) for x in (loop.start, loop.stop, loop.step))
    return normal((stop - start + (step - 1)) // step).max(_NONE)


def _middle(loop: For, at: Mapping[str, Expr]) -> Expr:
    start, stop = substitute(loop.start, at), substitute(loop.stop, at)
    return normal((start + stop) // 2)
