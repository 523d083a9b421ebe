"""Where times distributes over plus, so that a reduction may be taken before all factors are there.

    x times (y plus z) = (x times y) plus (x times z)        and the same from the right

Contracting three and more operands pair by pair rests on this law, and on times being associative.
Whether both hold is a matter of the operators, of the element type and, for min and max over sums
and products, of the elements: an order must not be turned round by a negative factor, or undefined
because infinities met. Elements are known by their range; NaN stays NaN on either side of the law
and is left out of it. Floating results differ by rounding (plus_times) or not at all.

Sums and products of integers saturate here (`Semiring.times_on`), which keeps every order: sums
distribute for all elements, products for those >= 0. What saturation costs is associativity, for
terms of both signs: (MAX - 1) + 1 is MAX, which absorbs, so adding -1 gives MAX and not MAX - 1.
It holds for unsigned types, where all elements have one sign, and where no sum leaves the type.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

import numpy as np

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import SATURATING
from loopwright.semirings.named import Semiring, identity

__all__ = ["Law", "ValueRange", "absorbing", "holds_within", "law_of", "times_in_any_order"]


class Law(Enum):
    """For which elements times distributes over plus, and is associative."""

    ALL = "all"  # of the type
    RANGE = "range"  # those for which `holds_within` says so
    UNKNOWN = "unknown"  # perhaps none


class ValueRange(NamedTuple):
    """The least and greatest element of an operand; a low of -0.0 means negative zeros occur."""

    low: float
    high: float


_LATTICE = frozenset({"min", "max"})
_BITS = frozenset({"or", "and"})
_COMMUTING = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
# On booleans these are the same operator (see ir/evaluate).
_BOOLEAN = {"add": "or", "max": "or", "mul": "and", "min": "and"}


def law_of(ring: Semiring, dtype: DType) -> Law:
    """For which elements of `dtype` times distributes over plus, and is associative."""
    plus, times = ring.plus, ring.times_on(dtype)
    if ring.vouched:
        return Law.ALL
    if not isinstance(plus, str) or not isinstance(times, str) or plus not in _COMMUTING:
        return Law.UNKNOWN
    # A zero that is not the identity of plus would take part in the products of partial results.
    if ring.zero(dtype) != identity(plus, dtype):
        return Law.UNKNOWN
    if dtype.kind == "b":
        plus, times = _BOOLEAN.get(plus, plus), _BOOLEAN.get(times, times)
    if (plus, times) in (("add", "mul"), ("xor", "and")):
        return Law.ALL
    if {plus, times} <= _LATTICE or {plus, times} <= _BITS:
        return Law.ALL
    if plus in _LATTICE and times in SATURATING:
        return Law.ALL if dtype.kind == "u" else Law.RANGE
    if plus in _LATTICE and times in ("add", "mul") and dtype.kind in "iuf":
        return Law.RANGE
    return Law.UNKNOWN


def times_in_any_order(ring: Semiring, dtype: DType, ranges: Iterable[ValueRange]) -> bool:
    """Whether times is known to be associative and commutative, for floats up to rounding.

    The ranges of the operands are asked for only where saturation makes them decide.
    """
    times = ring.times_on(dtype)
    if times not in SATURATING or dtype.kind == "u":
        return times in _COMMUTING or times in SATURATING
    if times == "mul_sat":
        return math.prod(max(abs(r.low), abs(r.high), 1) for r in ranges) <= _limits(dtype)[1]
    return _terms_regroup(str(times), dtype, tuple(ranges))


def absorbing(ring: Semiring, dtype: DType) -> int | None:
    """The element that every product with it is, in any order; None where there is none.

    It may be left out of the ranges that `holds_within` is asked about.
    """
    ends = {"add_top": "min", "add_bottom": "max"}
    operator = ends.get(str(ring.times_on(dtype)))
    return None if operator is None else int(identity(operator, dtype).real)


def holds_within(ring: Semiring, dtype: DType, ranges: Iterable[ValueRange]) -> bool:
    """Whether the law, one of Law.RANGE, holds for operands whose elements lie in these ranges.

    Monotony is what counts: x times y grows with y. For integers that wrap this means that no
    product of any of the operands wraps, and that no factor is negative. Those that saturate need
    factors that are not negative, or terms that regroup. Rounding keeps monotony, so floats need
    only that no infinity of one sign meets one of the other, or a zero.
    """
    found, times = tuple(ranges), ring.times_on(dtype)
    if times in ("add_top", "add_bottom"):
        return _terms_regroup(str(times), dtype, found)
    if times == "add":
        return _sums_hold(dtype, found)
    if any(math.copysign(1.0, r.low) < 0 for r in found):
        return False
    return times == "mul_sat" or _products_hold(dtype, found)


def _terms_regroup(times: str, dtype: DType, ranges: tuple[ValueRange, ...]) -> bool:
    """Whether saturating sums of terms, none of them absorbing, are the same in any order."""
    low = sum(min(r.low, 0) for r in ranges)
    high = sum(max(r.high, 0) for r in ranges)
    if low >= 0 or high <= 0:
        return True  # all of one sign: an end that is reached is not left again
    # A finite sum must not become the element that absorbs, either.
    least, greatest = _limits(dtype)
    return least + (times == "add_bottom") <= low and high <= greatest - (times == "add_top")


def _sums_hold(dtype: DType, ranges: tuple[ValueRange, ...]) -> bool:
    least, greatest = _limits(dtype)
    # The lowest and highest sum of any of the operands: those on the other side of 0 stay away.
    low = sum(min(r.low, 0) for r in ranges)
    high = sum(max(r.high, 0) for r in ranges)
    if dtype.is_integer:
        return low >= least and high <= greatest
    return low >= least or high <= greatest


def _products_hold(dtype: DType, ranges: tuple[ValueRange, ...]) -> bool:
    _, greatest = _limits(dtype)
    is_bounded = math.prod(max(r.high, 1) for r in ranges) <= greatest
    if dtype.is_integer:
        return is_bounded
    # Infinity times zero is no number: either is kept away, underflow counted.
    tiny = 2 * float(np.finfo(dtype.name).tiny)
    return is_bounded or math.prod(min(r.low, 1) for r in ranges) >= tiny


def _limits(dtype: DType) -> tuple[float, float]:
    """The numbers between which results are exact (integers) or finite, after rounding too."""
    if dtype.is_integer:
        limits = np.iinfo(dtype.name)
        return int(limits.min), int(limits.max)
    greatest = float(np.finfo(dtype.name).max) / 2
    return -greatest, greatest
