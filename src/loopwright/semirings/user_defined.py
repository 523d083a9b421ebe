"""User-defined semirings: from two functions of two numbers, their laws tested on samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from loopwright.diagnostics import DtypeError, UsageError
from loopwright.ir.check_expr import BINARY_KINDS
from loopwright.ir.dtypes import DTYPES, DType
from loopwright.ir.evaluate import Given, compile_expr, literal, quiet
from loopwright.ir.expr import BINARY_OPS, COMPARISONS, Binary, Expr, Var
from loopwright.ir.trace import as_const, trace
from loopwright.lazy_dataclass import dataclass
from loopwright.semirings.named import SEMIRINGS, Number, Operator, Semiring, combine
from loopwright.tracebacks import public_edge

__all__ = ["make_semiring"]


@public_edge
def make_semiring(
    name: str,
    plus: Operator,
    times: Operator,
    zero: Number,
    one: Number,
    *,
    samples: Sequence[Number] | None = None,
    check: bool = True,
    distributes: bool = False,
) -> Semiring:
    """A user-defined semiring from two functions of two numbers (or names of operators).

    The functions may use + - * / & | ^ ~ abs, and `minimum` and `maximum` of this module; they are
    called once per element type, with stand-ins for numbers.

    The laws are tried on `samples` (small numbers, when not given; give the elements meant when
    the laws hold for some only) and a counter-example raises UsageError. The result is made for
    the kinds of types in which the laws were seen to hold. With check=False nothing is tried:
    where plus is not associative and commutative, results depend on the schedule.

    Samples are no proof. Three and more operands are therefore multiplied out before anything is
    reduced, unless the operators are known to distribute; with `distributes` you vouch that times
    does so over plus, for all elements you will use, and such products take the quicker way.
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
        vouched=distributes,
    )
    return _checked(made, samples) if check else made


def _checked(made: Semiring, samples: Sequence[Number] | None) -> Semiring:
    """The semiring, restricted to the kinds of types in which all laws hold on the samples."""
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
    """The operands of a law: numbers to test it, texts to print it."""

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
    code = compile_expr(combine(operator, dtype, *_variables(dtype)))
    return lambda x, y: code(Given({"x": x, "y": y}, {}))


def _variables(dtype: DType) -> tuple[Expr, Expr]:
    return Var("x", dtype), Var("y", dtype)
