"""The meaning of expressions: NumPy scalars, one rule per operator and kind of type.

Nothing here warns or raises on account of values; every operator is total.

- Integers wrap modulo 2^bits, in `abs`, negation and powers too. `x // 0` and `x % 0` are 0. The
  least integer divided by -1 is itself, with remainder 0. An integer to a negative power is
  1/x^n rounded towards zero, and 0 for x = 0. Shifts are by their count modulo the bits of
  the type, as machines do; C leaves other counts open.
- `add_top`, `add_bottom`, `add_sat` and `mul_sat` do not wrap: beyond the type they give its
  nearest end.
  `add_top(x, y)` is the greatest value where x or y is, `add_bottom` the least where either is.
- Floating types round every operation in their own type, float16 included. `fma(x, y, z)` rounds
  twice here; a machine may round once, so backends differ from this file by that rounding.
- `min` and `max` give a NaN when either operand is one (which NaN is open), and take -0.0 to be
  less than +0.0, as IEEE 754-2019 minimum and maximum: so they commute and associate bit by bit.
- On booleans `+`, `max`, `|` are "or", and `*`, `min`, `&` are "and".
- Conversions follow `astype`. Where C leaves them open they saturate: a float beyond an integer
  type gives its least or greatest value, NaN gives 0. Complex to real drops the imaginary part.
- Types that are stored only (bfloat16) are their bits; conversions to and from others go by way of
  float32, to the nearest, ties to even.
- Both branches of a Select are evaluated: addresses must be valid in both, but only the chosen
  value needs to be defined.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, assert_never

import numpy as np

from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import FLOAT32, INT64, DType, dtype_of
from loopwright.ir.evaluate_index import as_index
from loopwright.ir.evaluate_real import REAL_FUNCTIONS
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.memory import Cells, UndefinedRead
from loopwright.ir.visit import expanded_dot, expanded_extreme
from loopwright.memo import BoundedCache

__all__ = [
    "NUMBERS",
    "Evaluator",
    "Frame",
    "Given",
    "Rules",
    "compile_expr",
    "compiled",
    "convert",
    "evaluate",
    "literal",
    "quiet",
]


class Frame(Protocol):
    """What an expression can see: variables by name, and elements of arrays."""

    @property
    def variables(self) -> Mapping[str, np.generic]: ...

    def load(self, array: str, index: tuple[int, ...]) -> np.generic: ...


Evaluator = Callable[[Frame], Any]  # gives a NumPy scalar of the expression's dtype


def quiet() -> np.errstate:
    """A context in which NumPy scalars overflow and divide by zero without warnings."""
    return np.errstate(all="ignore")


def evaluate(
    expr: Expr,
    env: Mapping[str, int | np.generic] | None = None,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> np.generic:
    """The value of `expr`, a NumPy scalar of its dtype; plain ints in `env` are taken as int64."""
    with quiet():
        variables = {
            name: literal(value, INT64) if isinstance(value, int) else value
            for name, value in (env or {}).items()
        }
        cells = {name: Cells(name, data) for name, data in (arrays or {}).items()}
        value: np.generic = compile_expr(expr)(Given(variables, cells))
    return value


class Given:
    """A frame of fixed contents."""

    def __init__(self, variables: Mapping[str, np.generic], cells: Mapping[str, Cells]) -> None:
        self.variables = variables
        self.cells = cells

    def load(self, array: str, index: tuple[int, ...]) -> np.generic:
        if array not in self.cells:
            raise InternalError(f"array {array} is not given")
        return self.cells[array].read(index)


def literal(value: complex | np.generic, dtype: DType) -> np.generic:
    """A number as a NumPy scalar of `dtype`; integers wrap."""
    scalar: Callable[[object], np.generic] = dtype.numpy.type
    if not dtype.is_integer:
        return scalar(value)
    assert not isinstance(value, complex | float)
    wrapped = int(value) % (1 << dtype.bits)
    is_negative = dtype.kind == "i" and wrapped >> (dtype.bits - 1)
    return scalar(wrapped - (1 << dtype.bits) if is_negative else wrapped)


def convert(value: Any, dtype: DType) -> Any:
    """A NumPy scalar as another dtype."""
    if value.dtype.kind == "c" and not dtype.is_complex and dtype.kind != "b":
        value = value.real
    if not dtype.is_integer or value.dtype.kind != "f":
        return value.astype(dtype.numpy)
    number = float(value)
    if math.isnan(number):
        return literal(0, dtype)
    # Python compares floats and integers exactly, so the clamp is exact for 64 bits too.
    if not dtype.least < number < dtype.greatest:
        return literal(dtype.least if number <= dtype.least else dtype.greatest, dtype)
    return literal(math.trunc(number), dtype)


def _widened(bits: Any) -> np.float32:
    """The float32 of which a bfloat16 is the upper half."""
    return np.uint32(int(bits) << 16).view(np.float32)


def _narrowed(value: Any) -> np.uint16:
    """The bits of the bfloat16 nearest to a float32, ties to even; a NaN stays one."""
    bits = int(np.float32(value).view(np.uint32))
    if math.isnan(value):
        return np.uint16(bits >> 16 | 0x40)
    return np.uint16((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def _power(x: Any, y: Any) -> Any:
    if x.dtype.kind in "fc":
        return x**y
    base, exponent, bits = int(x), int(y), 8 * x.dtype.itemsize
    if exponent >= 0:
        power = pow(base, exponent, 1 << bits)
    else:
        power = base ** (exponent % 2) if base in (1, -1) else 0
    return literal(power, dtype_of(x.dtype))


def _least(x: Any, y: Any) -> Any:
    if x == y:
        return x if np.signbit(x) else y
    return y if y < x or y != y else x


def _greatest(x: Any, y: Any) -> Any:
    if x == y:
        return y if np.signbit(x) else x
    return y if y > x or y != y else x


def _clamped(number: int, dtype: DType) -> np.generic:
    """The value of an integer type that lies nearest to a number."""
    return literal(min(max(number, dtype.least), dtype.greatest), dtype)


def _add_top(x: Any, y: Any) -> Any:
    dtype = dtype_of(x.dtype)
    return max(x, y) if dtype.greatest in (x, y) else _clamped(int(x) + int(y), dtype)


def _add_bottom(x: Any, y: Any) -> Any:
    dtype = dtype_of(x.dtype)
    return min(x, y) if dtype.least in (x, y) else _clamped(int(x) + int(y), dtype)


def _add_sat(x: Any, y: Any) -> Any:
    return _clamped(int(x) + int(y), dtype_of(x.dtype))


def _mul_sat(x: Any, y: Any) -> Any:
    return _clamped(int(x) * int(y), dtype_of(x.dtype))


def _shift_left(x: Any, y: Any) -> Any:
    return literal(int(x) << int(y) % (8 * x.dtype.itemsize), dtype_of(x.dtype))


def _shift_right(x: Any, y: Any) -> Any:
    return literal(int(x) >> int(y) % (8 * x.dtype.itemsize), dtype_of(x.dtype))


def _floating_only(rule: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Min and max of exact types need no care for signed zeros and NaN."""
    exact = min if rule is _least else max
    return lambda x, y: rule(x, y) if x.dtype.kind == "f" else exact(x, y)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": _floating_only(_least),
    "max": _floating_only(_greatest),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "pow": _power,
    "shl": _shift_left,
    "shr": _shift_right,
    "add_top": _add_top,
    "add_bottom": _add_bottom,
    "mul_sat": _mul_sat,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg,
    "not": operator.invert,
    "abs": abs,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    **REAL_FUNCTIONS,
    "floor": np.floor,
    "ceil": np.ceil,
    "conj": np.conjugate,
    "real": np.real,
    "imag": np.imag,
    "pow": _power,
    "add_sat": _add_sat,
    "fma": lambda x, y, z: x * y + z,
}


class Rules:
    """What interpreters do with values: these are the rules of numbers.

    Values of other rules may carry more than a number (see ir/shadow); they give a dtype, a truth
    and, where they serve as subscripts, an int.
    """

    def constant(self, number: complex, dtype: DType) -> Any:
        with quiet():
            return literal(number, dtype)

    def unary(self, op: str) -> Callable[[Any], Any]:
        return _UNARY[op]

    def binary(self, op: str) -> Callable[[Any, Any], Any]:
        return _BINARY[op]

    def cast(self, dtype: DType) -> Callable[[Any], Any]:
        return lambda value: convert(value, dtype)

    def call(self, function: str) -> Callable[..., Any]:
        return _FUNCTIONS[function]

    def select(self, cond: Any, chosen: Any, other: Any) -> Any:
        """The value of a conditional expression; `other` is None where it is undefined."""
        return chosen

    def cells(self, name: str, data: np.ndarray[Any, np.dtype[Any]], **facts: Any) -> Cells:
        """Memory for values of these rules; `facts` are those of Cells."""
        return Cells(name, data, **facts)

    def begin(self, statement: str, point: tuple[int, ...]) -> None:
        """What follows belongs to one instance of a statement."""


NUMBERS = Rules()


def compile_expr(expr: Expr, rules: Rules = NUMBERS) -> Evaluator:
    """A function from frames to the value of `expr`; run it inside `quiet()`.

    Interpreters evaluate one expression very often: choosing the rules once makes them bearable.
    """

    def down(part: Expr) -> Evaluator:
        return compile_expr(part, rules)

    match expr:
        case Const(value=number, dtype=dtype):
            constant = rules.constant(number, dtype)
            return lambda frame: constant
        case Var(name=name):
            return _variable(name)
        case Load(array=array, index=index):
            places = tuple([as_index(entry, down(entry)) for entry in index])
            return lambda frame: frame.load(array, tuple([at(frame) for at in places]))
        case Binary(op=op, x=left, y=right):
            return _binary(op, rules.binary(op), down(left), down(right))
        case Unary(op=op, x=x):
            rule, argument = rules.unary(op), down(x)
            return lambda frame: rule(argument(frame))
        case Select(cond=cond, x=left, y=right):
            return _select(rules, down(cond), down(left), down(right))
        case Cast(x=x, dtype=dtype) if x.dtype.is_stored_only:
            conversion, argument = rules.cast(dtype), down(x)
            return lambda frame: conversion(_widened(argument(frame)))
        case Cast(x=x, dtype=dtype) if dtype.is_stored_only:
            conversion, argument = rules.cast(FLOAT32), down(x)
            return lambda frame: _narrowed(conversion(argument(frame)))
        case Cast(x=x, dtype=dtype):
            conversion, argument = rules.cast(dtype), down(x)
            return lambda frame: conversion(argument(frame))
        case Call(function="dot", args=(x, y, z)):
            return down(expanded_dot(x, y, z))
        case Call(function="min_number" | "max_number" as function, args=(x, y)):
            return down(expanded_extreme(function, x, y))
        case Call(function=function, args=args):
            call, arguments = rules.call(function), tuple(map(down, args))
            return lambda frame: call(*[argument(frame) for argument in arguments])
        case _:
            assert_never(expr)


# Of numbers, by identity: the expression, which keeps its address, and what it was compiled to.
_compiled: BoundedCache[int, tuple[Expr, Evaluator]] = BoundedCache(1 << 14)


def compiled(expr: Expr, rules: Rules = NUMBERS) -> Evaluator:
    """As `compile_expr`; what was compiled lately for the rules of numbers is used again.

    A nest runs many times, on other data: to compile its expressions takes as long as a short run.
    """
    if rules is not NUMBERS:
        return compile_expr(expr, rules)
    found = _compiled.get(id(expr))
    if found is None:
        found = _compiled[id(expr)] = expr, compile_expr(expr, rules)
    return found[1]


def _variable(name: str) -> Evaluator:
    def read(frame: Frame) -> np.generic:
        try:
            return frame.variables[name]
        except KeyError:
            raise InternalError(f"variable {name} has no value here") from None

    return read


def _binary(op: str, rule: Callable[[Any, Any], Any], x: Evaluator, y: Evaluator) -> Evaluator:
    def apply(frame: Frame) -> Any:
        left, right = x(frame), y(frame)
        kind, other = left.dtype, right.dtype
        # NumPy would promote quietly; the language has no implicit conversions. NumPy's own
        # dtypes are one object each, which spares the comparison.
        if kind is not other and kind != other:
            raise InternalError(f"operands of '{op}' are {left.dtype} and {right.dtype}")
        return rule(left, right)

    return apply


def _select(rules: Rules, cond: Evaluator, x: Evaluator, y: Evaluator) -> Evaluator:
    def choose(frame: Frame) -> Any:
        test, rejected = cond(frame), None
        chosen, other = (x, y) if test else (y, x)
        with suppress(UndefinedRead):
            rejected = other(frame)
        return rules.select(test, chosen(frame), rejected)

    return choose
