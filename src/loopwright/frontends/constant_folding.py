"""Constants and conditions as both front ends build them, folded where they are known."""

from __future__ import annotations

import numpy as np

from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.expr import Const, Expr, Unary

__all__ = ["folded_logical", "negated", "rounded_constant", "zero"]


def rounded_constant(value: float | complex, dtype: DType) -> Const:
    """A floating or complex constant, rounded to its type."""
    with np.errstate(over="ignore"):
        rounded: float | complex = dtype.numpy.type(value).item()
    return Const(rounded, dtype)


def zero(dtype: DType) -> Const:
    """The constant 0 of a dtype."""
    if dtype == BOOL:
        return Const(False, BOOL)
    return Const(0, dtype) if dtype.is_integer else Const(0.0, dtype)


def negated(cond: Expr) -> Expr:
    """The negation of a boolean expression."""
    if isinstance(cond, Const):
        return Const(not cond.value, BOOL)
    return Unary("not", cond)


def folded_logical(op: str, x: Expr, y: Expr) -> Expr | None:
    """`x op y` of conditions, op "and" or "or", where one of them is a constant; else None."""
    for one, other in ((x, y), (y, x)):
        if isinstance(one, Const):
            return other if bool(one.value) == (op == "and") else one
    return None
