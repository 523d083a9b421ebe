"""The semirings known by name, and what is known of each: types, identities, laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from loopwright.diagnostics import DtypeError, UsageError
from loopwright.ir.dtypes import DTYPES, DType
from loopwright.ir.expr import Binary, Expr
from loopwright.lazy_dataclass import dataclass

__all__ = ["SEMIRINGS", "Number", "Operator", "Semiring", "combine", "identity", "semiring"]

Number: TypeAlias = bool | int | float | complex
Operator: TypeAlias = str | Callable[[Any, Any], Any]  # a name of ir/expr, or a function to trace


@dataclass(frozen=True, slots=True)
class Semiring:
    """Two operators with zero the identity of `plus`, one that of `times`, and their laws.

    Whether times distributes over plus depends on the element type and the elements: see
    `distributive`.
    """

    name: str
    plus: Operator  # associative and commutative
    times: Operator  # associative
    kinds: str  # DType.kind of the element types it is made for
    annihilating: str  # kinds for which zero times x is zero, for every finite x
    idempotent: bool  # x plus x is x
    commutative: bool = True  # x times y is y times x
    identities: tuple[Number, Number] | None = None  # zero and one; None: those of the operators
    nothing: Number | None = None  # `absent`, where it is not zero
    saturating: str = ""  # what `times` is on integers, where it is not to wrap
    refused: tuple[str, str] | None = None  # kinds of types that are refused, and why
    vouched: bool = False  # the user asserts that times distributes over plus

    def plus_expr(self, dtype: DType, x: Expr, y: Expr) -> Expr:
        """`x plus y` as an expression of `dtype`."""
        return combine(self.plus, dtype, x, y)

    def times_expr(self, dtype: DType, x: Expr, y: Expr) -> Expr:
        """`x times y` as an expression of `dtype`."""
        return combine(self.times_on(dtype), dtype, x, y)

    def times_on(self, dtype: DType) -> Operator:
        """The operator that times is on elements of `dtype`."""
        return self.saturating if self.saturating and dtype.is_integer else self.times

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
        return zero if self.nothing is None else _constant(self.nothing, dtype)

    def annihilates(self, dtype: DType) -> bool:
        """Whether zero times x is zero for every finite x of the type."""
        return dtype.kind in self.annihilating

    def check_dtype(self, dtype: DType) -> None:
        """Raise DtypeError when the semiring is not made for `dtype`."""
        if dtype.kind not in self.kinds:
            accepted = ", ".join(d.name for d in DTYPES.values() if d.kind in self.kinds)
            kinds, reason = self.refused or ("", "")
            because = f": {reason}" if dtype.kind in kinds else ""
            raise DtypeError(
                f"semiring '{self.name}' does not take {dtype}{because}",
                hint=f"accepted: {accepted}",
            )

    def _identity(self, side: int, operator: Operator, dtype: DType) -> Number:
        if self.identities is not None:
            return _constant(self.identities[side], dtype)
        assert isinstance(operator, str)
        return identity(operator, dtype)


def _constant(number: Number, dtype: DType) -> Number:
    """A number as a value of `dtype`; raises DtypeError when the type has none such."""
    from loopwright.ir.trace import as_const  # lazy: known semirings start without tracing

    return as_const(number, dtype).value


def combine(operator: Operator, dtype: DType, x: Expr, y: Expr) -> Expr:
    """`x operator y` as an expression."""
    if isinstance(operator, str):
        return Binary(operator, x, y)
    from loopwright.ir.trace import trace  # lazy: known semirings start without tracing
    from loopwright.ir.visit import substitute  # lazy: likewise

    return substitute(trace(operator, dtype), {"x": x, "y": y})


SEMIRINGS: dict[str, Semiring] = {
    row.name: row
    for row in (
        Semiring("plus_times", "add", "mul", "biufc", "biufc", idempotent=False),
        Semiring("min_plus", "min", "add", "iuf", "iuf", idempotent=True, saturating="add_top"),
        Semiring(
            "max_plus",
            "max",
            "add",
            "if",
            "if",
            idempotent=True,
            saturating="add_bottom",
            refused=("u", "0 is the identity of max and of +, so nothing means 'no connection'"),
        ),
        # Multiplying by a negative number turns an order round: meant for elements >= 0 (max) and
        # > 0 (min). Reductions still give the plain maximum or minimum for all others.
        Semiring(
            "max_times",
            "max",
            "mul",
            "iuf",
            "u",
            idempotent=True,
            nothing=0,
            saturating="mul_sat",
        ),
        Semiring("min_times", "min", "mul", "iuf", "", idempotent=True, saturating="mul_sat"),
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
    found = SEMIRINGS.get(named)
    if found is None:
        import difflib  # lazy: for the misspelt only

        near = difflib.get_close_matches(named, SEMIRINGS, n=1)
        guess = f"did you mean '{near[0]}'? " if near else ""
        raise UsageError(
            f"no semiring is named '{named}'", hint=f"{guess}accepted: {', '.join(SEMIRINGS)}"
        )
    return found


def identity(operator: str, dtype: DType) -> Number:
    """The identity of an operator of ir/expr: the value that leaves every other as it is."""
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
    value: Number = dtype.numpy.type(number).item()
    return value
