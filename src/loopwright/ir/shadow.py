"""Shadow execution: interpreters whose values know how they were computed.

A Shadow is a number with its value number (ir/terms) and its slack (below). Numbers determine
control flow that depends on data; value numbers tell afterwards whether two runs computed the same
for all inputs, not just for these; slacks tell which numbers every machine must reproduce bit by
bit. What does not depend on the contents of arguments (loop variables, sizes) stays a number.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, Self

import numpy as np

from loopwright.ir.dtypes import DType, dtype_of
from loopwright.ir.evaluate import Rules
from loopwright.ir.memory import Cells
from loopwright.ir.terms import Terms, ValueNumber

__all__ = [
    "Instance",
    "Shadow",
    "ShadowRules",
    "slack_of_binary",
    "slack_of_call",
    "slack_of_cast",
    "slack_of_unary",
]

Instance = tuple[str, tuple[int, ...]]  # statement and point
# In place of a value number, which is never negative.
_UNTOUCHED = -1
_PLAIN = -2  # a number that does not depend on the contents of arguments: its value is known


class Shadow:
    """A number, its value number, and how far rounding may have moved it."""

    __slots__ = ("number", "slack", "value_number")

    def __init__(self, number: Any, value_number: ValueNumber, slack: float = 0.0) -> None:
        self.number = number
        self.value_number = value_number
        self.slack = slack

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.number.dtype
        return found

    def __bool__(self) -> bool:
        return bool(self.number)

    def __int__(self) -> int:
        return int(self.number)


class _Rounded(Shadow):
    """A number made of constants alone, with rounding; its value number is a constant's."""

    __slots__ = ()


class ShadowRules(Rules):
    """Rules for shadows; memory made by them keeps value numbers beside numbers.

    `strides` gives, for each argument, the distance in elements between neighbours of its
    dimensions: the place of an element is the same in a program and in a nest.
    """

    def __init__(self, terms: Terms, strides: Mapping[str, tuple[int, ...]]) -> None:
        self.terms = terms
        self.strides = strides
        self.arguments: dict[str, _NumberedCells] = {}
        self.now: Instance | None = None  # the instance that runs, where it is known
        self.first: dict[ValueNumber, Instance] = {}  # which instance first stored a value

    def begin(self, statement: str, point: tuple[int, ...]) -> None:
        self.now = statement, point

    def unary(self, op: str) -> Callable[[Any], Any]:
        plain, terms = super().unary(op), self.terms

        def apply(x: Any) -> Any:
            if not isinstance(x, Shadow):
                return plain(x)
            number = plain(x.number)
            slack = slack_of_unary(op, number, x.slack)
            if isinstance(x, _Rounded):
                return self.of_constants(number, slack)
            return Shadow(number, terms.unary(op, _dtype(x), x.value_number), slack)

        return apply

    def binary(self, op: str) -> Callable[[Any, Any], Any]:
        plain, terms = super().binary(op), self.terms

        def apply(x: Any, y: Any) -> Any:
            if not isinstance(x, Shadow) and not isinstance(y, Shadow):
                number = plain(x, y)
                if not isinstance(number, np.inexact):
                    return number
                return self.of_constants(number, slack_of_binary(op, x, y, number, 0.0, 0.0))
            left, right = self.lift(x), self.lift(y)
            number = plain(left.number, right.number)
            slacks = left.slack, right.slack
            slack = slack_of_binary(op, left.number, right.number, number, *slacks)
            if not _is_of_data(x) and not _is_of_data(y):
                return self.of_constants(number, slack)
            return Shadow(
                number, terms.binary(op, _dtype(left), left.value_number, right.value_number), slack
            )

        return apply

    def cast(self, dtype: DType) -> Callable[[Any], Any]:
        plain, terms = super().cast(dtype), self.terms

        def apply(x: Any) -> Any:
            if not isinstance(x, Shadow):
                return plain(x)
            number = plain(x.number)
            slack = slack_of_cast(x.number, number, dtype, x.slack)
            if isinstance(x, _Rounded):
                return self.of_constants(number, slack)
            return Shadow(number, terms.cast(_dtype(x), dtype, x.value_number), slack)

        return apply

    def call(self, function: str) -> Callable[..., Any]:
        plain, terms = super().call(function), self.terms

        def apply(*args: Any) -> Any:
            numbers = tuple(x.number if isinstance(x, Shadow) else x for x in args)
            result = plain(*numbers)
            slacks = [x.slack if isinstance(x, Shadow) else 0.0 for x in args]
            if not isinstance(result, np.inexact) and not any(isinstance(x, Shadow) for x in args):
                return result
            slack = slack_of_call(function, numbers, result, slacks)
            if not any(map(_is_of_data, args)):
                return self.of_constants(result, slack)
            lifted = [self.lift(x) for x in args]
            value_number = terms.call(
                function, _dtype(lifted[-1]), *(x.value_number for x in lifted)
            )
            return Shadow(result, value_number, slack)

        return apply

    def select(self, cond: Any, chosen: Any, other: Any) -> Any:
        if not isinstance(cond, Shadow):
            return chosen
        first = self.lift(chosen)
        second = self.terms.undefined() if other is None else self.lift(other).value_number
        x, y = (first.value_number, second) if cond else (second, first.value_number)
        slack = math.inf if cond.slack else first.slack
        return Shadow(
            first.number, self.terms.select(_dtype(first), cond.value_number, x, y), slack
        )

    def cells(self, name: str, data: np.ndarray[Any, np.dtype[Any]], **facts: Any) -> Cells:
        made = _NumberedCells(self, name, data, **facts)
        if name in self.strides and name not in self.arguments:
            self.arguments[name] = made
        return made

    def of_constants(self, number: Any, slack: float) -> Any:
        """A number made of constants alone."""
        return _Rounded(number, self.terms.constant(number), slack) if slack else number

    def lift(self, value: Any) -> Shadow:
        """A value with its value number; a plain number is a constant."""
        return value if isinstance(value, Shadow) else Shadow(value, self.terms.constant(value))

    def contents(self, array: str) -> dict[int, ValueNumber]:
        """What the touched elements of an argument hold, by place."""
        return self.arguments[array].contents()

    def slack(self, array: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """How far rounding may have moved each element of an argument."""
        return self.arguments[array].slacks

    def touched(self, array: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which elements of an argument were stored to."""
        return np.asarray(self.arguments[array].value_numbers != _UNTOUCHED)

    def writer(self, array: str, place: int) -> Instance | None:
        """The instance that last stored to an element of an argument."""
        return self.arguments[array].writers.get(place)


class _NumberedCells(Cells):
    """Memory that keeps the value number of every element, and the instance that stored it."""

    __slots__ = ("rules", "slacks", "value_numbers", "writers")

    def __init__(
        self, rules: ShadowRules, name: str, data: np.ndarray[Any, np.dtype[Any]], **facts: Any
    ) -> None:
        super().__init__(name, data, **facts)
        self.rules = rules
        self.value_numbers = np.full(data.shape, _UNTOUCHED, np.int64)
        self.slacks = np.zeros(data.shape)
        self.writers: dict[int, Instance] = {}

    def read(self, index: tuple[int, ...]) -> Any:
        place = self.place(index)
        if self.defined is not None and not self.defined[place]:
            super().read(index)  # raises
        number = self.data[place]
        if self.value_numbers[place] == _PLAIN:
            return self.rules.of_constants(number, float(self.slacks[place]))
        return Shadow(number, self._value_number(place), float(self.slacks[place]))

    def write(self, index: tuple[int, ...], value: Any) -> None:
        shadow = self.rules.lift(value)
        super().write(index, shadow.number)
        place = self.place(index)
        self.value_numbers[place] = shadow.value_number if _is_of_data(value) else _PLAIN
        self.slacks[place] = shadow.slack
        if self.rules.now is not None:
            self.writers[self._distance(place)] = self.rules.now
            self.rules.first.setdefault(shadow.value_number, self.rules.now)

    def snapshot(self) -> Self:
        kept = super().snapshot()
        kept.value_numbers = self.value_numbers.copy()
        kept.slacks = self.slacks.copy()
        return kept

    def copy_from(self, index: tuple[int, ...], source: Cells, start: tuple[int, ...]) -> None:
        super().copy_from(index, source, start)
        assert isinstance(source, _NumberedCells), "all memory of a run is made by its rules"
        place, origin = self.place(index), source.place(start)
        is_number = source.value_numbers[origin] == _PLAIN
        self.value_numbers[place] = _PLAIN if is_number else source._value_number(origin)
        self.slacks[place] = source.slacks[origin]

    def contents(self) -> dict[int, ValueNumber]:
        touched = map(tuple, np.argwhere(self.value_numbers != _UNTOUCHED))
        return {self._distance(place): self._value_number(place) for place in touched}

    def _value_number(self, place: tuple[int, ...]) -> ValueNumber:
        found = int(self.value_numbers[place])
        if found >= 0:
            return found
        if found == _PLAIN:
            return self.rules.terms.constant(self.data[place])
        # Only arguments have contents on entry; other memory may carry padding along.
        if self.rules.arguments.get(self.name) is not self:
            return self.rules.terms.undefined()
        return self.rules.terms.initial(self.name, self._distance(place))

    def _distance(self, place: tuple[int, ...]) -> int:
        """How many elements lie between an element of an argument and its first one."""
        if self.strides is not None:
            return int(place[0]) - self.base
        strides = self.rules.strides.get(self.name, ())
        return sum(int(at) * stride for at, stride in zip(place, strides, strict=False))


def _dtype(x: Shadow) -> DType:
    return dtype_of(x.dtype)


def _is_of_data(value: Any) -> bool:
    """Whether a value depends on what arrays held before."""
    return isinstance(value, Shadow) and not isinstance(value, _Rounded)


# -- how far a computed number may lie from what exact arithmetic gives: running error bounds -----
# A slack of 0 says that no operation on the way to a number rounded: machines that fuse, split or
# reorder the same operations must give the same bits. Otherwise results may differ by a few slacks;
# an infinite one says that nothing is known, as after a comparison that rounding may have decided.
# The bounds are those of first-order running error analysis, each rounding counted twice over.


_FRACTIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
}


def slack_of_binary(op: str, x: Any, y: Any, result: Any, sx: float, sy: float) -> float:
    """The slack of `result = x op y` for operands of slacks `sx` and `sy`."""
    if x.dtype.kind not in "fc":
        return 0.0 if sx == sy == 0.0 else math.inf
    if op in ("min", "max") or math.inf in (sx, sy):
        return max(sx, sy)
    if result.dtype.kind == "b":
        is_clear = sx == sy == 0.0 or abs(complex(x) - complex(y)) > 4 * (sx + sy)
        return 0.0 if is_clear else math.inf
    if not _finite(x, y, result):
        return 0.0 if sx == sy == 0.0 else math.inf
    if op in ("add", "sub"):
        carried = sx + sy
    elif op == "mul":
        carried = sx * abs(y) + sy * abs(x) + sx * sy
    elif op == "div":
        room = abs(y) - 4 * sy
        carried = math.inf if room <= 0 else (sx + abs(result) * sy) / room
    else:
        return _rounding(result) if sx == sy == 0.0 else math.inf
    return float(carried) + (0.0 if _is_exact(op, x, y, result) else _rounding(result))


def slack_of_unary(op: str, result: Any, sx: float) -> float:
    """The slack of `op x`; complex magnitudes round."""
    return sx + (_rounding(result) if op == "abs" and result.dtype.kind == "c" else 0.0)


_EXACT_FUNCTIONS = frozenset(
    "floor ceil trunc round rint fmod remainder copysign conj real imag".split()  # noqa: SIM905
)


def slack_of_call(function: str, args: tuple[Any, ...], result: Any, slacks: list[float]) -> float:
    """The slack of a function of arguments; what libraries compute differs by some units."""
    if function == "fma":
        x, y, z = args
        product = x * y
        inner = slack_of_binary("mul", x, y, product, slacks[0], slacks[1])
        return slack_of_binary("add", product, z, result, inner, slacks[2])
    if any(slacks):
        if function in ("conj", "real", "imag"):
            return slacks[0]
        if function == "sqrt" and result.dtype.kind == "f" and result > 0:
            return float(slacks[0] / result) + _rounding(result)
        return math.inf
    if function in _EXACT_FUNCTIONS:
        return 0.0
    if function == "sqrt" and result.dtype.kind == "f" and _finite(result):
        root = Fraction(float(result))
        return 0.0 if root * root == Fraction(float(args[0])) else _rounding(result)
    return 8 * _rounding(result) if _finite(result) else 0.0


def slack_of_cast(x: Any, result: Any, target: DType, sx: float) -> float:
    """The slack of a conversion: to an integer all is known or nothing."""
    if target.kind not in "fc":
        return 0.0 if sx == 0.0 else math.inf
    if not _finite(result) or complex(result) == complex(x):
        return sx
    return sx + _rounding(result)


def _rounding(result: Any) -> float:
    """Two units in the last place of a number, and what underflow may lose."""
    unit, least = _units(result.dtype)
    return unit * float(abs(result)) + least


@cache
def _units(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Twice the distance of 1 to the next number of a type, and twice its least positive one."""
    kind = np.finfo(dtype)
    return float(2 * kind.eps), 2 * float(kind.smallest_subnormal)


def _finite(*numbers: Any) -> bool:
    return all(map(cmath.isfinite, numbers))


def _is_exact(op: str, x: Any, y: Any, result: Any) -> bool:
    """Whether a result is what exact arithmetic gives."""
    if result.dtype.kind == "c":
        # Parts of small integers stay integers; everything else counts as rounded.
        parts = (part for z in (x, y, result) for part in (z.real, z.imag))
        return op != "div" and all(float(p).is_integer() and abs(p) < 2**20 for p in parts)
    if op == "div" and y == 0:
        return False
    if op != "div" and all(float(z).is_integer() for z in (x, y)):
        # Python's integers have no end; fractions are slower.
        a, b = int(x), int(y)
        exact = a + b if op == "add" else a - b if op == "sub" else a * b
        return int(result) == exact
    value = _FRACTIONS[op](Fraction(float(x)), Fraction(float(y)))
    return value == Fraction(float(result))
