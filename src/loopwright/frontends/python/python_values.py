"""Typed values of Python expressions: numbers of one type, and values whose type depends on data.

A value is strong (an array element, a NumPy scalar) or weak (a Python number). Weak values yield
to the dtype of the other operand as NEP 50 says: `float32 + 1.5` stays float32. Python's own
integers are unbounded; here they are int64 and wrap around.

`a[i] if p[i] else 0.5` has the type of whichever side is taken, and so have min and max. Where the
sides differ it is an `Either`: operators are applied to both sides, until their types agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

import numpy as np

from loopwright.frontends.constant_folding import folded_logical, negated, rounded_constant
from loopwright.frontends.python.raise_conditions import guarded, narrows, note, noted
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Expr, Select
from loopwright.ir.visit import loads
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "COMPLEX128",
    "WEAK",
    "Either",
    "PyType",
    "PyValue",
    "Value",
    "choose",
    "constant",
    "convert",
    "each",
    "either",
    "leaves",
    "logical",
    "on_sides",
    "parts",
    "truth",
]

PyType: TypeAlias = tuple[DType, bool]  # dtype, and whether the value is weak (a Python number)
COMPLEX128 = DTYPES["complex128"]
# Python's own types, lowest first, as dtypes; and a NumPy stand-in of each that promotes weakly.
WEAK: dict[DType, bool | int | float | complex] = {
    BOOL: False,
    INT64: 0,
    FLOAT64: 0.0,
    COMPLEX128: 0j,
}
Result = TypeVar("Result")
_MOST_LEAVES = 16  # sides of one value


@dataclass(frozen=True, slots=True)
class PyValue:
    """A typed expression that may be a Python number."""

    expr: Expr
    weak: bool = False

    @property
    def dtype(self) -> DType:
        return self.expr.dtype

    @property
    def type(self) -> PyType:
        return self.dtype, self.weak

    def __str__(self) -> str:
        names = {"bool": "bool", "int64": "int", "float64": "float", "complex128": "complex"}
        return names[self.dtype.name] if self.weak else self.dtype.name


@dataclass(frozen=True, slots=True)
class Either:
    """The value of `x if cond else y`, whose sides have different types."""

    cond: Expr
    x: Value
    y: Value

    def __str__(self) -> str:
        return " or ".join(dict.fromkeys(map(str, leaves(self))))


Value: TypeAlias = PyValue | Either


def leaves(value: Value) -> Iterator[PyValue]:
    """The values of one type that a value may be."""
    match value:
        case PyValue():
            yield value
        case Either(x=x, y=y):
            yield from leaves(x)
            yield from leaves(y)


def parts(value: Value) -> Iterator[Expr]:
    """Every expression that a value is made of."""
    match value:
        case PyValue(expr=expr):
            yield expr
        case Either(cond=cond, x=x, y=y):
            yield cond
            yield from parts(x)
            yield from parts(y)


def each(change: Callable[[PyValue], Value], value: Value) -> Value:
    """`change` applied to every side of a value."""
    match value:
        case PyValue():
            return change(value)
        case Either(cond=cond, x=x, y=y):
            return either(cond, *on_sides(cond, lambda side: each(change, side), x, y))


def on_sides(
    cond: Expr, change: Callable[[Value], Result], x: Value, y: Value
) -> tuple[Result, Result]:
    """`change` applied to both sides of a value; each side may raise only where it is chosen."""
    since = noted()
    one = change(x)
    guarded(cond, since)
    since = noted()
    other = change(y)
    guarded(negated(cond), since)
    return one, other


def either(cond: Expr, x: Value, y: Value) -> Value:
    """`x if cond else y`; a constant condition is folded.

    Sides of one dtype share an expression: they differ in weakness at most, and the condition says
    when the value is weak.
    """
    if isinstance(cond, Const):
        return x if cond.value else y
    one, other = _shared(x), _shared(y)
    if one is not None and other is not None and one[0].dtype == other[0].dtype:
        expr = one[0] if one[0] == other[0] else Select(cond, one[0], other[0])
        return _perhaps_weak(expr, _chosen(cond, one[1], other[1]))
    found = Either(cond, x, y)
    if sum(1 for _ in leaves(found)) > _MOST_LEAVES:
        raise Refusal(
            "LW119",
            "the type of this value depends on too many conditions",
            found=str(found),
            hint="convert the sides of conditional expressions, min and max to one type",
        )
    return found


def _shared(value: Value) -> tuple[Expr, Expr] | None:
    """The expression that all sides of a value have, and the condition under which it is weak."""
    match value:
        case PyValue(expr=expr, weak=weak):
            return expr, Const(weak, BOOL)
        case Either(cond=cond, x=PyValue(expr=x, weak=True), y=PyValue(expr=y)) if x == y:
            return x, cond
    return None


def _perhaps_weak(expr: Expr, weak: Expr) -> Value:
    if isinstance(weak, Const):
        return PyValue(expr, bool(weak.value))
    return Either(weak, PyValue(expr, weak=True), PyValue(expr))


def _chosen(cond: Expr, x: Expr, y: Expr) -> Expr:
    """`x if cond else y` of conditions."""
    if x == y:
        return x
    return logical("or", logical("and", cond, x), logical("and", negated(cond), y))


def constant(value: bool | int | float | complex | np.generic) -> PyValue:
    """A literal or a captured number; NumPy scalars are strong."""
    if isinstance(value, np.generic):
        return PyValue(Const(value.item(), dtype_of(value.dtype)))
    for kind, dtype in zip((bool, int, float, complex), WEAK, strict=True):
        if isinstance(value, kind):
            return PyValue(_const(value, dtype), weak=True)
    raise AssertionError(f"not a number: {value!r}")


def convert(value: Value, dtype: DType) -> Expr:
    """The value as `dtype`, by NumPy's `astype`; constants are converted here and must fit."""
    match value:
        case PyValue(expr=expr):
            note(lambda: narrows(expr, dtype))
            return _converted(expr, dtype)
        case Either(cond=cond, x=x, y=y):
            one, other = on_sides(cond, lambda side: convert(side, dtype), x, y)
            return one if one == other else Select(cond, one, other)


def _converted(expr: Expr, dtype: DType) -> Expr:
    if expr.dtype == dtype:
        return expr
    if expr.dtype.is_complex and not dtype.is_complex:
        raise Refusal(
            "LW109",
            f"a complex value is used where {dtype} is needed",
            hint="take its .real or .imag part, or abs() of it",
        )
    if isinstance(expr, Const):
        return _const(expr.value, dtype)
    return Cast(expr, dtype)


def _const(value: bool | int | float | complex, dtype: DType) -> Const:
    """The constant `value` of type `dtype`, rounded to it."""
    if dtype == BOOL:
        return Const(bool(value), dtype)
    if dtype.is_integer:
        assert not isinstance(value, complex)
        limits = np.iinfo(dtype.name)
        # Fractions are truncated as by astype; infinities and nan do not fit.
        whole = int(value) if abs(value) < float("inf") else limits.max + 1
        if not limits.min <= whole <= limits.max:
            raise Refusal("LW104", f"the constant {value} does not fit {dtype}")
        return Const(whole, dtype)
    return rounded_constant(value, dtype)


# -- conditions -----------------------------------------------------------------------------


def truth(value: Value) -> Expr:
    """`bool(value)` as an expression."""
    match value:
        case Either(cond=cond, x=x, y=y):
            one, other = truth(x), truth(y)
            return one if one == other else _chosen(cond, one, other)
        case PyValue(expr=expr) if expr.dtype == BOOL:
            return expr
        case PyValue(expr=Const(value=known)):
            return Const(bool(known), BOOL)
        case PyValue(expr=expr):
            return Binary("ne", expr, _const(0, expr.dtype))


def logical(op: str, x: Expr, y: Expr) -> Expr:
    """`x and y` or `x or y` of conditions, constants folded."""
    known = folded_logical(op, x, y)
    return Binary(op, x, y) if known is None else known


def choose(cond: Expr, x: Value, y: Value) -> Value:
    """`x if cond else y`, tested on the affine parts of the condition first.

    `A[i-1] if i > 0 and A[i-1] > 0 else 0.0` reads no element outside A: statements are split
    at affine conditions, and what remains of the condition is evaluated only where they hold.
    """
    if not _is_mixed(cond):
        return either(cond, x, y)
    match cond:
        case Binary(op="and", x=left, y=right):
            return choose(left, choose(right, x, y), y)
        case Binary(op="or", x=left, y=right):
            return choose(left, x, choose(right, x, y))
        case _:
            return either(cond, x, y)


def _is_mixed(cond: Expr) -> bool:
    """Whether a condition combines parts that load from memory with parts that do not."""
    match cond:
        case Binary(op="and" | "or", x=x, y=y):
            return _is_mixed(x) or _is_mixed(y) or bool(loads(x)) != bool(loads(y))
        case _:
            return False
