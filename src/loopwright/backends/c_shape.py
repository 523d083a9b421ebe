"""Questions about the shape of a loop nest that decide how its C looks."""

from __future__ import annotations

from loopwright.ir.expr import Const, Expr, Load
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Copy,
    For,
    If,
    Let,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.visit import expressions, names, statements, walk

__all__ = ["allocations", "is_flat", "is_once", "is_single_loop", "is_subscript", "is_team"]


def is_team(stmt: Stmt) -> bool:
    """Whether a statement itself makes sense to several threads only."""
    return isinstance(stmt, Barrier) or (isinstance(stmt, For) and stmt.mark is Mark.PARALLEL)


def is_single_loop(stmt: Stmt) -> bool:
    """Whether a nest is one parallel loop, perhaps with bindings and shared memory around it."""
    match stmt:
        case For(mark=Mark.PARALLEL):
            return not is_once(stmt)
        case Block(body=(only,)):
            return is_single_loop(only)
        case Let(body=inner):
            return is_single_loop(inner)
        case Alloc(buffer=buffer, body=inner):
            return buffer.space is Space.SCRATCH and is_single_loop(inner)
    return False


def is_once(stmt: For) -> bool:
    """Whether a parallel loop stands for what one thread does."""
    return (stmt.start, stmt.stop) == (Const(0), Const(1))


def is_flat(stmt: Stmt) -> bool:
    """Whether a vector loop holds what compilers make vectors of."""
    return not any(isinstance(s, For | Copy) for s in statements(stmt))


def allocations(stmt: Stmt, space: Space) -> list[Alloc]:
    """The allocations in a space, outer ones first."""
    return [s for s in statements(stmt) if isinstance(s, Alloc) and s.buffer.space is space]


def is_subscript(stmt: Let) -> bool:
    """Whether a bound integer serves as subscript, bound or size: then it stays in its range."""
    for inner in statements(stmt.body):
        places = expressions(inner)
        if isinstance(inner, Store):
            places = (*inner.index, *(e for x in walk(inner.value) for e in _subscripts(x)))
        elif isinstance(inner, Let | If):
            places = tuple(e for x in places for part in walk(x) for e in _subscripts(part))
        if any(stmt.name in names(e) for e in places):
            return True
    return False


def _subscripts(expr: Expr) -> tuple[Expr, ...]:
    return expr.index if isinstance(expr, Load) else ()
