"""Short spellings for making loop nests."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.expr import Const, Expr, Var, as_expr
from loopwright.ir.loops import Block, For, Let, Mark, Stmt

__all__ = ["CACHE_LINE", "lets", "loop", "nothing", "seq", "unrolled", "vector"]

CACHE_LINE = 64  # bytes between prefetches; a larger line only makes some hints redundant
nothing = Block(())


def seq(*parts: Stmt) -> Stmt:
    """The parts in order; blocks inside blocks are flattened."""
    flat: list[Stmt] = []
    for part in parts:
        flat.extend(part.body if isinstance(part, Block) else (part,))
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def loop(
    var: Var,
    start: Expr | int,
    stop: Expr | int,
    body: Stmt,
    step: Expr | int = 1,
    mark: Mark = Mark.SERIAL,
) -> Stmt:
    return For(var.name, as_expr(start), as_expr(stop), body, as_expr(step), mark)


def unrolled(var: Var, count: int, body: Stmt) -> Stmt:
    return For(var.name, Const(0), Const(count), body, Const(1), Mark.UNROLL)


def vector(var: Var, lanes: int, body: Stmt) -> Stmt:
    return For(var.name, Const(0), Const(lanes), body, Const(1), Mark.VECTOR)


def lets(bindings: Sequence[tuple[Var, Expr]], body: Stmt) -> Stmt:
    """Nested bindings, the first one outermost."""
    for var, value in reversed(bindings):
        body = Let(var.name, value, body)
    return body
