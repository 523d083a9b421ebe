"""Which values an integer expression can take: where arithmetic cannot wrap, plain C will do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var

__all__ = ["Interval", "fits", "interval", "limits"]

Interval: TypeAlias = tuple[int, int]  # least and greatest value


def limits(dtype: DType) -> Interval:
    """The values of an integer or boolean type."""
    if dtype == BOOL:
        return 0, 1
    if dtype.kind == "u":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def fits(found: Interval, dtype: DType) -> bool:
    """Whether a type has all values of an interval."""
    low, high = limits(dtype)
    return low <= found[0] and found[1] <= high


def interval(expr: Expr, known: Mapping[str, Interval]) -> Interval:
    """Bounds of an integer or boolean expression; `known` are those of variables.

    An operation that could leave its type wraps around: it may then give any value of the type.
    """
    exact = raw_interval(expr, known)
    return exact if fits(exact, expr.dtype) else limits(expr.dtype)


def raw_interval(expr: Expr, known: Mapping[str, Interval]) -> Interval:
    """As `interval`, but of the outermost operation as if on integers without limits."""
    dtype = expr.dtype
    match expr:
        case Const(value=value) if not isinstance(value, float | complex):
            return int(value), int(value)
        case Var(name=name):
            return known.get(name, limits(dtype))
        case Cast(x=x) if x.dtype.is_integer or x.dtype == BOOL:
            return interval(x, known)
        case Unary(op="neg", x=x) if dtype.is_integer:
            low, high = interval(x, known)
            return -high, -low
        case Select(x=x, y=y) if dtype.is_integer:
            one, other = interval(x, known), interval(y, known)
            return min(one[0], other[0]), max(one[1], other[1])
        case Binary(op=op, x=x, y=y) if dtype.is_integer:
            return _binary(op, interval(x, known), interval(y, known), dtype)
        case Load():
            return limits(dtype)
    return limits(dtype)


def _binary(op: str, x: Interval, y: Interval, dtype: DType) -> Interval:
    match op:
        case "add":
            return x[0] + y[0], x[1] + y[1]
        case "sub":
            return x[0] - y[1], x[1] - y[0]
        case "mul":
            corners = [a * b for a in x for b in y]
            return min(corners), max(corners)
        case "min":
            return min(x[0], y[0]), min(x[1], y[1])
        case "max":
            return max(x[0], y[0]), max(x[1], y[1])
        case "mod" if y[0] > 0:
            return 0, y[1] - 1
        case "floordiv" if y[0] > 0:
            corners = [a // b for a in x for b in y]
            return min(corners), max(corners)
        case "and" if x[0] >= 0 and y[0] >= 0:
            return 0, min(x[1], y[1])
    return limits(dtype)
