"""Functions of array elements by the formulas of NumPy's vectors, which have its bits."""

from __future__ import annotations

import math

from loopwright.ir.expr import Binary, Call, Const, Expr, Select, Unary
from loopwright.ir.visit import rewrite

__all__ = ["as_in_vectors"]


def as_in_vectors(value: Expr) -> Expr:
    """An expression over elements with the formulas that NumPy has for whole arrays."""

    def change(node: Expr) -> Expr:
        match node:
            case Unary(op="abs", x=x) if x.dtype.is_complex:
                return _complex_absolute(x)
        return node

    return rewrite(value, change)


def _complex_absolute(z: Expr) -> Expr:
    """The larger part m times sqrt(1 + (smaller / m)^2), where no square can over- or underflow.

    Infinite parts count more than NaN. loops_unary_complex.dispatch.c.src of NumPy.
    """
    real, imag = (Unary("abs", Call(part, (z,))) for part in ("real", "imag"))
    dtype = real.dtype
    zero, one, infinite = (Const(x, dtype) for x in (0.0, 1.0, math.inf))
    greater, less = Binary("max", real, imag), Binary("min", real, imag)
    ratio = Binary("div", less, greater)
    found = Binary("mul", greater, Call("sqrt", (Call("fma", (ratio, ratio, one)),)))
    is_infinite = Binary("or", Binary("eq", real, infinite), Binary("eq", imag, infinite))
    return Select(is_infinite, infinite, Select(Binary("eq", greater, zero), zero, found))
