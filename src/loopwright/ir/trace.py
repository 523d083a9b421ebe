"""A Python function of two numbers as an expression, found by calling it with stand-ins."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from loopwright.diagnostics import DtypeError, UsageError
from loopwright.ir.check_expr import InvalidExpr, Scope, check_expr
from loopwright.ir.dtypes import DType
from loopwright.ir.evaluate import literal, quiet
from loopwright.ir.expr import Binary, Const, Expr, Unary, Var

__all__ = ["Traced", "as_const", "maximum", "minimum", "trace"]

# NumPy's functions that have an operator of ours; writing np.minimum in a lambda is natural.
_UFUNCS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "power": "pow",
    "minimum": "min",
    "maximum": "max",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "negative": "neg",
    "invert": "not",
    "absolute": "abs",
}


class Traced:
    """A number that is not known yet; remembers as an expression what is done with it."""

    __slots__ = ("expr",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def _binary(self, op: str, other: object, *, is_swapped: bool = False) -> Traced:
        y = other.expr if isinstance(other, Traced) else as_const(other, self.expr.dtype)
        return Traced(Binary(op, y, self.expr) if is_swapped else Binary(op, self.expr, y))

    def __add__(self, other: object) -> Traced:
        return self._binary("add", other)

    def __radd__(self, other: object) -> Traced:
        return self._binary("add", other, is_swapped=True)

    def __sub__(self, other: object) -> Traced:
        return self._binary("sub", other)

    def __rsub__(self, other: object) -> Traced:
        return self._binary("sub", other, is_swapped=True)

    def __mul__(self, other: object) -> Traced:
        return self._binary("mul", other)

    def __rmul__(self, other: object) -> Traced:
        return self._binary("mul", other, is_swapped=True)

    def __truediv__(self, other: object) -> Traced:
        return self._binary("div", other)

    def __rtruediv__(self, other: object) -> Traced:
        return self._binary("div", other, is_swapped=True)

    def __and__(self, other: object) -> Traced:
        return self._binary("and", other)

    def __rand__(self, other: object) -> Traced:
        return self._binary("and", other, is_swapped=True)

    def __or__(self, other: object) -> Traced:
        return self._binary("or", other)

    def __ror__(self, other: object) -> Traced:
        return self._binary("or", other, is_swapped=True)

    def __xor__(self, other: object) -> Traced:
        return self._binary("xor", other)

    def __rxor__(self, other: object) -> Traced:
        return self._binary("xor", other, is_swapped=True)

    def __neg__(self) -> Traced:
        return Traced(Unary("neg", self.expr))

    def __invert__(self) -> Traced:
        return Traced(Unary("not", self.expr))

    def __abs__(self) -> Traced:
        return Traced(Unary("abs", self.expr))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **_: object) -> Traced:
        op = _UFUNCS.get(ufunc.__name__)
        if op is None or method != "__call__":
            raise UsageError(
                f"np.{ufunc.__name__} cannot be part of a semiring operator",
                hint="accepted: + - * / & | ^ ~ abs minimum maximum",
            )
        if len(inputs) == 1:
            return Traced(Unary(op, self.expr))
        is_swapped = inputs[0] is not self
        return self._binary(op, inputs[0 if is_swapped else 1], is_swapped=is_swapped)

    def _refuse(self, *_: object) -> NoReturn:
        raise UsageError(
            "a semiring operator cannot compare or branch on its arguments",
            hint="write minimum(x, y), maximum(x, y) of loopwright.semirings, or x & y, x | y",
        )

    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refuse
    __eq__ = __ne__ = _refuse


def minimum(x: Any, y: Any) -> Any:
    """The lesser of two numbers, for use in the functions of a semiring of one's own."""
    return np.minimum(x, y)


def maximum(x: Any, y: Any) -> Any:
    """The greater of two numbers, for use in the functions of a semiring of one's own."""
    return np.maximum(x, y)


def as_const(value: object, dtype: DType) -> Const:
    """A number as a constant of `dtype`; raises DtypeError when the type has no such value.

    Floating types may round it, but not to infinity.
    """
    if not isinstance(value, bool | int | float | complex | np.generic):
        raise UsageError("a semiring operator mixes numbers only", found=repr(value))
    number = value.item() if isinstance(value, np.generic) else value
    if dtype.is_complex:
        return Const(complex(number), dtype)
    if dtype.is_float and not isinstance(number, complex):
        with quiet():
            rounded = float(literal(number, dtype).item())
        if math.isfinite(rounded) or not math.isfinite(number):
            return Const(rounded, dtype)
    elif not isinstance(number, complex) and math.isfinite(number) and number == int(number):
        limits = np.iinfo(dtype.name) if dtype.is_integer else None
        if limits is None and number in (0, 1):
            return Const(bool(number), dtype)
        if limits is not None and limits.min <= number <= limits.max:
            return Const(int(number), dtype)
    raise DtypeError(f"{number!r} is not a value of {dtype}")


def trace(function: Callable[[Any, Any], Any], dtype: DType) -> Expr:
    """The value of `function(x, y)` over Var("x", dtype) and Var("y", dtype)."""
    x, y = Var("x", dtype), Var("y", dtype)
    try:
        result = function(Traced(x), Traced(y))
    except UsageError:
        raise
    except (TypeError, AttributeError) as error:
        raise UsageError(f"the function of a semiring cannot be followed: {error}") from error
    expr = result.expr if isinstance(result, Traced) else as_const(result, dtype)
    try:
        check_expr(expr, Scope({"x": dtype, "y": dtype}, {}))
    except InvalidExpr as error:
        raise DtypeError(
            f"the function of a semiring does not take {dtype}: {error.rule}"
        ) from None
    if expr.dtype != dtype:
        raise DtypeError(f"the function of a semiring turns {dtype} into {expr.dtype}")
    return expr
