"""Semirings: pairs of operators that make a tensor product, with their laws and identities.

A product takes `plus` over `times`: out = x1 times y1  plus  x2 times y2  plus ... Every reduction
starts at `zero`, the identity of `plus` over the whole element type, which is also the value of an
empty one: inf for min, -inf for max, the greatest or least number of an integer type.

Integers wrap. The zero of min_plus over int32 is 2147483647, and adding 1 to it gives the least
integer: an integer "infinity" that takes part in a sum is a number like any other. Results are
bit-equal to `ir/interpret` all the same, under every schedule; `annihilates` says where zero may
stand for "no connection", and `absent` which value does.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from loopwright.diagnostics import DtypeError, UsageError
from loopwright.ir.check_expr import BINARY_KINDS
from loopwright.ir.dtypes import DTYPES, DType
from loopwright.ir.evaluate import Given, compile_expr, literal, quiet
from loopwright.ir.expr import BINARY_OPS, COMPARISONS, Binary, Expr, Var
from loopwright.ir.trace import as_const, maximum, minimum, trace
from loopwright.ir.visit import substitute

__all__ = ["SEMIRINGS", "Semiring", "make_semiring", "maximum", "minimum", "semiring"]

Number: TypeAlias = bool | int | float | complex
Operator: TypeAlias = str | Callable[[Any, Any], Any]  # a name of ir/expr, or a function to trace


@dataclass(frozen=True, slots=True)
class Semiring:
    """Two operators with zero the identity of `plus`, one that of `times`, and their laws."""

    name: str
    plus: Operator  # associative and commutative
    times: Operator  # associative, distributes over plus
    kinds: str  # DType.kind of the element types it is made for
    annihilating: str  # kinds for which zero times x is zero, for every finite x
    idempotent: bool  # x plus x is x
    commutative: bool = True  # x times y is y times x
    identities: tuple[Number, Number] | None = None  # zero and one; None: those of the operators
    nothing: Number | None = None  # `absent`, where it is not zero

    def plus_expr(self, dtype: DType, x: Expr, y: Expr) -> Expr:
        """`x plus y` as an expression of `dtype`."""
        return _combine(self.plus, dtype, x, y)

    def times_expr(self, dtype: DType, x: Expr, y: Expr) -> Expr:
        """`x times y` as an expression of `dtype`."""
        return _combine(self.times, dtype, x, y)

    def zero(self, dtype: DType) -> Number:
        """The identity of plus: where reductions start, and the value of an empty one."""
        self.check_dtype(dtype)
        return self._identity(0, self.plus, dtype)

    def one(self, dtype: DType) -> Number:
        """The identity of times."""
        self.check_dtype(dtype)
        return self._identity(1, self.times, dtype)

    def absent(self, dtype: DType) -> Number:
        """The value that stands for "no connection": it annihilates, on the elements meant.

        It is zero, but 0 for max_times, whose elements are meant to be non-negative.
        """
        zero = self.zero(dtype)
        return zero if self.nothing is None else as_const(self.nothing, dtype).value

    def annihilates(self, dtype: DType) -> bool:
        """Whether zero times x is zero for every finite x of the type."""
        return dtype.kind in self.annihilating

    def check_dtype(self, dtype: DType) -> None:
        """Raise DtypeError when the semiring is not made for `dtype`."""
        if dtype.kind not in self.kinds:
            accepted = ", ".join(d.name for d in DTYPES.values() if d.kind in self.kinds)
            raise DtypeError(
                f"semiring '{self.name}' does not take {dtype}", hint=f"accepted: {accepted}"
            )

    def _identity(self, side: int, operator: Operator, dtype: DType) -> Number:
        if self.identities is not None:
            return as_const(self.identities[side], dtype).value
        assert isinstance(operator, str)
        return identity(operator, dtype)


def identity(operator: str, dtype: DType) -> Number:
    """The value that leaves every other as it is under an operator of ir/expr."""
    match operator:
        case "add" | "or" | "xor":
            return _typed(0, dtype)
        case "mul":
            return _typed(1, dtype)
        case "and":
            return True if dtype.kind == "b" else int(np.array(-1).astype(dtype.name))
        case "min":
            return _greatest(dtype)
        case "max":
            return _least(dtype)
    raise UsageError(f"operator '{operator}' has no identity that we know")


def _greatest(dtype: DType) -> Number:
    if dtype.is_integer:
        return int(np.iinfo(dtype.name).max)
    return math.inf if dtype.is_float else True


def _least(dtype: DType) -> Number:
    if dtype.is_integer:
        return int(np.iinfo(dtype.name).min)
    return -math.inf if dtype.is_float else False


def _typed(number: int, dtype: DType) -> Number:
    value: Number = literal(number, dtype).item()
    return value


def _combine(operator: Operator, dtype: DType, x: Expr, y: Expr) -> Expr:
    if isinstance(operator, str):
        return Binary(operator, x, y)
    return substitute(trace(operator, dtype), {"x": x, "y": y})


SEMIRINGS: dict[str, Semiring] = {
    row.name: row
    for row in (
        Semiring("plus_times", "add", "mul", "biufc", "biufc", idempotent=False),
        Semiring("min_plus", "min", "add", "iuf", "f", idempotent=True),
        Semiring("max_plus", "max", "add", "iuf", "f", idempotent=True),
        # Multiplying by a negative number turns an order round: meant for elements >= 0 (max) and
        # > 0 (min). Reductions still give the plain maximum or minimum for all others.
        Semiring("max_times", "max", "mul", "iuf", "u", idempotent=True, nothing=0),
        Semiring("min_times", "min", "mul", "iuf", "", idempotent=True),
        Semiring("min_max", "min", "max", "biuf", "biuf", idempotent=True),
        Semiring("max_min", "max", "min", "biuf", "biuf", idempotent=True),
        Semiring("or_and", "or", "and", "biu", "biu", idempotent=True),
        Semiring("xor_and", "xor", "and", "biu", "biu", idempotent=False),
    )
}


def semiring(named: str | Semiring) -> Semiring:
    """The semiring of that name; a Semiring stays itself."""
    if isinstance(named, Semiring):
        return named
    if not isinstance(named, str):
        raise UsageError("a semiring is named by a string", found=repr(named))
    if named not in SEMIRINGS:
        near = difflib.get_close_matches(named, SEMIRINGS, n=1)
        guess = f"did you mean '{near[0]}'? " if near else ""
        raise UsageError(
            f"no semiring is named '{named}'", hint=f"{guess}accepted: {', '.join(SEMIRINGS)}"
        )
    return SEMIRINGS[named]


def make_semiring(
    name: str,
    plus: Operator,
    times: Operator,
    zero: Number,
    one: Number,
    *,
    samples: Sequence[Number] | None = None,
    check: bool = True,
) -> Semiring:
    """A semiring of one's own from two functions of two numbers (or names of operators).

    The functions may use + - * / & | ^ ~ abs, and `minimum` and `maximum` of this module; they are
    called once per element type, with stand-ins for numbers.

    The laws are tried on `samples` (small numbers, when not given; give the elements meant when
    the laws hold for some only) and a counter-example raises UsageError. The result is made for
    the kinds of types in which the laws were seen to hold. With check=False nothing is tried:
    where a law fails, results depend on the schedule.
    """
    if name in SEMIRINGS:
        raise UsageError(f"semiring '{name}' exists already", hint="choose another name")
    operators = _plain(plus), _plain(times)
    made = Semiring(
        name,
        *operators,
        kinds=_kinds(name, operators),
        annihilating="",
        idempotent=False,
        commutative=False,
        identities=(zero, one),
    )
    return _checked(made, samples) if check else made


def _checked(made: Semiring, samples: Sequence[Number] | None) -> Semiring:
    """The semiring, made for those kinds of types in which its laws were tried and hold."""
    tried: dict[DType, list[np.generic]] = {}
    reason = ""
    for name, usual in _USUAL_SAMPLES.items():
        try:
            values = _elements(made, DTYPES[name], usual if samples is None else samples)
        except DtypeError as error:
            reason = reason or str(error)
            continue
        broken = _broken_law(made, DTYPES[name], values)
        if broken is not None and not tried:
            raise broken
        if broken is None:
            tried[DTYPES[name]] = values
    if not tried:
        raise UsageError(f"semiring '{made.name}': its laws cannot be tried: {reason}")
    kinds = _in_order("".join(dtype.kind for dtype in tried))
    idempotent, commutative = (
        not any(_counter_example(law, made, dtype, tried[dtype]) for dtype in tried)
        for law in (_IDEMPOTENT, _COMMUTATIVE)
    )
    return replace(
        made, kinds=kinds, annihilating=kinds, idempotent=idempotent, commutative=commutative
    )


def _broken_law(made: Semiring, dtype: DType, values: list[np.generic]) -> UsageError | None:
    for law in _LAWS:
        if found := _counter_example(law, made, dtype, values):
            return UsageError(
                f"semiring '{made.name}': {law.broken}",
                found=found,
                hint="give samples= when the laws hold for some elements only; with check=False "
                "results depend on the schedule",
            )
    return None


def _plain(operator: Operator) -> Operator:
    """The name of a function that is a single operator of its arguments, else the function."""
    if isinstance(operator, str):
        if operator not in BINARY_OPS or operator in COMPARISONS:
            accepted = ", ".join(op for op in BINARY_OPS if op not in COMPARISONS)
            raise UsageError(f"no operator is named '{operator}'", hint=f"accepted: {accepted}")
        return operator
    for name in ("float64", "int64"):
        try:
            found = trace(operator, DTYPES[name])
        except DtypeError:
            continue
        x, y = _variables(DTYPES[name])
        if found == Binary(op := getattr(found, "op", ""), x, y):
            return op
        if op in _SYMMETRIC and found == Binary(op, y, x):
            return op
    return operator


_SYMMETRIC = ("add", "mul", "min", "max", "and", "or", "xor")


def _kinds(name: str, operators: tuple[Operator, Operator]) -> str:
    """The kinds of element types both operators take."""
    found, reason = "", ""
    for dtype in map(DTYPES.__getitem__, _USUAL_SAMPLES):
        try:
            for operator in operators:
                _check_operator(operator, dtype)
        except DtypeError as error:
            reason = reason or str(error)
        else:
            found += dtype.kind
    if not found:
        raise UsageError(f"semiring '{name}' takes no element type: {reason}")
    return _in_order(found)


def _in_order(kinds: str) -> str:
    return "".join(kind for kind in "biufc" if kind in kinds)


def _check_operator(operator: Operator, dtype: DType) -> None:
    if not isinstance(operator, str):
        trace(operator, dtype)
    elif dtype.kind not in BINARY_KINDS[operator]:
        raise DtypeError(f"'{operator}' does not take {dtype}")


def _elements(made: Semiring, dtype: DType, samples: Sequence[Number]) -> list[np.generic]:
    """Zero, one and the samples; raises DtypeError when one of them is no value of the type."""
    numbers = made.zero(dtype), made.one(dtype), *samples
    with quiet():
        return [literal(as_const(number, dtype).value, dtype) for number in numbers]


# In the order in which a semiring is likely to be meant; small, so that arithmetic is exact.
_USUAL_SAMPLES: dict[str, tuple[Number, ...]] = {
    "float64": (-2.0, -0.5, 0.0, 1.0, 3.0),
    "int64": (-2, 0, 1, 3, 6),
    "uint64": (0, 1, 3, 6),
    "bool": (False, True),
    "complex128": (-1.0, 0.0, 2.0, 1j, 1 - 2j),
}


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a law is written with; on numbers it is tried, on names it is told."""

    plus: Callable[[Any, Any], Any]
    times: Callable[[Any, Any], Any]
    zero: Any
    one: Any
    x: Any
    y: Any
    z: Any


@dataclass(frozen=True, slots=True)
class _Law:
    """Two sides that are equal for all x, y, z."""

    broken: str  # what to say when they are not
    left: Callable[[_Terms], Any]
    right: Callable[[_Terms], Any]


_LAWS: tuple[_Law, ...] = (
    _Law("zero is not the identity of plus", lambda s: s.plus(s.x, s.zero), lambda s: s.x),
    _Law("plus is not commutative", lambda s: s.plus(s.x, s.y), lambda s: s.plus(s.y, s.x)),
    _Law(
        "plus is not associative",
        lambda s: s.plus(s.plus(s.x, s.y), s.z),
        lambda s: s.plus(s.x, s.plus(s.y, s.z)),
    ),
    _Law("one is not the identity of times", lambda s: s.times(s.x, s.one), lambda s: s.x),
    _Law("one is not the identity of times", lambda s: s.times(s.one, s.x), lambda s: s.x),
    _Law(
        "times is not associative",
        lambda s: s.times(s.times(s.x, s.y), s.z),
        lambda s: s.times(s.x, s.times(s.y, s.z)),
    ),
    _Law(
        "times does not distribute over plus",
        lambda s: s.times(s.x, s.plus(s.y, s.z)),
        lambda s: s.plus(s.times(s.x, s.y), s.times(s.x, s.z)),
    ),
    _Law(
        "times does not distribute over plus",
        lambda s: s.times(s.plus(s.x, s.y), s.z),
        lambda s: s.plus(s.times(s.x, s.z), s.times(s.y, s.z)),
    ),
    _Law("zero does not annihilate", lambda s: s.times(s.x, s.zero), lambda s: s.zero),
    _Law("zero does not annihilate", lambda s: s.times(s.zero, s.x), lambda s: s.zero),
)
_IDEMPOTENT = _Law("", lambda s: s.plus(s.x, s.x), lambda s: s.x)
_COMMUTATIVE = _Law("", lambda s: s.times(s.x, s.y), lambda s: s.times(s.y, s.x))
_NAMES = _Terms(
    lambda x, y: f"plus({x}, {y})", lambda x, y: f"times({x}, {y})", "zero", "one", "x", "y", "z"
)


def _counter_example(law: _Law, made: Semiring, dtype: DType, values: list[np.generic]) -> str:
    """Elements for which the two sides of a law differ, as text; "" when there are none."""
    zero, one = values[:2]
    plus, times = _function(made.plus, dtype), _function(made.times, dtype)
    with quiet():
        for x, y, z in itertools.product(values, repeat=3):
            terms = _Terms(plus, times, zero, one, x, y, z)
            left, right = law.left(terms), law.right(terms)
            if left == right or (left != left and right != right):
                continue
            sides = f"{law.left(_NAMES)} = {left} but {law.right(_NAMES)} = {right}"
            return f"{sides} for x = {x}, y = {y}, z = {z} in {dtype}"
    return ""


def _function(operator: Operator, dtype: DType) -> Callable[[Any, Any], Any]:
    """The operator as a function of NumPy scalars."""
    code = compile_expr(_combine(operator, dtype, *_variables(dtype)))
    return lambda x, y: code(Given({"x": x, "y": y}, {}))


def _variables(dtype: DType) -> tuple[Expr, Expr]:
    return Var("x", dtype), Var("y", dtype)
