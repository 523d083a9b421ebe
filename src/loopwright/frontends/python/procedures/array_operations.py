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
from loopwright.ir.expr import COMPARISONS, Binary, Call, Const, Expr, Select, Unary, Var, cast
from loopwright.ir.procedure import ReduceArray, ViewAxis
from loopwright.memo import IdentityMap

__all__ = [
    "Elementwise",
    "as_number",
    "broadcast",
    "converted",
    "fitted",
    "is_elementwise",
    "plain",
    "require_fit",
    "strides_in_box",
]

Operand: TypeAlias = PyValue | ArrayValue


def plain(value: AnyValue) -> PyValue:
    """The value as a number for the rules of types; arrays are strong."""
    found = _operand(value)
    return found if isinstance(found, PyValue) else PyValue(found.expr)


def _operand(value: AnyValue) -> Operand:
    if not isinstance(value, PyValue | ArrayValue):
        raise Refusal("LW115", "this is neither an array nor a number", found=str(value))
    return value


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


def broadcast(
    build: Building, operands: Sequence[Operand]
) -> tuple[tuple[Expr, ...], list[Operand]]:
    """The shape that operands have together by NumPy's rules, and the operands.

    An array of which only the running code knows whether an extent is 1 becomes a view of the whole
    shape, with a step that is zero if it is.
    """
    shapes = [x.shape if isinstance(x, ArrayValue) else () for x in operands]
    rank = max(map(len, shapes), default=0)
    found: list[Expr] = []
    late: set[int] = set()  # axes, counted from the end
    for k in range(rank, 0, -1):
        one: Expr = Const(1)
        for shape in shapes:
            if len(shape) < k or shape[-k] == Const(1):
                continue
            if one == Const(1):
                one = shape[-k]
            elif not build.equal(one, shape[-k]):
                one = _late_extent(build, one, shape[-k])
                late.add(k)
        found.append(one)
    if not late:
        return tuple(found), list(operands)
    return tuple(found), [
        _stretched(build, x, found, late) if isinstance(x, ArrayValue) else x for x in operands
    ]


def _late_extent(build: Building, x: Expr, y: Expr) -> Expr:
    """The extent of an axis of which the operands have x and y, of which one may be 1."""
    _require_related(x, y)
    total = build.define("extent", Select(x.equals(1), y, x))
    assert isinstance(total, Var)
    ranges = build.ranges
    ranges.set(total.name, Const(0), ranges.most(x).max(ranges.most(y)))
    text = "operands could not be broadcast together with extents {0} and {1}"
    build.check(Binary("or", y.equals(total), y.equals(1)), "ValueError", text, (x, y))
    return total


def _require_related(x: Expr, y: Expr) -> None:
    """Refuse extents that always differ by the same number."""
    gap = difference(x, y)
    if isinstance(gap, Const):
        text = "extents of operands differ: they do not broadcast together"
        raise Refusal("LW182", text, found=f"a difference of {gap.value}")


def _stretched(
    build: Building, array: ArrayValue, shape: Sequence[Expr], late: set[int]
) -> ArrayValue:
    """A view of an array in which axes that turn out to have one element are repeated."""
    own = {k for k in late if k <= array.rank and array.shape[-k] not in (Const(1), shape[-k])}
    if not own:
        return array
    held = build.store(array)
    assert held.view is not None
    axes = list(held.view.axes)
    for k in own:
        axis = axes[-k]
        is_one = axis.extent.equals(1)
        steps = tuple(
            (d, build.define("step", Select(is_one, Const(0), step))) for d, step in axis.steps
        )
        axes[-k] = ViewAxis(shape[-k], steps)
    return build.bind(held.view.base, held.view.start, tuple(axes), "stretched")


def fitted(build: Building, target: tuple[Expr, ...], value: ArrayValue) -> ArrayValue:
    """A value that is broadcast to a target of the same or a higher rank, or NumPy raises."""
    late: set[int] = set()
    for k in range(1, value.rank + 1):
        own, extent = value.shape[-k], target[-k]
        if own == Const(1) or (extent != Const(1) and build.equal(own, extent)):
            continue
        if extent != Const(1):
            _require_related(own, extent)
            late.add(k)
        text = "could not broadcast input array of extent {0} into extent {1}"
        cond = Binary("or", own.equals(extent), own.equals(1))
        build.check(cond, "ValueError", text, (own, extent))
    return _stretched(build, value, target, late) if late else value


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
        arrays = [x for x in operands if isinstance(x, ArrayValue)]
        shape, parts = broadcast(self._build, [_operand(x) for x in operands])
        found = settled(rule(*map(plain, parts)), "this value")
        if not shape:
            return found
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
        """`np.where(cond, x, y)`, which is an array of numbers too: of rank 0."""
        found = self.apply(lambda c, a, b: select(truth(c), a, b), cond, x, y)
        return ArrayValue(found.expr, ()) if isinstance(found, PyValue) else found

    def has(self, function: object) -> bool:
        """Whether a function is one of elements."""
        return is_elementwise(function)

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

    def _whole_power(self, x: AnyValue, y: AnyValue) -> Operand | None:
        """An integer to the power of one that is no constant; negative ones raise in NumPy."""
        base, exponent = plain(x), plain(y)
        if isinstance(exponent.expr, Const) or not (
            base.dtype.is_integer and exponent.dtype.is_integer
        ):
            return None
        dtype, weak = join((base.type, exponent.type))
        if not dtype.is_integer:
            return None
        build, text = self._build, "Integers to negative integer powers are not allowed."
        if isinstance(y, ArrayValue):
            cell = build.cell("wrong", BOOL)
            axes = tuple(range(y.rank))
            is_wrong = Binary("lt", y.expr, Const(0, y.dtype))
            build.emit(ReduceArray(cell, "or", is_wrong, y.shape, axes, (axes,)))
            build.check(Binary("eq", build.load(cell), Const(False, BOOL)), "ValueError", text)
        elif weak or exponent.dtype == INT64:
            number = build.index(exponent, "the exponent")
            if not build.holds(number):
                if weak:
                    return None  # a negative one gives a float
                build.check(number >= 0, "ValueError", text)
            y = PyValue(number, exponent.weak)
        elif exponent.dtype.kind == "i":
            build.check(Binary("ge", exponent.expr, Const(0, exponent.dtype)), "ValueError", text)
        return self.apply(
            lambda a, b: PyValue(Binary("pow", convert(a, dtype), convert(b, dtype)), weak), x, y
        )

    def _power(self, x: AnyValue, y: AnyValue) -> Operand | None:
        """The powers that NumPy computes by other operations, and those of integers."""
        whole = self._whole_power(x, y)
        if whole is not None:
            return whole
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
    if dtype == BOOL:  # NumPy has no shift of booleans; its first one is that of int8
        dtype = INT64 if weak else DTYPES["int8"]
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


def _of_ufunc(x: PyValue) -> PyValue:
    """The operand as a ufunc takes it: Python's bool is NumPy's."""
    return PyValue(x.expr) if x.dtype == BOOL else x


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
        np.negative: (1, lambda x: unary("neg", _of_ufunc(x))),
        np.positive: (1, lambda x: unary("pos", _of_ufunc(x))),
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


def is_elementwise(function: object) -> bool:
    """Whether a function is one of elements."""
    return function in _OWN or numpy_functions.is_known(function)


_NUMBER_FUNCTIONS = (min, max, bool, int, float, complex, builtins.pow)
_OF_NUMBERS = frozenset((*_NUMBER_FUNCTIONS, *(f for f in vars(math).values() if callable(f))))
