"""Functions that a kernel may call, with their types: builtins, `math` and NumPy.

Functions of `math` compute in double precision and give Python floats; NumPy's keep the type of
their argument. Arguments outside a function's domain give nan or inf where Python would raise.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from loopwright.frontends.python.merged_types import join
from loopwright.frontends.python.numpy_promotion import (
    binary,
    extreme,
    select,
    unary,
)
from loopwright.frontends.python.python_values import (
    Either,
    PyValue,
    Value,
    constant,
    convert,
    either,
    on_sides,
    truth,
)
from loopwright.frontends.python.raise_conditions import is_infinite, note
from loopwright.frontends.refusal import Refusal
from loopwright.ir.check_expr import FUNCTION_KINDS
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT64, DType, dtype_of
from loopwright.ir.expr import FUNCTIONS, REAL_ONLY, Call, Const
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import IdentityMap

__all__ = ["ACCEPTED", "call", "extreme_of", "is_known", "part"]

_ANY = 255  # stands for any number of arguments


@dataclass(frozen=True, slots=True)
class _Function:
    """How calls of one function are typed and built."""

    least: int
    most: int
    build: Callable[[Sequence[PyValue]], Value]


def is_known(function: object) -> bool:
    """Whether calls of a function can be compiled."""
    return function in _TABLE


def call(function: object, name: str, args: Sequence[Value]) -> Value:
    """The value of `function(*args)` for a known function."""
    found = _TABLE[function]
    if not found.least <= len(args) <= found.most:
        least = f"at least {found.least}" if found.most == _ANY else str(found.least)
        raise Refusal(
            "LW124",
            f"'{name}' takes {least} argument{'s' if found.least != 1 else ''}",
            found=str(len(args)),
        )
    if function in _EXTREMES:
        return reduce(partial(extreme, _EXTREMES[function]), args)
    return _of_sides(found.build, args)


def extreme_of(function: object) -> str | None:
    """ "min" or "max" for Python's functions of these names."""
    return _EXTREMES.get(function)


def _of_sides(build: Callable[[Sequence[PyValue]], Value], args: Sequence[Value]) -> Value:
    """A function of values, applied to every combination of their sides."""
    for at, arg in enumerate(args):
        if isinstance(arg, Either):
            before, behind = args[:at], args[at + 1 :]
            sides = on_sides(
                arg.cond,
                lambda side, before=before, behind=behind: _of_sides(  # type: ignore[misc]
                    build, (*before, side, *behind)
                ),
                arg.x,
                arg.y,
            )
            return either(arg.cond, *sides)
    return build([arg for arg in args if isinstance(arg, PyValue)])


def part(name: str, value: PyValue) -> PyValue:
    """The `.real` or `.imag` part of a value."""
    if value.dtype.is_complex:
        return PyValue(Call(name, (value.expr,)), value.weak)
    return value if name == "real" else PyValue(convert(constant(0), value.dtype), value.weak)


def _strong(value: Value) -> PyValue:
    """The value as a NumPy scalar, which NumPy functions return for Python numbers too."""
    assert isinstance(value, PyValue)  # operators give numbers of one type for such
    return PyValue(value.expr)


def _operator(op: str, args: Sequence[PyValue]) -> Value:
    if op in ("min", "max") and all(arg.weak for arg in args):
        dtype, _ = join([arg.type for arg in args])  # NumPy's have one type, whichever is taken
        args = [PyValue(convert(arg, dtype), weak=True) for arg in args]
    return _strong(binary(op, *args))


def _resolved(ufunc: np.ufunc, args: Sequence[PyValue]) -> DType:
    """The dtype in which NumPy computes `ufunc`."""
    python = {"i": int, "f": float, "c": complex}
    kinds = [python[a.dtype.kind] if a.weak and a.dtype != BOOL else a.dtype.numpy for a in args]
    try:
        return dtype_of(ufunc.resolve_dtypes((*kinds, None))[0])
    except TypeError:
        types = " and ".join(map(str, args))
        raise Refusal("LW103", f"'{ufunc.__name__}' is not defined for {types}") from None


def _ufunc(ufunc: np.ufunc, name: str, args: Sequence[PyValue]) -> PyValue:
    dtype = _resolved(ufunc, args)
    converted = tuple(convert(a, dtype) for a in args)
    if dtype.kind in FUNCTION_KINDS[name]:
        return PyValue(Call(name, converted))
    if not dtype.is_integer or len(converted) > 1:
        raise Refusal("LW103", f"'{name}' is not defined for {dtype}")
    return PyValue(converted[0])  # floor, ceil, trunc and conj leave integers as they are


def _numpy_abs(ufunc: np.ufunc, args: Sequence[PyValue]) -> PyValue:
    return _strong(unary("abs", PyValue(convert(args[0], _resolved(ufunc, args)))))


def _math(function: Callable[..., float], name: str, args: Sequence[PyValue]) -> Value:
    if name in ("floor", "ceil", "trunc") and args[0].weak and args[0].dtype.is_exact:
        return _cast(INT64, True, args)  # as it is: float64 does not hold every integer
    given = [convert(a, FLOAT64) for a in args]
    constants = [x.value for x in given if isinstance(x, Const)]
    if len(constants) == len(given):
        try:
            return constant(function(*constants))
        except (ValueError, OverflowError):
            raise Refusal("LW104", "this constant cannot be computed") from None
    if name == "pow":
        return binary("pow", *(PyValue(x, weak=True) for x in given))
    result = PyValue(Call(name, tuple(given)), weak=True)
    note(lambda: is_infinite(result.expr))
    return _cast(INT64, True, [result]) if name in ("floor", "ceil", "trunc") else result


def _cast(dtype: DType, weak: bool, args: Sequence[PyValue]) -> PyValue:
    if dtype == BOOL:
        return PyValue(truth(args[0]), weak)
    return PyValue(convert(args[0], dtype), weak)


def _fabs(args: Sequence[PyValue]) -> Value:
    return unary("abs", PyValue(convert(args[0], FLOAT64), weak=True))


def _where(args: Sequence[PyValue]) -> PyValue:
    return _strong(select(truth(args[0]), args[1], args[2]))


def _square(args: Sequence[PyValue]) -> Value:
    """NumPy has no square of booleans, and takes the one of int8."""
    x = _cast(DTYPES["int8"], False, args) if args[0].dtype == BOOL else args[0]
    return _strong(binary("mul", x, x))


def _of_two_types(args: Sequence[PyValue]) -> Value:
    raise AssertionError("min and max take values as they are")


def _rows() -> dict[object, _Function]:
    """The table of accepted functions, by object."""
    rows: dict[object, _Function] = {
        builtins.min: _Function(2, _ANY, _of_two_types),
        builtins.max: _Function(2, _ANY, _of_two_types),
        builtins.abs: _Function(1, 1, lambda args: unary("abs", args[0])),
        builtins.pow: _Function(2, 2, lambda args: binary("pow", *args)),
        math.fabs: _Function(1, 1, _fabs),
        np.where: _Function(3, 3, _where),
        np.square: _Function(1, 1, _square),
        np.real: _Function(1, 1, lambda args: _strong(part("real", args[0]))),
        np.imag: _Function(1, 1, lambda args: _strong(part("imag", args[0]))),
    }
    for kind, name in ((bool, "bool"), (int, "int64"), (float, "float64"), (complex, "complex128")):
        rows[kind] = _Function(1, 1, partial(_cast, DTYPES[name], True))
    for dtype in DTYPES.values():
        rows[dtype.numpy.type] = _Function(1, 1, partial(_cast, dtype, False))
    for name, arity in FUNCTIONS.items():
        ufunc = getattr(np, _NUMPY_NAMES.get(name, name), None)
        function = getattr(math, "gamma" if name == "tgamma" else name, None)
        if isinstance(ufunc, np.ufunc):
            rows[ufunc] = _Function(arity, arity, partial(_ufunc, ufunc, name))
        if function is not None:
            rows[function] = _Function(arity, arity, partial(_math, function, name))
    for ufunc in (np.absolute, np.fabs):
        rows[ufunc] = _Function(1, 1, partial(_numpy_abs, ufunc))
    for ufunc, op in _OPERATORS.items():
        rows[ufunc] = _Function(2, 2, partial(_operator, op))
    return rows


_OPERATORS: dict[np.ufunc, str] = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.divide: "div",
    np.floor_divide: "floordiv",
    np.remainder: "mod",
    np.power: "pow",
    np.minimum: "min",
    np.maximum: "max",
}
# What NumPy calls differently, and what it calls by a name that is another function's.
_NUMPY_NAMES = {
    **{name: f"arc{name[1:]}" for name in REAL_ONLY if name.startswith("a")},
    "atan2": "arctan2",
    "remainder": "",
}
_EXTREMES: IdentityMap[object, str] = IdentityMap([(min, "min"), (max, "max")])
_ROWS = _rows()
# By identity: a captured object need not be hashable, and its __eq__ may be arbitrary.
_TABLE: IdentityMap[object, _Function] = IdentityMap(_ROWS.items())
# For the hint of a refusal.
ACCEPTED = "min, max, abs, len, int, float, and functions of math or NumPy such as sqrt and exp"
