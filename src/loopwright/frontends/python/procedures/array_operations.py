"""Elementwise operations of arrays: broadcasting, and the functions that NumPy has for them.

Types are those of `numpy_promotion`, since a lifted expression is typed as its elements are.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from loopwright.frontends.python import numpy_functions
from loopwright.frontends.python.merged_types import join, settled
from loopwright.frontends.python.numpy_promotion import binary, select, unary
from loopwright.frontends.python.procedures.abstract_values import AnyValue, ArrayValue
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.extents import difference
from loopwright.frontends.python.python_values import PyValue, Value, constant, convert, truth
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT64, DType
from loopwright.ir.expr import COMPARISONS, Binary, Call, Const, Expr, Select, Unary, cast
from loopwright.memo import IdentityMap

__all__ = [
    "Elementwise",
    "as_number",
    "broadcast_shapes",
    "converted",
    "plain",
    "require_fit",
    "strides_in_box",
]

Operand: TypeAlias = PyValue | ArrayValue


def plain(value: AnyValue) -> PyValue:
    """The value as a number for the rules of types; arrays are strong."""
    match value:
        case PyValue():
            return value
        case ArrayValue(expr=expr):
            return PyValue(expr)
    raise Refusal("LW115", "this is neither an array nor a number", found=str(value))


def as_number(value: AnyValue, what: str) -> PyValue:
    """The value, which has to be a number."""
    if isinstance(value, PyValue):
        return value
    raise Refusal("LW116", f"{what} is not a number", found=str(value))


def converted(value: Operand, dtype: DType) -> Operand:
    """The value as another type."""
    expr = convert(plain(value), dtype)
    if isinstance(value, PyValue):
        return PyValue(expr)
    if expr is value.expr:
        return value
    return ArrayValue(expr, value.shape, None, value.order)


def broadcast_shapes(build: Building, shapes: Sequence[tuple[Expr, ...]]) -> tuple[Expr, ...]:
    """The shape that arrays have together, by NumPy's rules."""
    rank = max(map(len, shapes), default=0)
    found: list[Expr] = []
    for k in range(rank, 0, -1):
        one: Expr = Const(1)
        for shape in shapes:
            if len(shape) < k or shape[-k] == Const(1):
                continue
            if one == Const(1):
                one = shape[-k]
            else:
                _require_equal(build, one, shape[-k])
        found.append(one)
    return tuple(found)


def _require_equal(build: Building, x: Expr, y: Expr) -> None:
    """Extents other than 1 are equal, or NumPy raises."""
    if build.equal(x, y):
        return
    if isinstance(difference(x, y), Const):
        text = "extents of operands differ: they do not broadcast together"
        raise Refusal("LW182", text, found=f"a difference of {difference(x, y).value}")  # type: ignore[union-attr]
    one = Const(1)
    differ = Binary("and", Binary("ne", x, one), Binary("ne", y, one))
    text = "extents {0} and {1} broadcast together, which compiled code learns too late"
    build.check(Binary("or", Binary("eq", x, y), differ), "NotImplementedError", text, (x, y))
    text = "operands could not be broadcast together with extents {0} and {1}"
    build.check(Binary("eq", x, y), "ValueError", text, (x, y))


def require_fit(build: Building, value: PyValue, dtype: DType) -> PyValue:
    """A Python integer that has to fit a type of integers: else NumPy raises."""
    if isinstance(value.expr, Const) or value.dtype != INT64:
        return value
    number = build.number("x", value)
    low, high = Const(dtype.least), Const(min(dtype.greatest, INT64.greatest))
    text = f"Python integer {{0}} out of bounds for {dtype}"
    inside = Binary("and", number.expr >= low, Binary("le", number.expr, high))
    build.check(inside, "OverflowError", text, (number.expr,))
    return number


def result_order(strides: Sequence[Sequence[int]], rank: int) -> tuple[int, ...]:
    """The axes of a result, slowest first, as NumPy lays it out; (): in order.

    NumPy sorts the axes by the strides of all operands; where these disagree, the order stays.
    """
    order: list[int] = []  # fastest first
    for axis in reversed(range(rank)):
        place = len(order)
        for k in reversed(range(len(order))):
            pairs = [(abs(s[axis]), abs(s[order[k]])) for s in strides]
            known = [(own, other) for own, other in pairs if own and other]
            if not known:
                continue
            if any(other <= own for own, other in known):
                break
            place = k
        order.insert(place, axis)
    found = tuple(reversed(order))
    return () if found == tuple(range(rank)) else found


def strides_in_box(build: Building, array: ArrayValue, rank: int) -> list[int]:
    """The rank of each axis's stride in a box, the fastest axis 1; 0 for a stride of zero."""
    order = build.order_of(array) or tuple(range(array.rank))
    own = [array.rank - order.index(axis) for axis in range(array.rank)]
    if array.view is not None:
        own = [x if axis.steps else 0 for x, axis in zip(own, array.view.axes, strict=True)]
    own = [0 if n == Const(1) else x for x, n in zip(own, array.shape, strict=True)]
    return [0] * (rank - array.rank) + own


class Elementwise:
    """Builds elementwise operations."""

    def __init__(self, build: Building) -> None:
        self._build = build

    def apply(self, rule: Callable[..., Value], *operands: AnyValue) -> Operand:
        """The value of a rule for numbers, applied to arrays and numbers."""
        numbers = [plain(x) for x in operands]
        arrays = [x for x in operands if isinstance(x, ArrayValue)]
        found = settled(rule(*numbers), "this value")
        if not arrays:
            return found
        shape = broadcast_shapes(self._build, [x.shape for x in arrays])
        strides = [strides_in_box(self._build, x, len(shape)) for x in arrays]
        found_order = result_order(strides, len(shape))
        return ArrayValue(found.expr, shape, None, found_order)

    def binary(self, op: str, x: AnyValue, y: AnyValue) -> Operand:
        """`x op y` for an operator of expressions."""
        self._check_python(op, x, y)
        if op not in COMPARISONS and op not in ("shl", "shr"):
            x, y = self._fitting(x, y), self._fitting(y, x)
        special = self._power(x, y) if op == "pow" else None
        if special is not None:
            return special
        if op in ("shl", "shr"):
            return self.apply(lambda a, b: _shift(op, a, b), x, y)
        return self.apply(lambda a, b: binary(op, a, b), x, y)

    def unary(self, op: str, x: AnyValue) -> Operand:
        return self.apply(lambda a: unary(op, a), x)

    def where(self, cond: AnyValue, x: AnyValue, y: AnyValue) -> Operand:
        strong = self.apply(lambda c, a, b: select(truth(c), a, b), cond, x, y)
        return PyValue(strong.expr) if isinstance(strong, PyValue) else strong

    def has(self, function: object) -> bool:
        """Whether a function is one of elements."""
        return function in _OWN or numpy_functions.is_known(function)

    def call(self, function: object, name: str, args: Sequence[AnyValue]) -> Operand | None:
        """A known function of elements; None: it is no such function."""
        own = _OWN.get(function)
        if own is not None:
            count, rule = own
            if len(args) != count:
                text = f"'{name}' takes {count} argument{'s' if count > 1 else ''}"
                raise Refusal("LW124", text, found=str(len(args)))
            return _strong(self.apply(rule, *args))
        if not numpy_functions.is_known(function):
            return None
        has_arrays = any(isinstance(x, ArrayValue) for x in args)
        if has_arrays and function in _OF_NUMBERS:
            raise Refusal("LW116", f"'{name}' takes numbers, not arrays", hint=f"np.{name}")
        return self.apply(lambda *given: numpy_functions.call(function, name, given), *args)

    def _check_python(self, op: str, x: AnyValue, y: AnyValue) -> None:
        """Python's numbers raise where they are divided by zero."""
        match x, y:
            case PyValue(weak=True), PyValue(weak=True, expr=divisor) if op in (
                "div",
                "floordiv",
                "mod",
            ) and not isinstance(divisor, Const):
                text = "division by zero"
                if op != "div" and not (plain(x).dtype.is_exact and plain(y).dtype.is_exact):
                    text = "float floor division by zero" if op == "floordiv" else "float modulo"
                is_some = Binary("ne", divisor, _zero(divisor.dtype))
                self._build.check(is_some, "ZeroDivisionError", text)

    def _fitting(self, x: AnyValue, other: AnyValue) -> AnyValue:
        """The operand; a Python integer has to fit the type of integers beside it."""
        if isinstance(x, PyValue) and x.weak and x.dtype == INT64:
            dtype = plain(other).dtype if isinstance(other, PyValue | ArrayValue) else INT64
            is_weak = isinstance(other, PyValue) and other.weak
            if dtype.is_integer and dtype != INT64 and not is_weak:
                return require_fit(self._build, x, dtype)
        return x

    def _power(self, x: AnyValue, y: AnyValue) -> Operand | None:
        """The powers that NumPy computes by other operations."""
        if not isinstance(x, ArrayValue) or not isinstance(y, PyValue):
            return None
        if x.dtype == BOOL and y.weak and y.expr == Const(2):
            return converted(x, DTYPES["int8"])  # NumPy squares, and has no square of booleans
        if not isinstance(y.expr, Const) or not (x.dtype.is_float or x.dtype.is_complex):
            return None
        dtype, _ = join(((x.dtype, False), y.type))
        if dtype != x.dtype:
            return None
        match y.expr.value:
            case -1:
                return self.binary("div", constant(1), x)
            case 0.5 if x.dtype.is_float:
                return self.call(np.sqrt, "np.sqrt", [x])
            case 1:
                return ArrayValue(x.expr, x.shape, None, self._build.order_of(x))
        return None


def _zero(dtype: DType) -> Const:
    if dtype == BOOL:
        return Const(False, dtype)
    return Const(0, dtype) if dtype.is_integer else Const(0.0, dtype)


def _strong(value: Operand) -> Operand:
    return PyValue(value.expr) if isinstance(value, PyValue) else value


def _shift(op: str, x: PyValue, y: PyValue) -> PyValue:
    """A shift as NumPy makes it: by the width of the type or more, nothing or the sign is left."""
    dtype, weak = join((x.type, y.type))
    if dtype == BOOL:
        dtype = INT64
    if not dtype.is_integer:
        raise Refusal("LW103", f"a shift is not defined for {x} and {y}")
    value, count = convert(x, dtype), convert(y, dtype)
    if isinstance(value, Const) and isinstance(count, Const) and weak and 0 <= count.value < 63:  # type: ignore[operator]
        number, places = int(value.value.real), int(count.value.real)
        return constant(number << places if op == "shl" else number >> places)
    if isinstance(count, Const) and 0 <= int(count.value.real) < dtype.bits:
        return PyValue(Binary(op, value, count), weak)
    is_far = Binary(
        "or",
        Binary("lt", count, Const(0, dtype)) if dtype.kind == "i" else Const(False, BOOL),
        Binary("ge", count, Const(dtype.bits, dtype)),
    )
    rest: Expr = Const(0, dtype)
    if op == "shr" and dtype.kind == "i":
        rest = Binary("shr", value, Const(dtype.bits - 1, dtype))
    return PyValue(Select(is_far, rest, Binary(op, value, count)), weak)


# -- functions that `numpy_functions` has no row for ---------------------------------------------


def _compared(op: str) -> Callable[..., Value]:
    return lambda x, y: _as_strong(binary(op, x, y))


def _as_strong(value: Value) -> Value:
    return PyValue(value.expr) if isinstance(value, PyValue) else value


def _logic(op: str) -> Callable[..., Value]:
    return lambda x, y: PyValue(Binary(op, truth(x), truth(y)))


def _is_nan(x: PyValue) -> PyValue:
    return PyValue(Binary("ne", x.expr, x.expr))


def _magnitude(x: PyValue) -> tuple[Expr, Expr]:
    """The absolute value of a real number, and infinity."""
    expr = x.expr if x.dtype.is_float else cast(x.expr, FLOAT64)
    if expr.dtype.is_complex:
        raise Refusal("LW103", "this function is not compiled for complex numbers yet")
    return Unary("abs", expr), Const(math.inf, expr.dtype)


def _beside_nan(op: str, x: PyValue, y: PyValue) -> Value:
    """The extreme of two numbers; of a number and NaN the number."""
    found = settled(binary(op, x, y))
    dtype = found.dtype
    if not dtype.is_float:
        return PyValue(found.expr)
    one, other = convert(x, dtype), convert(y, dtype)
    found_expr = Select(Binary("ne", other, other), one, found.expr)
    return PyValue(Select(Binary("ne", one, one), other, found_expr))


def _signbit(x: PyValue) -> PyValue:
    """Whether a number is negative, -0.0 too."""
    expr = x.expr if x.dtype.is_float else cast(x.expr, FLOAT64)
    one = Call("copysign", (Const(1.0, expr.dtype), expr))
    return PyValue(Binary("lt", one, Const(0.0, expr.dtype)))


def _invert(x: PyValue) -> Value:
    """Python's `~True` is -2, and a ufunc of a Python bool is that of NumPy's."""
    return PyValue(Unary("not", x.expr)) if x.dtype == BOOL else unary("invert", x)


def _reciprocal(x: PyValue) -> Value:
    if x.dtype.is_integer or x.dtype == BOOL:
        hint = "1 / x in floating point, 1 // x of integers"
        raise Refusal("LW103", f"'reciprocal' is not compiled for {x.dtype}", hint=hint)
    return binary("div", constant(1), x)


def _sign(x: PyValue) -> PyValue:
    if x.dtype == BOOL or x.dtype.is_complex:
        raise Refusal("LW103", f"'sign' is not compiled for {x}")
    zero = _zero(x.dtype)
    one = Const(1, x.dtype) if x.dtype.is_integer else Const(1.0, x.dtype)
    less = Unary("neg", one) if x.dtype.kind != "u" else zero
    if x.dtype.is_float:
        less = Const(-1.0, x.dtype)
    found = Select(Binary("lt", x.expr, zero), less, zero)
    found = Select(Binary("gt", x.expr, zero), one, found)
    return PyValue(
        Select(Binary("ne", x.expr, x.expr), x.expr, found) if x.dtype.is_float else found
    )


def _rows() -> dict[object, tuple[int, Callable[..., Value]]]:
    rows: dict[object, tuple[int, Callable[..., Value]]] = {
        np.logical_and: (2, _logic("and")),
        np.logical_or: (2, _logic("or")),
        np.logical_xor: (2, _logic("xor")),
        np.logical_not: (1, lambda x: PyValue(Unary("not", truth(x)))),
        np.negative: (1, lambda x: unary("neg", x)),
        np.positive: (1, lambda x: unary("pos", x)),
        np.invert: (1, _invert),
        np.reciprocal: (1, _reciprocal),
        np.isnan: (1, _is_nan),
        np.isinf: (1, lambda x: PyValue(Binary("eq", *_magnitude(x)))),
        np.isfinite: (1, lambda x: PyValue(Binary("lt", *_magnitude(x)))),
        np.sign: (1, _sign),
        np.fix: (1, lambda x: numpy_functions.call(np.trunc, "np.fix", [x])),
        np.fmax: (2, lambda x, y: _beside_nan("max", x, y)),
        np.fmin: (2, lambda x, y: _beside_nan("min", x, y)),
        np.signbit: (1, _signbit),
        np.left_shift: (2, lambda x, y: _shift("shl", x, y)),
        np.right_shift: (2, lambda x, y: _shift("shr", x, y)),
    }
    for ufunc, op in (
        (np.less, "lt"), (np.less_equal, "le"), (np.greater, "gt"), (np.greater_equal, "ge"),
        (np.equal, "eq"), (np.not_equal, "ne"), (np.bitwise_and, "and"),
        (np.bitwise_or, "or"), (np.bitwise_xor, "xor"),
    ):  # fmt: skip
        rows[ufunc] = (2, _compared(op))
    return rows


_OWN: IdentityMap[object, tuple[int, Callable[..., Value]]] = IdentityMap(_rows().items())
_NUMBER_FUNCTIONS = (min, max, bool, int, float, complex, builtins.pow)
_OF_NUMBERS = frozenset((*_NUMBER_FUNCTIONS, *(f for f in vars(math).values() if callable(f))))
