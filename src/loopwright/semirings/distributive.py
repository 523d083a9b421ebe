"""Where times distributes over plus, so that a reduction may be taken before all factors are there.

    x times (y plus z) = (x times y) plus (x times z)        and the same from the right

Contracting three and more operands pair by pair rests on this law. Whether it holds is a matter of
the operators, of the element type and, for min and max over sums and products, of the elements:
an order must not be turned round by a negative factor, broken by an integer that wraps, or
undefined because infinities met. Elements are known by their range; NaN stays NaN on either side
of the law and is left out of it. Floating results differ by rounding (plus_times) or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

import numpy as np

from loopwright.ir.dtypes import DType
from loopwright.semirings.identities import identity
from loopwright.semirings.named import Semiring

__all__ = ["Law", "Range", "holds_within", "law_of", "times_in_any_order"]


class Law(Enum):
    """For which elements times distributes over plus."""

    ALL = "all"  # of the type
    RANGE = "range"  # those for which `holds_within` says so
    UNKNOWN = "unknown"  # perhaps none


class Range(NamedTuple):
    """The least and greatest element of an operand; a low of -0.0 tells of negative zeros."""

    low: float
    high: float


_LATTICE = frozenset({"min", "max"})
_BITS = frozenset({"or", "and"})
_COMMUTING = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
# On booleans these are the same operator (see ir/evaluate).
_BOOLEAN = {"add": "or", "max": "or", "mul": "and", "min": "and"}


def law_of(ring: Semiring, dtype: DType) -> Law:
    """For which elements of `dtype` times distributes over plus."""
    plus, times = ring.plus, ring.times
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
    if plus in _LATTICE and times in ("add", "mul") and dtype.kind in "iuf":
        return Law.RANGE
    return Law.UNKNOWN


def times_in_any_order(ring: Semiring) -> bool:
    """Whether times is known to be associative and commutative, for floats up to rounding."""
    return ring.times in _COMMUTING


def holds_within(ring: Semiring, dtype: DType, ranges: Iterable[Range]) -> bool:
    """Whether the law, one of Law.RANGE, holds for operands whose elements lie in these ranges.

    Monotony is what counts: x times y grows with y. For integers that means that no product of any
    of the operands wraps, and that no factor is negative. Rounding keeps monotony, so floats need
    only that no infinity of one sign meets one of the other, or a zero.
    """
    found = tuple(ranges)
    if ring.times == "add":
        return _sums_hold(dtype, found)
    if any(math.copysign(1.0, r.low) < 0 for r in found):
        return False
    return _products_hold(dtype, found)


def _sums_hold(dtype: DType, ranges: tuple[Range, ...]) -> bool:
    least, greatest = _limits(dtype)
    # The lowest and highest sum of any of the operands: those on the other side of 0 stay away.
    low = sum(min(r.low, 0) for r in ranges)
    high = sum(max(r.high, 0) for r in ranges)
    if dtype.is_integer:
        return low >= least and high <= greatest
    return low >= least or high <= greatest


def _products_hold(dtype: DType, ranges: tuple[Range, ...]) -> bool:
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
