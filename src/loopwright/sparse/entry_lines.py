"""Entries of a tensor as lines of text, whole columns at once.

Numbers are written four digits at a time, from a table, into groups of four bytes; bytes that stay
0 are removed in the end. The shortest decimal number that reads as a float64 again is that of 15
digits if it does, else that of 16, else that of 17: decimal numbers of 15 digits are further apart
than float64 numbers, so no shorter one but itself without its zeros can stand for the same bits.
Each is read again (`number_text.nearest`); what is not sure to be right is left to repr.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass

from .convert_tensor import convert_tensor
from .formats import find
from .formats.coordinates import names
from .number_text import nearest, times_ten
from .tensor import SparseTensor

__all__ = ["check_finite", "entry_lines", "lines_of", "listed"]

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Groups = NDArray[np.uint32]  # of four bytes, the first one lowest
Reals = NDArray[np.float64]
Bools = NDArray[np.bool_]

_TENS = np.array([10**n for n in range(20)], np.uint64)
_FOUR = 10_000
_TIED = 1e-6  # of a unit: a rounding that is this close to a tie is not trusted
_FIXED = range(-4, 16)  # powers of ten of the first digit that repr writes without an exponent
_POWERS = range(-99, 100)  # that are written here
_LONGEST = 24  # bytes of a float64 in the words of repr
_MINUS = np.uint32(ord("-") << 8)


def lines_of(columns: Sequence[NDArray[Any]]) -> bytes:
    """A line for each row of the columns, which hold whole numbers or float64, with spaces."""
    groups: list[Groups] = []
    for n, column in enumerate(columns):
        made = _real(column) if column.dtype.kind == "f" else _whole(column)
        made[0] |= np.uint32(ord(" " if n else "\n"))
        groups += made
    text = np.stack(groups, axis=1).astype("<u4", copy=False).tobytes().translate(None, b"\0")
    return text[1:] + b"\n" if text else b""


@dataclass(frozen=True)
class _Tables:
    """Four digits of each number below 10,000, with all zeros behind; and of powers of ten."""

    leading: Groups  # without zeros in front, then with them
    last: Groups  # the same, but 0 has one digit
    trailing: Groups  # without zeros at the end, then with them
    ends: Groups  # one digit, none for 0
    dots: Groups  # a dot and 0 to 3 zeros; nothing
    powers: Groups  # e-99 to e+99


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    whole = [f"{n:04}" for n in range(_FOUR)]
    leading = [word.lstrip("0").rjust(4, "\0") for word in whole]
    trailing = [word.rstrip("0") for word in whole]
    dots = ["." + "0" * zeros for zeros in range(4)] + [""]
    powers = ["" if power in _FIXED else f"e{power:+03}" for power in _POWERS]
    return _Tables(
        _packed(leading + whole),
        _packed(["0".rjust(4, "\0"), *leading[1:], *whole]),
        _packed(trailing + whole),
        _packed(["", *map(str, range(1, 10))]),
        _packed(dots),
        _packed(powers),
    )


def _packed(words: list[str]) -> Groups:
    return np.array(words, "S4").view("<u4").astype(np.uint32)


def _whole(numbers: NDArray[Any]) -> list[Groups]:
    """The digits of whole numbers; the first byte is left free."""
    if numbers.dtype.kind == "u" or not len(numbers) or numbers.min() >= 0:
        return _digits(numbers.astype(np.uint64), 1)
    is_negative = numbers < 0
    groups = _digits(np.abs(numbers.astype(np.int64)).view(np.uint64), 2)
    groups[0] |= is_negative * _MINUS
    return groups


def _digits(numbers: Words, free: int) -> list[Groups]:
    """Groups without zeros in front, of which so many bytes are left free."""
    tables = _tables()
    largest = int(numbers.max(initial=0))
    rest: NDArray[Any] = numbers.astype(np.uint32) if largest < 1 << 32 else numbers
    groups: list[Groups] = []
    for _ in range(-(-(len(str(largest)) + free) // 4)):
        more = rest // _FOUR
        rest -= more * _FOUR
        rest += (more != 0) * rest.dtype.type(_FOUR)
        groups.append((tables.leading if groups else tables.last)[rest])
        rest = more
    return groups[::-1]


def _real(numbers: NDArray[Any]) -> list[Groups]:
    """The shortest decimal numbers that read as these again; the first byte is left free."""
    values = numbers.astype(np.float64, copy=False)
    found = _shortest(np.abs(values))
    is_long = ~((found.power >= _FIXED.start) & (found.power < _FIXED.stop))
    power = np.where(is_long, 0, found.power)
    behind = found.digits - 1 - power  # digits behind the dot
    unit = _TENS[np.clip(behind, 0, 19)]
    whole = found.mantissa // unit
    part = found.mantissa - whole * unit
    whole *= _TENS[np.maximum(-behind, 0)]
    tables = _tables()
    zeros = np.maximum(-power - 1, 0)
    dots = np.where(part != 0, zeros, 1)
    dots[is_long & (part == 0)] = 4
    groups = [*_digits(whole, 2), tables.dots[dots], *_fraction(part, behind - zeros)]
    if is_long.any():
        groups.append(tables.powers[found.power - _POWERS.start])
    groups[0] |= np.signbit(values) * _MINUS
    return _with_strings(groups, values, np.flatnonzero(~found.is_sure))


def _fraction(part: Words, count: Ints) -> list[Groups]:
    """So many digits, 17 at most, without zeros at the end."""
    tables = _tables()
    spare = np.maximum(count - 16, 0)  # a digit that four groups do not hold
    upper = part // _TENS[spare] if spare.any() else part.copy()
    last = part - upper * _TENS[spare]
    upper *= _TENS[np.clip(16 - count, 0, 19)]
    groups = [tables.ends[last]] if last.any() else []
    is_open = last != 0
    halves = upper // np.uint64(10**8)
    for half in (upper - halves * np.uint64(10**8), halves):
        rest = half.astype(np.uint32)
        for _ in range(2):
            more = rest // np.uint32(_FOUR)
            rest -= more * np.uint32(_FOUR)
            is_next = is_open | (rest != 0)
            if is_next.any():
                groups.append(tables.trailing[rest + is_open * np.uint32(_FOUR)])
            is_open, rest = is_next, more
    return groups[::-1]


def _with_strings(groups: list[Groups], values: Reals, rows: Ints) -> list[Groups]:
    """The groups with the words of repr in some rows."""
    if not len(rows):
        return groups
    count = max(len(groups), -(-(_LONGEST + 1) // 4))
    groups += [np.zeros(len(values), np.uint32) for _ in range(count - len(groups))]
    words = ["\0" + repr(value) for value in values[rows].tolist()]
    table = np.array(words, f"S{4 * count}").view("<u4").reshape(-1, count)
    for group, column in zip(groups, table.T, strict=True):
        group[rows] = column
    return groups


@dataclass(frozen=True)
class _Decimal:
    """Numbers mantissa 10^(power - digits + 1), the first digit standing for 10^power."""

    mantissa: Words
    digits: Ints
    power: Ints
    is_sure: Bools


def _shortest(values: Reals) -> _Decimal:
    """The shortest decimal numbers for numbers that are not negative."""
    is_inside = (values > 1e-99) & (values < 1e99)
    inside = np.where(is_inside, values, 1.0)
    power = np.floor(np.log10(inside)).astype(np.int64)
    # A logarithm next to a whole number may be rounded to the other side of it.
    bounds = times_ten(np.ones(201), np.arange(-100, 101))[0]
    power -= inside < bounds[power + 100]
    power += inside >= bounds[power + 101]
    mantissa = np.zeros(len(values), np.uint64)
    digits = np.full(len(values), 15)
    is_sure = values == 0
    power[is_sure] = 0
    left = np.flatnonzero(is_inside)
    for count in (15, 16, 17):
        x, k = inside[left], power[left]
        near, is_rounded = _rounded(x, count - 1 - k)
        again, is_read = nearest(near, k - count + 1)
        is_found = is_rounded & is_read & (again == x)
        here = left[is_found]
        mantissa[here], digits[here], is_sure[here] = near[is_found], count, True
        # Where it is not sure what is read, or which of two neighbours of 16 digits is nearer, a
        # longer number would do, but not be the shortest.
        left = left[~is_found & is_read & (is_rounded | (count == 15))]
        if count == 15:
            # Above a power of two numbers are twice as far apart as below it: the nearest decimal
            # number of 16 digits need not be the one that stands for it.
            left = left[np.frexp(inside[left])[0] != 0.5]
    return _Decimal(mantissa, digits, power, is_sure)


def _rounded(values: Reals, powers: Ints) -> tuple[Words, Bools]:
    """The whole number nearest to value 10^power, below 2^63, and where that is sure."""
    near, rest = times_ten(values, powers)
    whole = np.rint(near)
    rest += near - whole
    more = np.rint(rest)
    is_sure = np.abs(np.abs(rest - more) - 0.5) > _TIED
    return (whole.astype(np.int64) + more.astype(np.int64)).view(np.uint64), is_sure


_LINES = 1 << 16  # written at a time


def listed(tensor: SparseTensor) -> tuple[tuple[NDArray[Any], ...], NDArray[Any]]:
    """The coordinates and values of a tensor, in the order in which it holds them.

    Places that read as padding are left out, whether or not the map reaches them.
    """
    found = convert_tensor(tensor, find("coo", tensor.ndim))
    return tuple(found.arrays[name] for name in names(tensor.ndim)), found.values


def entry_lines(
    coordinates: Sequence[NDArray[Any]], values: NDArray[Any] | None, *, base: int = 1
) -> Iterator[tuple[int, bytes]]:
    """Yield (entries so far, their lines): coordinates counted from `base`, then the value.

    Floats have as many digits as it takes to read the same bits again; complex values are two
    numbers; without values there are only coordinates.
    """
    count = len(coordinates[0]) if coordinates else len(values if values is not None else ())
    for first in range(0, count, _LINES):
        part = slice(first, min(first + _LINES, count))
        columns = [column[part].astype(np.int64) + base for column in coordinates]
        columns += _value_columns(values[part]) if values is not None else []
        yield part.stop, lines_of(columns)


def _value_columns(values: NDArray[Any]) -> list[NDArray[Any]]:
    if values.dtype.kind == "c":
        return [values.real.astype(np.float64), values.imag.astype(np.float64)]
    if values.dtype.kind == "b":
        return [values.astype(np.int64)]
    return [values.astype(np.float64) if values.dtype.kind == "f" else values]


def check_finite(
    where: str, coordinates: Sequence[NDArray[Any]], values: NDArray[Any], finite: bool
) -> None:
    """Refuse values that a reader would refuse by default, unless `finite` is False."""
    if not finite or values.dtype.kind not in "fc":
        return
    wrong = ~np.isfinite(values)
    if wrong.any():
        n = int(np.argmax(wrong))
        at = ", ".join(str(column[n]) for column in coordinates)
        raise UsageError(
            f"{where}: the value at ({at}) is {values[n]}",
            hint="pass finite=False (--not-finite on the command line) to write and to read it",
        )
