"""Affine integer expressions in normal form, sums of terms: for loop bounds, minima, maxima."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import gcd

from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Unary, Var

__all__ = ["Terms", "as_terms", "extreme", "solve", "summed"]

Terms = Mapping[Expr | None, int]  # the coefficient of each term; of None, the constant


def as_terms(expr: Expr) -> Terms:
    """`expr` as a sum of terms; parts such as `i // 2` or `min(i, j)` are terms themselves."""
    match expr:
        case Const(value=int() as value):
            return {None: value} if value else {}
        case Unary(op="neg", x=x):
            return _scaled(as_terms(x), -1)
        case Binary(op="add", x=x, y=y):
            return _added(as_terms(x), as_terms(y), 1)
        case Binary(op="sub", x=x, y=y):
            return _added(as_terms(x), as_terms(y), -1)
        case Binary(op="mul", x=Const(value=int() as factor), y=x):
            return _scaled(as_terms(x), factor)
        case Binary(op="mul", x=x, y=Const(value=int() as factor)):
            return _scaled(as_terms(x), factor)
        case _:
            return {expr: 1}


def _scaled(terms: Terms, factor: int) -> Terms:
    return {part: factor * count for part, count in terms.items()} if factor else {}


def _added(x: Terms, y: Terms, sign: int) -> Terms:
    total = dict(x)
    for part, count in y.items():
        total[part] = total.get(part, 0) + sign * count
    return {part: count for part, count in total.items() if count}


def summed(terms: Terms) -> Expr:
    """The expression of a sum, positive terms first, the constant last."""
    parts = [(part, count) for part, count in terms.items() if part is not None]
    parts.sort(key=lambda item: item[1] < 0)
    total: Expr = Const(0)
    for part, count in parts:
        total = total + part * count if count > 0 else total - part * -count
    constant = terms.get(None, 0)
    return total + constant if constant >= 0 else total - -constant


def solve(terms: Terms, var: str) -> tuple[int, Expr] | None:
    """For `terms = k*var + rest` the pair (k, rest); None when other terms hold var, or k is 0."""
    factor = terms.get(Var(var), 0)
    rest = {part: count for part, count in terms.items() if part != Var(var)}
    if not factor or any(part is not None and _mentions(part, var) for part in rest):
        return None
    return factor, summed(rest)


def _mentions(expr: Expr, var: str) -> bool:
    match expr:
        case Var(name=name):
            return name == var
        case Binary(x=x, y=y):
            return _mentions(x, var) or _mentions(y, var)
        case Unary(x=x):
            return _mentions(x, var)
        case _:
            return False


def extreme(cond: Expr, x: Expr, y: Expr) -> Expr | None:
    """`cond ? x : y` as a minimum or maximum of x and y, if it is one.

    With d = a - b for the condition a < b: where x - y is a positive multiple of d the smaller is
    chosen, where it is a negative multiple the larger. So i < 0 ? -i : i is a maximum.
    """
    match cond:
        case Binary(op="lt" | "le", x=a, y=b) if a.dtype == INT64:
            low = _added(as_terms(a), as_terms(b), -1)
        case Binary(op="gt" | "ge", x=a, y=b) if a.dtype == INT64:
            low = _added(as_terms(b), as_terms(a), -1)
        case _:
            return None
    chosen = _added(as_terms(x), as_terms(y), -1)
    if not low or not chosen:
        return x if not chosen else None
    sign = 1 if next(iter(low.values())) * chosen.get(next(iter(low)), 0) > 0 else -1
    if _primitive(low) != _primitive(_scaled(chosen, sign)):
        return None
    return x.min(y) if sign > 0 else x.max(y)


def _primitive(terms: Terms) -> Terms:
    divisor = reduce(gcd, terms.values())
    return {part: count // divisor for part, count in terms.items()}
