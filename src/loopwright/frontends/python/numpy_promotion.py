"""Typed values of Python expressions, with NumPy's rules of type promotion (NEP 50).

A value is strong (an array element, a NumPy scalar) or weak (a Python number). Weak values yield
to the dtype of the other operand as NEP 50 says: `float32 + 1.5` stays float32. Python's own
integers are unbounded; here they are int64 and wrap around.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from loopwright.frontends.affine_check import why_not_affine
from loopwright.frontends.constant_folding import folded_logical, rounded_constant
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT64, DType, dtype_of
from loopwright.ir.expr import COMPARISONS, Binary, Cast, Const, Expr, Select, Unary
from loopwright.ir.visit import loads
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "PyType",
    "PyValue",
    "binary",
    "choose",
    "constant",
    "convert",
    "join",
    "logical",
    "select",
    "truth",
    "unary",
]

PyType: TypeAlias = tuple[DType, bool]  # dtype, and whether the value is weak (a Python number)
_INT8, _COMPLEX128 = DTYPES["int8"], DTYPES["complex128"]
# Python's own types, lowest first, as dtypes; and a NumPy stand-in of each that promotes weakly.
_WEAK: dict[DType, bool | int | float | complex] = {
    BOOL: False,
    INT64: 0,
    FLOAT64: 0.0,
    _COMPLEX128: 0j,
}
_FOLD: dict[str, Callable[..., object]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "min": min,
    "max": max,
    **{name: getattr(operator, name) for name in COMPARISONS},
}
_PRINTED = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "and": "&",
    "or": "|",
    "xor": "^",
    **COMPARISONS,
}


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


def constant(value: bool | int | float | complex | np.generic) -> PyValue:
    """A literal or a captured number; NumPy scalars are strong."""
    if isinstance(value, np.generic):
        return PyValue(Const(value.item(), dtype_of(value.dtype)))
    for kind, dtype in zip((bool, int, float, complex), _WEAK, strict=True):
        if isinstance(value, kind):
            return PyValue(_const(value, dtype), weak=True)
    raise AssertionError(f"not a number: {value!r}")


def join(types: Sequence[PyType]) -> PyType:
    """The common type of operands."""
    if all(weak for _, weak in types):
        order = list(_WEAK)
        return max((dtype for dtype, _ in types), key=order.index), True
    found = np.result_type(*(_WEAK[dtype] if weak else dtype.numpy for dtype, weak in types))
    return dtype_of(found), False


def convert(value: PyValue, dtype: DType) -> Expr:
    """The value as `dtype`, by NumPy's `astype`; constants are converted here and must fit."""
    if value.dtype == dtype:
        return value.expr
    if value.dtype.is_complex and not dtype.is_complex:
        raise Refusal(
            "LW109",
            f"a complex value is used where {dtype} is needed",
            hint="take its .real or .imag part, or abs() of it",
        )
    if isinstance(value.expr, Const):
        return _const(value.expr.value, dtype)
    return Cast(value.expr, dtype)


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


def binary(op: str, x: PyValue, y: PyValue) -> PyValue:
    """`x op y` for an operator of BINARY_OPS, with NumPy's result type."""
    if x.weak and y.weak and isinstance(x.expr, Const) and isinstance(y.expr, Const):
        return _folded(op, x.expr.value, y.expr.value)
    if op == "pow":
        return _power(x, y)
    dtype, weak = join((x.type, y.type))
    if op in COMPARISONS:
        return _comparison(op, x, y, dtype, weak)
    if dtype == BOOL:
        return _boolean(op, x, y, weak)
    if dtype.is_complex and op in ("floordiv", "mod", "min", "max"):
        raise _no_operator(op, x, y)
    if op in ("floordiv", "mod") and dtype.is_integer and _is_zero(y):
        raise Refusal("LW104", "an integer is divided by the constant zero")
    if op in ("and", "or", "xor") and not dtype.is_integer:
        raise _no_operator(op, x, y, "only integers and booleans have bits")
    if op == "div" and not (dtype.is_float or dtype.is_complex):
        dtype = FLOAT64
    return PyValue(_combine(op, convert(x, dtype), convert(y, dtype)), weak)


def _is_zero(value: PyValue) -> bool:
    return isinstance(value.expr, Const) and value.expr.value == 0


def _combine(op: str, x: Expr, y: Expr) -> Expr:
    """`x op y` of one dtype; int64 goes through the operators of Expr, which fold constants."""
    if x.dtype != INT64:
        return Binary(op, x, y)
    match op:
        case "add":
            return x + y
        case "sub":
            return x - y
        case "mul":
            return x * y
        case "floordiv":
            return x // y
        case "mod":
            return x % y
        case "min":
            return x.min(y)
        case "max":
            return x.max(y)
        case _:
            return Binary(op, x, y)


def _folded(op: str, x: object, y: object) -> PyValue:
    """The constant `x op y`, computed by Python."""
    if op == "pow" and isinstance(x, int) and isinstance(y, int) and abs(x) > 1 and y > 64:
        raise Refusal("LW104", f"the constant {x} ** {y} does not fit int64")
    try:
        result = _FOLD[op](x, y)
    except ZeroDivisionError:
        raise Refusal("LW104", "a constant is divided by zero") from None
    except (OverflowError, TypeError):
        raise Refusal("LW104", "this constant cannot be computed") from None
    assert isinstance(result, bool | int | float | complex)
    return constant(result)


def _no_operator(op: str, x: PyValue, y: PyValue, hint: str = "") -> Refusal:
    name = _PRINTED.get(op, op)
    return Refusal("LW103", f"'{name}' is not defined for {x} and {y}", hint=hint)


def _comparison(op: str, x: PyValue, y: PyValue, dtype: DType, weak: bool) -> PyValue:
    if dtype.is_complex and op not in ("eq", "ne"):
        raise _no_operator(op, x, y)
    try:
        left, right = convert(x, dtype), convert(y, dtype)
    except Refusal:  # a constant beyond the range of the other operand's type
        left, right = convert(x, INT64), convert(y, INT64)
    return PyValue(Binary(op, left, right), weak)


def _boolean(op: str, x: PyValue, y: PyValue, weak: bool) -> PyValue:
    """`x op y` of booleans: Python's are the integers 0 and 1, NumPy's are truth values."""
    if op in ("and", "or", "xor"):
        return PyValue(Binary(op, x.expr, y.expr), weak)
    if op in ("min", "max"):
        return PyValue(Binary("and" if op == "min" else "or", x.expr, y.expr), weak)
    if weak:
        return binary(op, _as_int(x), _as_int(y))
    match op:
        case "add":
            return PyValue(Binary("or", x.expr, y.expr))
        case "mul":
            return PyValue(Binary("and", x.expr, y.expr))
        case "sub":
            raise _no_operator(op, x, y, "^ tells whether two booleans differ")
        case "div":
            return PyValue(Binary(op, Cast(x.expr, FLOAT64), Cast(y.expr, FLOAT64)))
        case _:
            return PyValue(Binary(op, convert(x, _INT8), convert(y, _INT8)))


def _as_int(value: PyValue) -> PyValue:
    """A Python boolean converted to int; any other value unchanged."""
    return PyValue(convert(value, INT64), True) if value.weak and value.dtype == BOOL else value


def _power(x: PyValue, y: PyValue) -> PyValue:
    x, y = _as_int(x), _as_int(y)
    dtype, weak = join((x.type, y.type))
    if dtype == BOOL:
        x, y, dtype = PyValue(Cast(x.expr, _INT8)), PyValue(convert(y, _INT8)), _INT8
    exponent = y.expr.value if isinstance(y.expr, Const) else None
    if dtype.is_integer and not (isinstance(exponent, int) and exponent >= 0):
        raise Refusal(
            "LW103",
            "the exponent of an integer is not a constant of at least zero",
            hint="convert the base to float, as in float(x) ** y",
        )
    base = convert(x, dtype)
    if exponent == 2:  # NumPy squares by multiplication, too
        return PyValue(_combine("mul", base, base), weak)
    return PyValue(Binary("pow", base, convert(y, dtype)), weak)


def unary(op: str, x: PyValue) -> PyValue:
    """`op x` for "neg", "pos", "abs", and "invert" (Python's ~)."""
    if x.dtype == BOOL and not x.weak and op in ("neg", "pos"):
        sign = "-" if op == "neg" else "+"
        raise Refusal("LW103", f"'{sign}' is not defined for bool", hint="'not' negates a boolean")
    if op == "invert" and not (x.dtype.is_integer or x.dtype == BOOL):
        hint = "only integers and booleans have bits"
        raise Refusal("LW103", f"'~' is not defined for {x}", hint=hint)
    x = _as_int(x)
    expr = x.expr
    if op == "pos" or (op == "abs" and x.dtype.kind in "bu"):
        return x
    if x.weak and isinstance(expr, Const):
        fold: dict[str, Callable[..., int | float]]
        fold = {"neg": operator.neg, "abs": abs, "invert": operator.invert}
        return constant(fold[op](expr.value))
    if op == "abs" and x.weak and why_not_affine(expr) is None:
        return PyValue(expr.max(Unary("neg", expr)), weak=True)  # affine, so bounds may use it
    return PyValue(Unary({"invert": "not"}.get(op, op), expr), x.weak)


def truth(value: PyValue) -> Expr:
    """`bool(value)` as an expression."""
    if value.dtype == BOOL:
        return value.expr
    if isinstance(value.expr, Const):
        return Const(bool(value.expr.value), BOOL)
    return Binary("ne", value.expr, _const(0, value.dtype))


def select(cond: Expr, x: PyValue, y: PyValue) -> PyValue:
    """`x if cond else y`; a constant condition is folded."""
    if isinstance(cond, Const):
        return x if cond.value else y
    dtype, weak = join((x.type, y.type))
    return PyValue(Select(cond, convert(x, dtype), convert(y, dtype)), weak)


# -- conditions -----------------------------------------------------------------------------


def logical(op: str, x: Expr, y: Expr) -> Expr:
    """`x and y` or `x or y` of conditions, constants folded."""
    known = folded_logical(op, x, y)
    return Binary(op, x, y) if known is None else known


def choose(cond: Expr, x: PyValue, y: PyValue) -> PyValue:
    """`x if cond else y`, tested on the affine parts of the condition first.

    `A[i-1] if i > 0 and A[i-1] > 0 else 0.0` reads no element outside A: statements are split
    at affine conditions, and what remains of the condition is evaluated only where they hold.
    """
    if not _is_mixed(cond):
        return select(cond, x, y)
    match cond:
        case Binary(op="and", x=left, y=right):
            return choose(left, choose(right, x, y), y)
        case Binary(op="or", x=left, y=right):
            return choose(left, x, choose(right, x, y))
        case _:
            return select(cond, x, y)


def _is_mixed(cond: Expr) -> bool:
    """Whether a condition combines parts that load from memory with parts that do not."""
    match cond:
        case Binary(op="and" | "or", x=x, y=y):
            return _is_mixed(x) or _is_mixed(y) or bool(loads(x)) != bool(loads(y))
        case _:
            return False
