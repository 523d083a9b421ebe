"""Operators on typed values of Python expressions, with NumPy's type promotion (NEP 50).

Comparisons of integers are exact, min and max have Python's meaning; everything else converts its
operands to NumPy's common type first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

from loopwright.frontends.affine_check import why_not_affine
from loopwright.frontends.constant_folding import negated
from loopwright.frontends.python.exact_comparisons import exact_comparison
from loopwright.frontends.python.merged_types import join
from loopwright.frontends.python.python_values import (
    Either,
    PyValue,
    Value,
    constant,
    convert,
    each,
    either,
    truth,
)
from loopwright.frontends.python.raise_conditions import divides, grows, is_infinite, note
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT64, DType
from loopwright.ir.expr import COMPARISONS, Binary, Cast, Const, Expr, Select, Unary, cast
from loopwright.ir.passed_nan import pass_over_nan

__all__ = ["binary", "extreme", "select", "unary", "updated_extreme"]

_INT8 = DTYPES["int8"]
_SMALL = 1 << 20  # factors of sizes up to here keep sums of them inside int64
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


def binary(op: str, x: Value, y: Value) -> Value:
    """`x op y` for an operator of BINARY_OPS, with NumPy's result type."""
    if isinstance(x, Either):
        return each(lambda side: binary(op, side, y), x)
    if isinstance(y, Either):
        return each(lambda side: binary(op, x, side), y)
    return _binary(op, x, y)


def _binary(op: str, x: PyValue, y: PyValue) -> PyValue:
    if x.weak and y.weak and isinstance(x.expr, Const) and isinstance(y.expr, Const):
        return _folded(op, x.expr.value, y.expr.value)
    if op == "pow":
        return _power(x, y)
    dtype, weak = join((x.type, y.type))
    if op in COMPARISONS:
        return PyValue(_comparison(op, x, y, dtype), weak)
    if dtype == BOOL:
        return _boolean(op, x, y, weak)
    if dtype.is_complex and op in ("floordiv", "mod", "min", "max"):
        raise _no_operator(op, x, y)
    if op in ("floordiv", "mod") and dtype.is_integer and _is_zero(y):
        raise Refusal("LW104", "an integer is divided by the constant zero")
    if op in ("and", "or", "xor") and not dtype.is_integer:
        raise _no_operator(op, x, y, "only integers and booleans have bits")
    if weak:
        _note_operation(op, x.expr, y.expr)
    if op == "div" and not (dtype.is_float or dtype.is_complex):
        dtype = FLOAT64
    return PyValue(_combine(op, convert(x, dtype), convert(y, dtype)), weak)


def _note_operation(op: str, x: Expr, y: Expr) -> None:
    """Note where an operation on Python's numbers may raise, or leave int64.

    Sums of loop variables and sizes stay inside: integer arguments that are large never get here.
    """
    if op in ("div", "floordiv", "mod"):
        note(lambda: divides(x, y))
    elif op in ("add", "sub", "mul") and x.dtype.is_exact and y.dtype.is_exact:
        factors = [side.value for side in (x, y) if isinstance(side, Const)]
        is_small = all(abs(number) <= _SMALL for number in factors)
        both = _combine(op, cast(x, INT64), cast(y, INT64))
        if why_not_affine(both) is not None or not is_small:
            note(lambda: grows(op, x, y))


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


def _comparison(op: str, x: PyValue, y: PyValue, dtype: DType) -> Expr:
    if dtype.is_complex and op not in ("eq", "ne"):
        raise _no_operator(op, x, y)
    exact = exact_comparison(op, x, y)
    return Binary(op, convert(x, dtype), convert(y, dtype)) if exact is None else exact


def _boolean(op: str, x: PyValue, y: PyValue, weak: bool) -> PyValue:
    """`x op y` of booleans: Python's are the integers 0 and 1, NumPy's are truth values."""
    if op in ("and", "or", "xor"):
        return PyValue(Binary(op, x.expr, y.expr), weak)
    if op in ("min", "max"):
        return PyValue(Binary("and" if op == "min" else "or", x.expr, y.expr), weak)
    if weak:
        return _binary(op, _as_int(x), _as_int(y))
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
    if weak:
        _note_power(base, convert(y, dtype))
    if exponent == 2:  # NumPy squares by multiplication, too
        return PyValue(_combine("mul", base, base), weak)
    return PyValue(Binary("pow", base, convert(y, dtype)), weak)


def _note_power(base: Expr, exponent: Expr) -> None:
    """Note where a power of Python's numbers may raise, be complex or leave int64."""
    if base.dtype == INT64:
        base, exponent = cast(base, FLOAT64), cast(exponent, FLOAT64)
        note(lambda: grows("mul", Binary("pow", base, exponent), Const(1.0, FLOAT64)))
    else:
        note(lambda: is_infinite(Binary("pow", base, exponent)))


def unary(op: str, x: Value) -> Value:
    """`op x` for "neg", "pos", "abs", and "invert" (Python's ~)."""
    return each(partial(_unary, op), x)


def _unary(op: str, x: PyValue) -> PyValue:
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
    if x.weak and x.dtype == INT64 and op in ("neg", "abs"):
        note(lambda: grows("add", expr, Const(0)))
    if op == "abs" and x.weak and why_not_affine(expr) is None:
        return PyValue(expr.max(Unary("neg", expr)), weak=True)  # affine, so bounds may use it
    return PyValue(Unary({"invert": "not"}.get(op, op), expr), x.weak)


# -- values of one side or another ------------------------------------------------------------


def select(cond: Expr, x: Value, y: Value) -> Value:
    """`np.where(cond, x, y)`: both sides have NumPy's common type."""
    if isinstance(x, Either):
        return each(lambda side: select(cond, side, y), x)
    if isinstance(y, Either):
        return each(lambda side: select(cond, x, side), y)
    dtype, _ = join((x.type, y.type))
    one, other = convert(x, dtype), convert(y, dtype)
    if isinstance(cond, Const):
        return PyValue(one if cond.value else other)
    return PyValue(Select(cond, one, other))


_REPLACES = {"min": "lt", "max": "gt"}


def extreme(op: str, x: Value, y: Value) -> Value:
    """Python's `min(x, y)` or `max(x, y)`: x, unless y is less or greater.

    So of equal values, and where one is NaN, the first is kept; each has the type it comes with.
    """
    if isinstance(x, PyValue) and isinstance(y, PyValue):
        if x.dtype.is_complex or y.dtype.is_complex:
            raise _no_operator(op, x, y)
        if x.weak and y.weak and isinstance(x.expr, Const) and isinstance(y.expr, Const):
            return _folded(op, x.expr.value, y.expr.value)
        if x.dtype == y.dtype and x.dtype.is_exact:
            word = op if x.dtype != BOOL else {"min": "and", "max": "or"}[op]
            both = _combine(word, x.expr, y.expr)
            if x.weak == y.weak:
                return PyValue(both, x.weak)
            replaced = truth(_binary(_REPLACES[op], y, x))
            is_weak = replaced if y.weak else negated(replaced)
            return either(is_weak, PyValue(both, weak=True), PyValue(both))
    return either(truth(binary(_REPLACES[op], y, x)), y, x)


def updated_extreme(op: str, own: Value, value: Value) -> Value:
    """`own = min(own, value)`, or max, as a reduction: a NaN among the values is passed over.

    So does Python, whose NaN is never less; an element that is NaN itself stays. Which of two zeros
    remains is left open, so that the values may be taken in any order.
    """
    if isinstance(own, Either):
        return extreme(op, own, value)
    if isinstance(value, PyValue) and value.weak and isinstance(value.expr, Const):
        value = value if value.dtype.is_complex else PyValue(convert(value, own.dtype), own.weak)
    if not isinstance(value, PyValue) or not own.dtype.is_float or value.dtype != own.dtype:
        return extreme(op, own, value)
    both = Binary(op, own.expr, pass_over_nan(op, value.expr))
    if own.weak == value.weak:
        return PyValue(both, own.weak)
    replaced = truth(_binary(_REPLACES[op], value, own))
    is_weak = replaced if value.weak else negated(replaced)
    return either(is_weak, PyValue(both, weak=True), PyValue(both))
