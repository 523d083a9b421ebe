"""The table of differences between `jit` and Python in docs/python.md: a predicate for each row."""

from __future__ import annotations

import ast
import cmath
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import FUNCTIONS
from outside.campaigns.operator_forms import CAPTURED, TWO_53, TWO_63, Outcome, own_type

__all__ = ["OTHER_ROWS", "ROWS", "Row", "excuse"]

_EXACT = ("sqrt", "floor", "ceil", "trunc", "round", "rint", "conj", "real", "imag", "fmod")
_ROUNDED = {"gamma", "arctan2"} | {
    name
    for short in FUNCTIONS
    if short not in (*_EXACT, "remainder", "copysign")
    for name in (short, f"arc{short[1:]}")
}


# Rows that no single operator shows.
OTHER_ROWS = (
    "a product in a sum",
    "products of matrices",
    "sums of some elements",
    "warnings",
    "numbers that are returned",
    "`np.where` of numbers",
    "what raises for every value",
    "texts of exceptions",
    "strides of axes with one element",
    "Ctrl-C",
)


@dataclass(frozen=True)
class Row:
    """A row of the table in docs/python.md: what Python does that `jit` does not."""

    name: str
    holds: Callable[[Outcome], bool]
    example: tuple[str, str, str, Any, Any] | None  # a form, its types and values that differ


def _is_python_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, np.generic)


def _says(error: Any, *words: str) -> bool:
    return isinstance(error, Exception) and any(word in str(error) for word in words)


def _out_of_range(case: Outcome) -> bool:
    """An integer is stored to, or joined with, a type that does not hold it."""
    words = ("out of bounds for", "too large to convert to C")
    return _says(case.expected, *words) and not _float_to_integer(case)


def _beyond_64_bits(case: Outcome) -> bool:
    """Python's integers beyond int64, or beyond 2**53 where they are divided."""
    if _says(case.expected, "too large to convert to float"):
        return True
    numbers = [value for value in (case.x, case.y) if _is_python_int(value)]
    is_wide = any(abs(number) > TWO_53 for number in numbers)
    if is_wide and "/" in case.form.op and "//" not in case.form.op:
        return True
    value = case.value
    return bool(numbers) and is_wide and _is_python_int(value) and not -TWO_63 <= value < TWO_63


def _divided_by_zero(case: Outcome) -> bool:
    return isinstance(case.expected, ZeroDivisionError)


def _float_to_integer(case: Outcome) -> bool:
    """A float is converted to an integer type that does not hold it."""
    if _says(case.expected, "cannot convert float"):
        return True
    into = case.form.into or case.form.op.removeprefix("np.").removesuffix("()")
    into = "int64" if into in ("int(x)", "math.floor", "math.ceil", "math.trunc") else into
    if case.form.updates:
        into = own_type(case.x)
    if into not in DTYPES or not DTYPES[into].is_integer:
        return False
    value = case.x if case.value is None or isinstance(case.value, np.integer) else case.value
    if not isinstance(value, float | np.floating):
        return False
    number = float(value)
    return not math.isfinite(number) or not (
        DTYPES[into].least <= math.trunc(number) <= DTYPES[into].greatest
    )


def _outside_domain(case: Outcome) -> bool:
    """A function or power outside its domain, or the last bits of one that rounds.

    Those are 8 units in the last place; of a power, times the logarithm that rounding comes from.
    Python's complex quotients and powers are NumPy's here, and round as functions do.
    """
    words = ("math domain", "math range", "nonnegative", "Numerical result", "exponentiation")
    is_power = "**" in case.form.op or "pow" in case.form.op
    base, exponent = _power(case) if is_power else (case.x, case.y)
    is_complex = any(isinstance(value, complex | np.complex64) for value in (base, exponent))
    if _says(case.expected, *words) or (
        is_power and not is_complex and isinstance(case.value, complex)
    ):
        return True
    word = case.form.op.removeprefix("np.").removeprefix("math.")
    of_python = isinstance(case.value, complex) and not isinstance(case.value, np.generic)
    is_quotient = of_python and "/" in word
    rounds = is_power or word in _ROUNDED or is_quotient or (is_complex and word == "abs")
    if isinstance(case.expected, Exception) or not rounds:
        return False
    one, other = complex(case.found), complex(case.expected)
    if not all(map(np.isfinite, (one, other))):
        return is_quotient or (is_complex and (is_power or word in _ROUNDED))
    kind = case.expected.dtype
    if one == other:  # zeros of other signs
        return is_complex
    eps = float(np.finfo(kind).eps) if kind.kind in "fc" else 0.0
    factor = 1.0
    if is_power and kind.kind in "fc":
        factor = max(1.0, abs(complex(exponent) * cmath.log(base)) if base else 1.0)
    least = float(np.finfo(kind).smallest_normal) if eps else 0.0
    return abs(one - other) <= 8 * factor * eps * max(abs(other), least)


def _power(case: Outcome) -> tuple[Any, Any]:
    """The base and the exponent of a form that has a power, which may be numbers in its text."""
    names = {"x": case.x, "y": case.y, **CAPTURED}
    for node in ast.walk(ast.parse(case.form.text)):
        match node:
            case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
                return (eval(ast.unparse(base), names), eval(ast.unparse(exponent), names))
            case ast.Call(args=[base, exponent]):
                return (eval(ast.unparse(base), names), eval(ast.unparse(exponent), names))
    return case.x, case.y  # updates of elements and names


def _one_type(case: Outcome) -> bool:
    """A name of several types: Python's floats are rounded to float16 or float32."""
    if "t = " not in case.form.text:
        return False
    narrow = any(isinstance(value, np.float16 | np.float32) for value in (case.x, case.y))
    narrow |= any(isinstance(value, np.complex64) for value in (case.x, case.y))
    return narrow and any(isinstance(value, float | complex) for value in (case.x, case.y))


def _other_zero(case: Outcome) -> bool:
    """Both are zeros, of a reduction by min or max or of np.minimum or np.maximum."""
    is_open = "imum" in case.form.op or "updates" in case.form.op
    return is_open and not isinstance(case.expected, Exception) and case.expected == case.found == 0


def _never(case: Outcome) -> bool:
    """No form shows the difference; test_python_differences does."""
    del case
    return False


def _outside(case: Outcome) -> bool:
    """A subscript that Python counts from the end, or refuses; no form has one."""
    return isinstance(case.expected, IndexError)


ROWS = (
    Row(
        "an integer beyond its type",
        _out_of_range,
        ("+", "uint8", "pyint", np.uint8(3), 256),
    ),
    Row(
        "Python's integers beyond 64 bits",
        _beyond_64_bits,
        ("min + y", "pyint", "pyint", TWO_63 - 1, TWO_63 - 1),
    ),
    Row(
        "Python's numbers divided by zero",
        _divided_by_zero,
        ("/", "pyfloat", "pyfloat", 1.0, 0.0),
    ),
    Row(
        "a float beyond an integer type",
        _float_to_integer,
        ("int(x)", "float64", "float64", np.float64(math.nan), np.float64(0.0)),
    ),
    Row(
        "functions outside their domain",
        _outside_domain,
        ("math.sqrt", "float32", "float32", np.float32(-2.5), np.float32(0.0)),
    ),
    Row(
        "a name has one type",
        _one_type,
        ("a name of two types", "pyfloat", "float32", 0.1, np.float32(0.1)),
    ),
    Row(
        "which of two zeros",
        _other_zero,
        ("min, updates", "float64", "float64", np.float64(0.0), np.float64(-0.0)),
    ),
    Row("subscripts outside the array", _outside, None),
    *(Row(name, _never, None) for name in OTHER_ROWS),
)


def excuse(outcome: Outcome) -> str:
    """The row that excuses an outcome; empty where none does."""
    return next((row.name for row in ROWS if row.holds(outcome)), "")
