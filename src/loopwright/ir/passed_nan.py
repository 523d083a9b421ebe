"""Minima and maxima of floating numbers that pass over NaN: an infinity stands in its place.

    x = min(x, y if y < inf else inf)         x = max(x, y if y > -inf else -inf)

So Python's `x = min(x, y)` treats terms that are NaN. As an operator of reductions it is
associative among terms, and infinity is its identity; an x that is NaN before the first term stays
NaN.
"""

from __future__ import annotations

import math

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Select, Var

__all__ = ["extreme_over_numbers", "number_operator", "pass_over_nan", "passed_term"]

_BEFORE = {"min": "lt", "max": "gt"}


def pass_over_nan(op: str, value: Expr) -> Expr:
    """A term of a minimum or maximum, with the infinity that changes none in the place of NaN."""
    end = Const(math.inf if op == "min" else -math.inf, value.dtype)
    match value:
        case Const(value=number):
            return end if number != number else value
        case Cast(x=x) if x.dtype.is_exact:
            return value
    return Select(Binary(_BEFORE[op], value, end), value, end)


def passed_term(op: str, value: Expr) -> Expr | None:
    """The term that `pass_over_nan` was made of; None for other expressions."""
    match value:
        case Select(cond=Binary(x=term), x=chosen) if op in _BEFORE and term == chosen:
            if term.dtype.is_float and value == pass_over_nan(op, term):
                return term
    return None


def extreme_over_numbers(op: str, dtype: DType) -> Expr:
    """The operator `x = min(x, y)`, or max, that passes over NaN, over Var("x") and Var("y")."""
    return Binary(op, Var("x", dtype), pass_over_nan(op, Var("y", dtype)))


def number_operator(operator: str | Expr) -> str | None:
    """Return "min" or "max" where an operator of a reduction is one that passes over NaN."""
    if not isinstance(operator, Binary) or operator.op not in _BEFORE:
        return None
    return operator.op if operator == extreme_over_numbers(operator.op, operator.dtype) else None
