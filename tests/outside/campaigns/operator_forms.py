"""Forms of operators for `operator_types`, values at the ends of each type, and Python's results.

A form is some statements that set `r` from `x` and `y`: expressions, assignments to names, updates.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

import numpy as np

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import FUNCTIONS

__all__ = [
    "CAPTURED",
    "FORMS",
    "KINDS",
    "PYTHON",
    "TABLE",
    "TWO_53",
    "TWO_63",
    "Form",
    "Outcome",
    "boundary_values",
    "own_type",
    "result_type",
    "stored",
    "value_of",
]

PYTHON: dict[str, type] = {"pybool": bool, "pyint": int, "pyfloat": float, "pycomplex": complex}
KINDS = (*DTYPES, *PYTHON)
TWO_53, TWO_63 = 1 << 53, 1 << 63
# NumPy's scalars from outside the function, and an array that forms take elements of.
CAPTURED = {"c8": np.uint8(200), "c64": np.int64(-3), "f32": np.float32(0.1)}
TABLE = np.array([10, 11, 12, 13, 14])


# -- values ---------------------------------------------------------------------------------------


def boundary_values(kind: str) -> list[Any]:
    """Values at and around the ends of a type, as elements of an array or Python numbers."""
    if kind in ("bool", "pybool"):
        found: list[Any] = [False, True]
    elif kind == "pyint":
        found = [0, 1, -1, 3, 127, 128, 256, -129, 1 << 31, TWO_53 + 1, TWO_63 - 1, -TWO_63]
    elif kind in ("pyfloat", "float64"):
        found = [0.0, -0.0, 1.0, -2.5, 300.0, 0.1, math.nan, math.inf, -math.inf, 5e-324, 1.7e308]
        found += [2.0**53, -(2.0**63), 2.0**63]
    elif kind in ("pycomplex", "complex64", "complex128"):
        found = [0j, complex(-0.0, 0.0), 1 + 0j, -2.5 + 3j, 1j]
    elif DTYPES[kind].is_float:
        info = np.finfo(kind)
        found = [0.0, -0.0, 1.0, -2.5, 0.1, math.nan, math.inf, -math.inf, 2049.0]
        found += [float(info.max), float(info.smallest_subnormal)]
    else:
        low, high = DTYPES[kind].least, DTYPES[kind].greatest
        found = sorted({low, 0, 1, 3, high // 2 + 1, high - 1, high})
        found += [-1, low + 1] if low else []
        found += [TWO_53 + 1] if DTYPES[kind].bits == 64 else []
    return found if kind in PYTHON else list(np.array(found, kind))


# -- forms ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """Statements that set `r`, the result, from `x` and `y`; `op` names what is computed."""

    op: str
    text: str
    into: str = ""  # dtype of the array of results; empty: the type that Python gives
    updates: bool = False  # r holds x before, in the dtype of x

    @property
    def names(self) -> frozenset[str]:
        """The names that the statements use."""
        return _names(self.text)


@cache
def _names(text: str) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))


def _forms() -> Iterator[Form]:
    for op in ("+", "-", "*", "/", "//", "%", "&", "|", "^", "**"):
        yield Form(op, f"r = x {op} y")
        yield Form(f"{op}=", f"r {op}= y", updates=True)
        yield Form(f"{op}= of a name", f"t = x\nt {op}= y\nr = t")
    for op in ("<", "<=", ">", ">=", "==", "!="):
        yield Form(op, f"r = x {op} y", "bool")
        yield Form(f"{op}, in a branch", f"if x {op} y:\n    r = 1\nelse:\n    r = 2", "int8")
    yield Form("<, chained", "r = x < y <= x", "bool")
    for op in ("min", "max"):
        for into in ("", "int64", "float64", "uint8", "float32"):
            yield Form(f"{op} into {into or 'its type'}", f"r = {op}(x, y)", into)
        yield Form(f"{op} with 0.5", f"r = {op}(x, 0.5)", "int64")
        yield Form(f"{op} of three", f"r = {op}(y, x, 3)", "float64")
        yield Form(f"{op} + y", f"r = {op}(x, y) + y", "float64")
        yield Form(f"{op}, updates", f"r = {op}(r, y)", updates=True)
        yield Form(f"np.{op}imum", f"r = np.{op}imum(x, y)")
    yield Form("conditional", "r = x if x != y else y")
    yield Form("conditional into int64", "r = x if x == x else y", "int64")
    yield Form("conditional into uint64", "r = y if x != x else y", "uint64")
    yield Form("conditional + y", "r = (x if y == y else y) + y", "float64")
    yield Form("np.where", "r = np.where(x == x, x, y)")
    yield Form("a name of two types", "t = x\nif x != y:\n    t = y\nr = t", "float64")
    yield Form("a name of two types into int64", "t = y\nif x == y:\n    t = x\nr = t", "int64")
    yield Form("a name and 0.5", "t = 0.5\nif x == x:\n    t = x\nr = t", "float64")
    yield Form("a name and 1", "t = 1\nif y == y:\n    t = y\nr = t", "float64")
    for op in ("+x", "-x", "~x", "abs(x)", "not x", "bool(x)", "int(x)", "float(x)", "complex(x)"):
        yield Form(op, f"r = {op}")
    for name in ("math.floor", "math.ceil", "math.trunc", "math.sqrt", "math.fabs", "math.exp"):
        yield Form(name, f"r = {name}(x)")
    for name in ("floor", "ceil", "trunc", "rint", "sqrt", "abs", "square", "conj", "real"):
        yield Form(f"np.{name}", f"r = np.{name}(x)")
    yield Form("x ** 2", "r = x ** 2")
    yield Form("x ** 0.5", "r = x ** 0.5")
    for dtype in DTYPES:
        yield Form(f"np.{dtype}()", f"r = np.{dtype}(x)")
        yield Form(f"stored as {dtype}", "r = x", dtype)
    for number in ("-1", "300", "1.5", "2.0 ** 53"):
        yield Form(f"> {number}", f"r = x > {number}", "bool")
        yield Form(f"!= {number}", f"r = {number} != x", "bool")
        yield Form(f"max with {number}", f"r = max(x, {number})", "float64")

    yield from _calls()
    yield from _constants()
    yield Form("or", "r = x < y or y < x", "bool")
    yield Form("not and", "r = not (x < y and x == x)", "bool")
    for index in ("x % 5", "x // 3 % 5", "min(max(x, 0), 4)", "4 - x % 5", "(x % 5 + y % 5) % 5"):
        yield Form(f"z[{index}]", f"r = z[{index}]")


def _calls() -> Iterator[Form]:
    """Functions of `math` and NumPy: those that IR has, and operators by name."""
    yield Form("pow()", "r = pow(x, y)")
    for name in ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power"):
        yield Form(f"np.{name}", f"r = np.{name}(x, y)")
    for name, arity in FUNCTIONS.items():
        given = "x, y"[: 3 * arity - 2]
        word = {"tgamma": "gamma"}.get(name, name)
        if arity <= 2 and hasattr(math, word) and word not in ("floor", "ceil", "trunc", "sqrt"):
            yield Form(f"math.{word}", f"r = math.{word}({given})")
        word = {"atan2": "arctan2"}.get(name, f"arc{name[1:]}" if name[0] == "a" else name)
        known = ("floor", "ceil", "trunc", "sqrt", "rint", "conj", "real", "remainder", "pow")
        if arity <= 2 and hasattr(np, word) and word not in (*known, "round"):
            yield Form(f"np.{word}", f"r = np.{word}({given})")


def _constants() -> Iterator[Form]:
    """Operators beside literals, and beside NumPy's scalars from outside the function."""
    for op in ("+", "-", "*", "/", "//", "%", "&", "**"):
        for number in ("3", "-7", "2.5", "True", "1j", *CAPTURED):
            yield Form(f"{op} {number}", f"r = x {op} {number}")
            yield Form(f"{number} {op}", f"r = {number} {op} x")
    for number in CAPTURED:
        yield Form(f"< {number}", f"r = x < {number}", "bool")
        yield Form(f"min with {number}", f"r = min({number}, x)", "float64")
        yield Form(f"np.maximum with {number}", f"r = np.maximum(x, {number})")


FORMS = tuple({form.op: form for form in _forms()}.values())


# -- Python's results -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What one form gives for one pair of values: by Python, and by us."""

    form: Form
    x: Any
    y: Any
    expected: Any  # a NumPy scalar of the array of results, or the exception that Python raises
    value: Any  # what Python computes, before it is stored
    found: Any = None

    def __str__(self) -> str:
        given = f"x = {self.x!r}, y = {self.y!r}"
        return f"{self.form.text!r} with {given}: {self.found!r}, Python: {self.expected!r}"


@cache
def _code(text: str) -> CodeType:
    return compile(text, "form", "exec")


def value_of(form: Form, x: Any, y: Any) -> Any:
    """What Python computes for one pair of values, or the exception that it raises."""
    exponent = y if "y" in form.names else x if form.op.endswith("**") else 0
    if ("**" in form.op or form.op == "pow()") and type(exponent) is int and exponent > 1 << 12:
        return OverflowError("Python int too large to convert to C long")  # it would take ages
    old = np.asarray(x, own_type(x))[()] if form.updates else None
    names: dict[str, Any] = {"np": np, "math": math, "x": x, "y": y, "r": old, "z": TABLE}
    names |= CAPTURED
    try:
        exec(_code(form.text), names)
    except (ArithmeticError, ValueError, TypeError, IndexError) as error:
        return error
    return names["r"]


def stored(value: Any, into: str) -> Any:
    """What is found in an array of a dtype that a value was stored to, or the exception."""
    if isinstance(value, Exception):
        return value
    kept = np.zeros(1, into)
    try:
        kept[0] = value
    except (ArithmeticError, ValueError, TypeError) as error:
        return error
    return kept[0]


def result_type(form: Form, values: list[Any], left: str) -> str:
    """The dtype of a form's array of results: one that holds what Python computes."""
    if form.updates:
        return left if left in DTYPES else own_type(PYTHON[left]())
    if form.into:
        return form.into
    found = {own_type(value) for value in values if not isinstance(value, Exception)}
    return np.result_type(*found).name if found else "float64"


def own_type(value: Any) -> str:
    """The dtype of a value; a Python integer is an int64."""
    match value:
        case np.generic() | np.ndarray():
            return value.dtype.name
        case bool():
            return "bool"
        case int():
            return "int64"
    return "complex128" if isinstance(value, complex) else "float64"
