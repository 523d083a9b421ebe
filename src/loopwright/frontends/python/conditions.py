"""Truth values: and, or, not, and what a conditional expression evaluates."""

from __future__ import annotations

from loopwright.frontends.python.values import Value, select
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Unary
from loopwright.ir.visit import loads

__all__ = ["choose", "logical", "negation"]


def logical(op: str, x: Expr, y: Expr) -> Expr:
    """`x and y` or `x or y` of conditions, constants folded."""
    for one, other in ((x, y), (y, x)):
        if isinstance(one, Const):
            return other if bool(one.value) == (op == "and") else one
    return Binary(op, x, y)


def negation(cond: Expr) -> Expr:
    if isinstance(cond, Const):
        return Const(not cond.value, BOOL)
    return Unary("not", cond)


def choose(cond: Expr, x: Value, y: Value) -> Value:
    """`x if cond else y`, with the affine parts of the condition outside the others.

    `A[i-1] if i > 0 and A[i-1] > 0 else 0.0` reads no element outside A: statements are split
    at affine conditions, and what remains of the condition is evaluated only where they hold.
    """
    if not _is_mixed(cond):
        return select(cond, x, y)
    match cond:
        case Binary(op="and", x=left, y=right):
            return choose(left, choose(right, x, y), y)
        case Binary(op="or", x=left, y=right):
            return choose(left, x, choose(right, x, y))
        case _:
            return select(cond, x, y)


def _is_mixed(cond: Expr) -> bool:
    """Whether a condition joins parts that read memory with parts that do not."""
    match cond:
        case Binary(op="and" | "or", x=x, y=y):
            return _is_mixed(x) or _is_mixed(y) or bool(loads(x)) != bool(loads(y))
        case _:
            return False
