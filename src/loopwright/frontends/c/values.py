"""Values of C expressions: a typed expression, and whether it counts places.

A value that is made of loop variables, integer parameters and integer constants alone is an
*index*: its expression is int64 whatever its C type, so that bounds and subscripts can use it.
Signed arithmetic must not overflow in C, and so int64 is exact for it. Unsigned arithmetic wraps
around: an index of unsigned type is right modulo 2^bits, and whatever depends on more (comparing,
dividing, widening) is done on int64 only where the value is proven not to be negative. That indices
stay below 2^bits is taken for granted, as in all arithmetic of places here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from loopwright.frontends.c.refusal import Refusal
from loopwright.frontends.c.types import BOOLEAN, INT, CType, promoted
from loopwright.ir.dtypes import BOOL, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Unary

__all__ = [
    "Prove",
    "Value",
    "constant",
    "convert",
    "data",
    "float_constant",
    "index",
    "negated",
    "number_of",
    "promote",
    "truth",
    "zero",
]

# Whether an affine condition holds wherever the place being read is reached.
Prove: TypeAlias = Callable[[Expr], bool]


@dataclass(frozen=True, slots=True)
class Value:
    """A typed expression; its dtype is that of the C type, or int64 for an index, or bool for the
    outcome of a comparison, which C calls an int.
    """

    expr: Expr
    ctype: CType
    is_index: bool = False

    @property
    def is_truth(self) -> bool:
        return self.expr.dtype == BOOL and self.ctype == INT


def constant(value: int, ctype: CType = INT) -> Value:
    """An integer constant, wrapped to its type; in int64, so 2^64 - 1 becomes -1."""
    return Value(Const(_wrapped(_wrapped(value, ctype.dtype), INT64)), ctype, is_index=True)


def number_of(value: Value) -> int | None:
    """The integer that a value is known to be."""
    match value.expr:
        case Const(value=int() as number) if value.is_index:
            return _wrapped(number, value.ctype.dtype)
        case _:
            return None


def index(expr: Expr, ctype: CType) -> Value:
    """A value made of loop variables, parameters and constants."""
    if isinstance(expr, Const):
        assert isinstance(expr.value, int)
        return constant(expr.value, ctype)
    return Value(expr, ctype, is_index=True)


def float_constant(value: float, dtype: DType) -> Const:
    """A floating constant, rounded to its type."""
    with np.errstate(over="ignore"):
        rounded: float = dtype.numpy.type(value).item()
    return Const(rounded, dtype)


def _wrapped(value: int, dtype: DType) -> int:
    if dtype == BOOL:
        return int(bool(value))
    limit = 1 << dtype.bits
    value %= limit
    return value - limit if dtype.kind == "i" and value >= limit // 2 else value


def data(value: Value) -> Expr:
    """The value as an expression of its own type's dtype."""
    dtype = value.ctype.dtype
    match value.expr:
        case Const(value=bool() | int() as number) if value.is_index:
            plain = _wrapped(int(number), dtype)
            return Const(bool(plain) if dtype == BOOL else plain, dtype)
        case expr if expr.dtype == dtype:
            return expr
        case expr:
            return Cast(expr, dtype)


def convert(value: Value, ctype: CType, prove: Prove) -> Value:
    """The value as another type, by C's rules; constants are converted here."""
    if value.ctype == ctype and not (value.is_truth and ctype == INT):
        return value
    if ctype == BOOLEAN:
        return Value(truth(value), BOOLEAN)
    if value.is_truth:
        match value.expr:
            case Const(value=known):
                return convert(constant(int(bool(known))), ctype, prove)
        return Value(Cast(value.expr, ctype.dtype), ctype)
    if ctype.is_floating:
        return Value(_floating(value, ctype.dtype, prove), ctype)
    match value.expr:
        case Const(value=float() as number):
            return _truncated(number, ctype)
    if value.is_index and (ctype.rank >= INT.rank or isinstance(value.expr, Const)):
        return _as_integer(value, ctype, prove)
    return Value(Cast(data(value), ctype.dtype), ctype)


def _floating(value: Value, dtype: DType, prove: Prove) -> Expr:
    match value.expr:
        case Const(value=float() as number):
            return float_constant(number, dtype)
    known = number_of(value)
    if known is not None:
        return float_constant(float(known), dtype)
    if value.is_index:
        return Cast(_exact(value, prove), dtype)
    return Cast(value.expr, dtype)


def _exact(value: Value, prove: Prove) -> Expr:
    """An index as it really is in C: one of unsigned type that may be negative here wraps."""
    if value.ctype.is_unsigned and not prove(value.expr >= 0):
        return Cast(value.expr, value.ctype.dtype)
    return value.expr


def _as_integer(value: Value, ctype: CType, prove: Prove) -> Value:
    if isinstance(value.expr, Const):
        assert isinstance(value.expr.value, int)
        return constant(value.expr.value, ctype)
    is_widened = ctype.dtype.bits > value.ctype.dtype.bits
    if is_widened and value.ctype.is_unsigned:
        exact = _exact(value, prove)
        if exact is not value.expr:
            return Value(Cast(exact, ctype.dtype), ctype)
    return Value(value.expr, ctype, is_index=True)


def _truncated(number: float, ctype: CType) -> Value:
    """A floating constant as an integer, cut off towards zero."""
    limits = np.iinfo(ctype.dtype.name)
    whole = int(number) if abs(number) < float("inf") else limits.max + 1
    if not limits.min <= whole <= limits.max:
        raise Refusal("LW104", f"the constant {number} does not fit '{ctype}'")
    return constant(whole, ctype)


def truth(value: Value) -> Expr:
    """`value != 0` as a boolean expression."""
    match value.expr:
        case Const(value=known):
            return Const(bool(known), BOOL)
        case expr if expr.dtype == BOOL:
            return expr
        case expr if value.is_index:
            return Binary("ne", expr, Const(0))
        case _:
            plain = data(value)
            return Binary("ne", plain, zero(plain.dtype))


def zero(dtype: DType) -> Const:
    """The constant 0 of a dtype."""
    if dtype == BOOL:
        return Const(False, BOOL)
    return Const(0, dtype) if dtype.is_integer else Const(0.0, dtype)


def negated(cond: Expr) -> Expr:
    """`!cond` of a boolean expression."""
    match cond:
        case Const(value=known):
            return Const(not known, BOOL)
        case _:
            return Unary("not", cond)


def promote(value: Value, prove: Prove) -> Value:
    """The value as `+x` gives it."""
    return convert(value, promoted(value.ctype) if not value.is_truth else INT, prove)
