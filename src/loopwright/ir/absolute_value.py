"""Absolute values as people write them: x < 0 ? -x : x."""

from __future__ import annotations

from loopwright.ir.expr import Binary, Const, Expr, Select, Unary

__all__ = ["absolute_of"]


def absolute_of(expr: Expr) -> Expr | None:
    """The integer whose absolute value an expression is; None where it is none."""
    match expr:
        case Unary(op="abs", x=x) if x.dtype.is_integer:
            return x
        case Select(cond=Binary(op="lt" | "le", x=x, y=Const(value=0)), x=Unary("neg", negated)):
            chosen = expr.y
        case Select(cond=Binary(op="gt" | "ge", x=x, y=Const(value=0)), y=Unary("neg", negated)):
            chosen = expr.x
        case _:
            return None
    return x if x == negated == chosen and x.dtype.is_integer else None
