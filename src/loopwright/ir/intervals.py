"""Bounds of integer expressions: between which numbers their values lie.

An operation that could leave its type wraps around: it may then give any value of the type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var

__all__ = ["Interval", "assumed", "exact_interval", "fits", "interval", "limits"]

Interval: TypeAlias = tuple[int, int]  # least and greatest value

_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def limits(dtype: DType) -> Interval:
    """The least and the greatest value of an integer or boolean type."""
    if dtype == BOOL:
        return 0, 1
    if dtype.kind == "u":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def fits(found: Interval, dtype: DType) -> bool:
    """Whether all values of an interval are values of the type."""
    low, high = limits(dtype)
    return low <= found[0] and found[1] <= high


def interval(expr: Expr, known: Mapping[str, Interval]) -> Interval:
    """Bounds of an integer or boolean expression; `known` are those of variables and scalars."""
    exact = exact_interval(expr, known)
    return exact if fits(exact, expr.dtype) else limits(expr.dtype)


def exact_interval(expr: Expr, known: Mapping[str, Interval]) -> Interval:
    """As `interval`, but the outermost operation does not wrap around."""
    dtype = expr.dtype
    match expr:
        case Const(value=value) if not isinstance(value, float | complex):
            return int(value), int(value)
        case Var(name=name) | Load(array=name, index=()):
            return known.get(name, limits(dtype))
        case Cast(x=x) if x.dtype.is_integer or x.dtype == BOOL:
            return interval(x, known)
        case Unary(op="neg", x=x) if dtype.is_integer:
            low, high = interval(x, known)
            return -high, -low
        case Unary(op="abs", x=x) if dtype.is_integer:
            low, high = interval(x, known)
            return max(low, -high, 0), max(-low, high)
        case Select(cond=cond, x=x, y=y) if dtype.is_integer:
            one = interval(x, assumed(cond, known, holds=True))
            other = interval(y, assumed(cond, known, holds=False))
            return min(one[0], other[0]), max(one[1], other[1])
        case Binary(op=op, x=x, y=y) if dtype.is_integer:
            return _binary_interval(op, interval(x, known), interval(y, known), dtype)
    return limits(dtype)


def _binary_interval(op: str, x: Interval, y: Interval, dtype: DType) -> Interval:
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
        case "shl" | "shr" if y[0] >= 0 and y[1] < dtype.bits:
            corners = [a << b if op == "shl" else a >> b for a in x for b in y]
            return min(corners), max(corners)
        case "and" if x[0] >= 0 or y[0] >= 0:  # the bits of a side that is not negative
            return 0, min(high for low, high in (x, y) if low >= 0)
    return limits(dtype)


def assumed(cond: Expr, known: Mapping[str, Interval], *, holds: bool) -> Mapping[str, Interval]:
    """What is known where a condition on a variable, or its opposite, holds."""
    match cond:
        case Binary(
            op=op, x=Var(name=name) | Load(array=name, index=()) as x, y=Const(value=int(value))
        ) if op in _OPPOSITE and x.dtype.is_integer:
            low, high = interval(x, known)
            match op if holds else _OPPOSITE[op]:
                case "lt":
                    high = min(high, value - 1)
                case "le":
                    high = min(high, value)
                case "gt":
                    low = max(low, value + 1)
                case "ge":
                    low = max(low, value)
                case "eq":
                    low, high = max(low, value), min(high, value)
            if low <= high:  # else this part is never chosen
                return {**known, name: (low, high)}
    return known
