"""Sums that round once with a product that is written in them (ADR 55)."""

from __future__ import annotations

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Expr, Unary

__all__ = ["factors", "rounds"]


def rounds(dtype: DType) -> bool:
    """Whether numbers of a type are rounded, and machines fuse their products."""
    return (dtype.is_float or dtype.is_complex) and dtype.real.bits > 16


def factors(expr: Expr) -> tuple[Expr, Expr, bool] | None:
    """x, y and whether it is -(x * y), of an expression that is a product."""
    match expr:
        case Binary(op="mul", x=x, y=y):
            return x, y, False
        case Unary(op="neg", x=Binary(op="mul", x=x, y=y)):
            return x, y, True
    return None
