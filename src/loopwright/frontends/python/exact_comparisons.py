"""Comparisons as Python and NumPy 2 make them: of integers exactly, whatever their types."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from loopwright.frontends.constant_folding import negated
from loopwright.frontends.python.python_values import PyValue, convert, logical
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, cast

__all__ = ["exact_comparison"]

_UINT64 = DTYPES["uint64"]
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_OF_NUMBERS: dict[str, Callable[[float, float], bool]] = {
    name: getattr(operator, name) for name in _TURNED
}
_MOST_EXACT = 1 << 53  # integers up to here are float64


def exact_comparison(op: str, x: PyValue, y: PyValue) -> Expr | None:
    """`x op y` where NumPy compares exactly; None where it converts to a common type first.

    That is so of integers, a Python number or not, and of a Python integer and a Python float.
    """
    if x.dtype.is_exact and y.dtype.is_exact:
        return _of_integers(op, x.expr, y.expr)
    if x.weak and y.weak and x.dtype.kind in "bi" and y.dtype.is_float:
        return _with_float(op, cast(x.expr, INT64), y.expr)
    if x.weak and y.weak and x.dtype.is_float and y.dtype.kind in "bi":
        return _with_float(_TURNED[op], cast(y.expr, INT64), x.expr)
    return None


def _of_integers(op: str, x: Expr, y: Expr) -> Expr:
    if x.dtype == y.dtype:
        return Binary(op, x, y)
    if isinstance(x, Const) and isinstance(y, Const):
        return Const(_OF_NUMBERS[op](x.value.real, y.value.real), BOOL)
    if isinstance(x, Const):
        return _with_constant(_TURNED[op], y, int(x.value.real))
    if isinstance(y, Const):
        return _with_constant(op, x, int(y.value.real))
    if _UINT64 not in (x.dtype, y.dtype):
        return Binary(op, *_in_common(x, y))
    if x.dtype != _UINT64:
        return _of_integers(_TURNED[op], y, x)
    if y.dtype.kind != "i":
        return Binary(op, x, Cast(y, _UINT64))
    is_negative = Binary("lt", y, Const(0, y.dtype))
    among_others = Binary(op, x, Cast(y, _UINT64))
    if op in ("gt", "ge", "ne"):
        return Binary("or", is_negative, among_others)
    return Binary("and", negated(is_negative), among_others)


def _in_common(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Both as the narrowest integer type that holds all of their values."""
    kinds = [dtype for dtype in (x.dtype, y.dtype) if dtype != BOOL]
    found = max(kinds, key=lambda dtype: dtype.bits)
    if any(dtype.kind != found.kind for dtype in kinds):
        bits = max(2 * dtype.bits if dtype.kind == "u" else dtype.bits for dtype in kinds)
        found = DTYPES[f"int{bits}"]
    return cast(x, found), cast(y, found)


def _with_constant(op: str, x: Expr, number: int) -> Expr:
    """`x op number`; known where no value of the type of x is the number."""
    dtype = x.dtype
    if dtype == BOOL:
        return Binary(op, Cast(x, INT64), Const(number))
    if dtype.least <= number <= dtype.greatest:
        return Binary(op, x, Const(number, dtype))
    return Const(_OF_NUMBERS[op](dtype.least, number), BOOL)


def _with_float(op: str, x: Expr, y: Expr) -> Expr:
    """`x op y` of an int64 and a float64, as Python compares them."""
    if isinstance(y, Const):
        assert not isinstance(y.value, complex)
        return _with_float_constant(op, x, float(y.value))
    near = convert(PyValue(x), FLOAT64)
    if isinstance(x, Const) and abs(int(x.value.real)) <= _MOST_EXACT:
        return Binary(op, near, y)
    # Rounding keeps the order of numbers, so that it matters only where it meets y.
    whole = Cast(y, INT64)  # 2.0 ** 63 gives the greatest integer, which is less
    is_above_all = Binary("ge", y, Const(2.0**63, FLOAT64))

    def of(name: str, left: Expr, right: Expr) -> Expr:
        return Binary(name, left, right)

    match op:
        case "eq":
            same = logical("and", of("eq", near, y), of("eq", x, whole))
            return logical("and", same, negated(is_above_all))
        case "ne":
            return negated(_with_float("eq", x, y))
        case "lt":
            tie = logical("or", of("lt", x, whole), is_above_all)
        case "ge":
            tie = logical("and", of("ge", x, whole), negated(is_above_all))
        case _:
            tie = of(op, x, whole)
    strictly = {"le": "lt", "ge": "gt"}.get(op, op)
    return logical("or", of(strictly, near, y), logical("and", of("eq", near, y), tie))


def _with_float_constant(op: str, x: Expr, number: float) -> Expr:
    """`x op number` as a comparison of integers."""
    dtype: DType = INT64
    if math.isnan(number) or not dtype.least <= number < 2.0**63:
        return Const(_OF_NUMBERS[op](0, number), BOOL)
    if op in ("eq", "ne") and number != math.floor(number):
        return Const(op == "ne", BOOL)
    whole = math.floor(number) if op in ("le", "gt") else math.ceil(number)
    return Binary(op, x, Const(whole))
