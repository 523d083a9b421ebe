"""Lines of numbers to columns of NumPy arrays, a block at a time; faults name line and column.

Eight decimal digits are parsed as one word of 64 bits; a number of up to 24 digits is the sum of at
most three such words. The nearest float64 to m 10^e is found from a product of twice the precision,
after Dekker (Numer. Math. 18, 1971): with 10^e = p + q, |q| <= ulp(p)/2, and m = a + b likewise,
m 10^e = a p + a q + b p up to 2^-103 of it. Where that error could change the rounding, the result
is marked as unsure and parsed by Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import Diagnostic, SourceError, Span
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "MARGIN",
    "NumberBlock",
    "NumberKind",
    "nearest",
    "parse_block",
    "real_numbers",
    "times_ten",
    "whole_numbers",
    "words_of",
]

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Reals = NDArray[np.float64]

MARGIN = 32  # bytes that must lie before and behind the text: words reach beyond numbers


def _every(byte: int) -> np.uint64:
    return np.uint64(byte * 0x0101010101010101)


_ONES, _SIXES, _HIGH, _TOP = _every(0x01), _every(0x06), _every(0xF0), _every(0x80)
_DIGIT, _DOT, _LETTER, _EXPONENT = _every(ord("0")), _every(ord(".")), _every(0x21), _every(0x65)
_PAIRS = np.uint64(0x000000FF000000FF)
_UPPER = np.uint64(100 + (1_000_000 << 32))  # weights of the first and third pair of digits
_LOWER = np.uint64(1 + (10_000 << 32))  # of the second and fourth
_ONE, _BYTE, _TWO_BYTES, _HALF = map(np.uint64, (1, 8, 16, 32))
_LARGEST = 1843  # 10^16 times this, and 16 digits more, still fit a word
_MOST = 1.8e19
_REACH = 250  # powers of ten up to here keep all parts of a product away from the ends of float64
_TENS = np.array([10**n for n in range(20)], np.uint64)
_TENS_ROUNDED = np.array([float(10**n) for n in range(25)])
_LOW_BITS = np.uint64((1 << 11) - 1)  # beside the 53 bits of a float64
_SPLIT = float((1 << 27) + 1)
_CAUTION = 1 + 2.0**-40


def words_of(text: Bytes) -> Words:
    """The eight bytes from each place of a text on, the first one lowest."""
    return np.ndarray((len(text) - 7,), "<u8", text.data, strides=(1,))


def whole_numbers(words: Words, ends: Ints, lengths: Ints) -> tuple[Words, Words]:
    """The numbers of so many digits before `ends`, and words that are 0 where they are right."""
    most = int(lengths.max(initial=0))
    values, wrong = _eight(words[ends - 8], np.clip(lengths, 0, 8))
    for skipped in range(8, min(most, 24), 8):
        more, faults = _eight(words[ends - 8 - skipped], np.clip(lengths - skipped, 0, 8))
        wrong |= faults
        if skipped == 16:
            wrong |= more > _LARGEST
        more *= _TENS[skipped]
        values += more
    if most > 24:
        wrong |= lengths > 24
    return values, wrong


def _eight(words: Words, lengths: Ints) -> tuple[Words, Words]:
    """The same of the last bytes of each word, 0 to 8 of them; the words are used up."""
    unused = (64 - 8 * lengths).view(np.uint64)
    words ^= _DIGIT
    words >>= unused
    words <<= unused
    wrong = words + _SIXES
    wrong |= words
    wrong &= _HIGH
    pairs = words * np.uint64(10)
    words >>= _BYTE
    pairs += words
    first = pairs & _PAIRS
    first *= _UPPER
    pairs >>= _TWO_BYTES
    pairs &= _PAIRS
    pairs *= _LOWER
    pairs += first
    pairs >>= _HALF
    return pairs, wrong


def real_numbers(
    text: Bytes, words: Words, starts: Ints, ends: Ints, has_letters: bool
) -> tuple[Reals, Bools]:
    """The numbers between `starts` and `ends`, and which of them are not sure to be right."""
    first = text[starts]
    is_negative = first == ord("-")
    begins = starts + (is_negative | (first == ord("+")))
    stops, powers, faults = ends, None, None
    if has_letters:
        stops, powers, faults = _exponents(text, words, begins, ends)
    head = words[begins]
    lengths = stops - begins
    dot = _place(head ^ _DOT)
    before = np.minimum(dot, lengths)
    behind = np.maximum(lengths - before - 1, 0)
    head <<= (64 - 8 * before).view(np.uint64)
    values, wrong = _eight(head, before)
    part, more = whole_numbers(words, stops, behind)
    wrong |= more
    if faults is not None:
        wrong |= faults
    is_unsure = wrong != 0
    is_unsure |= before + behind <= 0
    is_unsure |= (dot == 8) & (lengths > 8)
    behind = np.minimum(behind, 24)
    is_unsure |= values * _TENS_ROUNDED[behind] + part >= _MOST
    values *= _TENS[np.minimum(behind, 19)]
    values += part
    found, is_sure = nearest(values, -behind if powers is None else powers - behind)
    found *= 1.0 - 2.0 * is_negative  # a negation under a mask takes ten times as long
    return found, is_unsure | ~is_sure


def _place(words: Words) -> Ints:
    """Which byte of a word is the first that is 0; 8 where none is."""
    found = words - _ONES
    found &= ~words
    found &= _TOP
    found = (found - _ONE) & ~found
    bits: Ints = np.bitwise_count(found).astype(np.int64)
    return bits >> 3


def _exponents(text: Bytes, words: Words, begins: Ints, ends: Ints) -> tuple[Ints, Ints, Words]:
    """Where mantissas end, the exponents behind them, and words that are 0 where these are right.

    The letters e and d, small or large, differ in two bits, which are set to compare them.
    """
    tail = words[ends - 8]
    outside = np.clip(64 - 8 * (ends - begins), 0, 64).view(np.uint64)
    letters = (tail | _LETTER) ^ _EXPONENT
    letters |= (_ONE << outside) - _ONE
    at = _place(letters)
    stops = ends - 8 + at
    sign = text[stops + 1]
    is_negative = sign == ord("-")
    digits = 7 - at - (is_negative | (sign == ord("+")))
    has_one = at < 8
    size, wrong = _eight(tail, np.where(has_one, np.maximum(digits, 0), 0))
    wrong |= has_one & (digits <= 0)
    powers = size.astype(np.int64)
    powers *= 1 - 2 * is_negative
    return stops, powers, wrong


def nearest(mantissas: Words, powers: Ints) -> tuple[Reals, Bools]:
    """The float64 nearest to mantissa times ten to the power, and where that is sure."""
    at = np.clip(powers, -_REACH, _REACH)
    is_sure = at == powers
    # Both parts are exact, and so is what their sum lacks; a sum of 2^64 fits no integer.
    upper = (mantissas & ~_LOW_BITS).astype(np.float64)
    lower = (mantissas & _LOW_BITS).astype(np.float64)
    a = upper + lower
    b = lower - (a - upper)
    values, error = times_ten(a, at, b)
    error *= _CAUTION
    is_sure &= values + error == values
    return values, is_sure


def times_ten(a: Reals, powers: Ints, b: Reals | None = None) -> tuple[Reals, Reals]:
    """(a + b) 10^power as the sum of a float64 that is nearest and a much smaller one.

    The size of b is at most half a unit in the last place of a, powers reach from -250 to 250.
    """
    whole, upper, rest = _powers_of_ten()
    at = powers + _REACH
    p, p_upper, q = whole[at], upper[at], rest[at]
    p_lower = p - p_upper
    product = a * p
    a_upper = a * _SPLIT
    a_upper -= a_upper - a
    a_lower = a - a_upper
    error = a_upper * p_upper
    error -= product
    error += a_upper * p_lower
    error += a_lower * p_upper
    error += a_lower * p_lower
    q *= a
    if b is not None:
        q += b * p
    error += q
    values = product + error
    product -= values
    error += product
    return values, error


@lru_cache(maxsize=1)
def _powers_of_ten() -> tuple[Reals, Reals, Reals]:
    """10^-250 to 10^250: the nearest float64, its upper 26 bits, and what it lacks."""
    whole, rest = [], []
    for power in range(-_REACH, _REACH + 1):
        over, under = 10 ** max(power, 0), 10 ** max(-power, 0)
        near = over / under
        top, bottom = near.as_integer_ratio()
        whole.append(near)
        rest.append((over * bottom - top * under) / (under * bottom))
    p = np.array(whole)
    upper = p * _SPLIT
    upper -= upper - p
    return p, upper, np.array(rest)


_MOST_DIGITS = 18  # any number of 18 digits fits 64 bits
_WIDEST = 40  # bytes of a number that NumPy parses as a string; longer ones one by one
_BLANK = np.zeros(256, np.bool_)
_BLANK[list(b" \t\r\n\v\f")] = True
_REAL = np.zeros(256, np.bool_)
_REAL[list(b"0123456789+-.eEdD\0")] = True
_NOT_FINITE = frozenset((b"nan", b"inf", b"infinity"))


class NumberKind(Enum):
    """What the numbers of a column are."""

    INTEGER = "integer"
    REAL = "real number"


@dataclass(frozen=True, slots=True)
class NumberBlock:
    """The numbers of some lines, and where each of them stood."""

    file: str
    first_line: int  # of the block within the file, from 1
    lines: int  # how many line ends the block has
    columns: tuple[NDArray[Any], ...]  # int64 or float64, one per kind
    text: bytes
    starts: Ints  # (numbers, columns) of offsets into `text`

    @property
    def count(self) -> int:
        return len(self.starts)

    def fault(self, row: int, column: int, message: str, hint: str = "") -> NoReturn:
        """Raise a SourceError that points at one number."""
        _fault(self.file, self.first_line, self.text, int(self.starts[row, column]), message, hint)


def parse_block(
    text: bytes,
    kinds: Sequence[NumberKind],
    *,
    file: str,
    first_line: int,
    comment: bytes,
    finite: bool = True,
) -> NumberBlock:
    """Parse a block of whole lines, each blank, a comment, or one number for each of `kinds`."""
    text = _without_comments(text, comment)
    raw = np.frombuffer(text, np.uint8)
    starts, ends, newlines = _numbers(raw)
    width = len(kinds)
    if not _is_regular(starts, newlines, width):
        line_of = np.searchsorted(newlines, starts)
        if not _is_table(line_of, width):
            _refuse_ragged(file, first_line, text, starts, line_of, width)
    table = starts.reshape(-1, width)
    stops = ends.reshape(-1, width)
    room = np.zeros(MARGIN, np.uint8)
    roomy = np.concatenate((room, raw, room))
    place = _Place(file, first_line, text, finite, roomy, words_of(roomy))
    columns = tuple(
        _column(np.ascontiguousarray(table[:, c]), np.ascontiguousarray(stops[:, c]), kind, place)
        for c, kind in enumerate(kinds)
    )
    return NumberBlock(file, first_line, len(newlines), columns, text, table)


def _numbers(raw: Bytes) -> tuple[Ints, Ints, Ints]:
    """Where the words of a text begin and end, and where its lines end."""
    blanks = np.flatnonzero(raw <= ord(" "))
    characters = raw[blanks]
    is_blank = characters - np.uint8(ord("\t")) <= ord("\r") - ord("\t")
    is_blank |= characters == ord(" ")
    if not is_blank.all():
        blanks = np.flatnonzero(_BLANK[raw])  # other control characters belong to words
        characters = raw[blanks]
    ends = blanks
    if len(raw) and not _BLANK[raw[-1]]:
        ends = np.append(blanks, len(raw))
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1] + 1
    is_word = starts < ends
    if not is_word.all():
        starts, ends = starts[is_word], ends[is_word]
    return starts, ends, blanks[characters == ord("\n")]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the numbers of a block stand, for messages, and what is known of all of them."""

    file: str
    first_line: int
    text: bytes
    finite: bool  # whether infinities are refused
    roomy: Bytes  # the text with a margin on both sides
    words: NDArray[np.uint64]  # its bytes by eights

    def fault(self, offset: int, message: str, hint: str = "") -> NoReturn:
        _fault(self.file, self.first_line, self.text, int(offset), message, hint)


def _without_comments(text: bytes, comment: bytes) -> bytes:
    """The block with comments blanked, so that lines and offsets stay what they are in the file."""
    if comment not in text:
        return text
    lines = text.split(b"\n")
    for n, line in enumerate(lines):
        if (at := line.find(comment)) >= 0:
            lines[n] = line[:at] + b" " * (len(line) - at)
    return b"\n".join(lines)


def _is_regular(starts: Ints, newlines: Ints, width: int) -> bool:
    """Whether each line has exactly `width` numbers, and the last one a line end."""
    if len(starts) != width * len(newlines):
        return False
    rows = starts.reshape(-1, width)
    return bool((rows[:, -1] < newlines).all() and (rows[1:, 0] > newlines[:-1]).all())


def _is_table(line_of: Ints, width: int) -> bool:
    """Whether each line with numbers has exactly `width` of them."""
    if len(line_of) % width:
        return False
    rows = line_of.reshape(-1, width)
    return bool((rows[:, 0] == rows[:, -1]).all() and (rows[1:, 0] > rows[:-1, -1]).all())


def _refuse_ragged(
    file: str, first_line: int, text: bytes, starts: Ints, line_of: Ints, width: int
) -> NoReturn:
    lines, counts = np.unique(line_of, return_counts=True)
    wrong = int(np.flatnonzero(counts != width)[0])
    at = int(starts[np.searchsorted(line_of, lines[wrong])])
    found = int(counts[wrong])
    hint = "a line that is too short often means a file that was cut off"
    if found > width:
        hint = "see whether a line end is missing, or the file says what its lines hold"
    _fault(
        file,
        first_line,
        text,
        at,
        f"the line has {found} number{'s' if found > 1 else ''}, each needs {width}",
        hint,
    )


def _fault(
    file: str, first_line: int, text: bytes, offset: int, message: str, hint: str
) -> NoReturn:
    begin = text.rfind(b"\n", 0, offset) + 1
    end = text.find(b"\n", offset)
    line = text[begin : end if end >= 0 else len(text)].decode("utf-8", "replace")
    column = offset - begin
    word = line[column:].split()
    length = len(word[0]) if word else 1
    number = first_line + text.count(b"\n", 0, offset)
    span = Span(file, number, column + 1, number, column + 1 + length, line.rstrip("\r"))
    raise SourceError(Diagnostic(span, message, "LW161", hint=hint))


def _column(starts: Ints, ends: Ints, kind: NumberKind, place: _Place) -> NDArray[Any]:
    if not len(starts):
        return np.zeros(0, np.int64 if kind is NumberKind.INTEGER else np.float64)
    return (_integers if kind is NumberKind.INTEGER else _reals)(starts, ends, place)


def _integers(starts: Ints, ends: Ints, place: _Place) -> Ints:
    """Whole numbers in decimal, exactly."""
    lengths = ends - starts
    found, wrong = whole_numbers(place.words, ends + MARGIN, lengths)
    is_negative = None
    if wrong.any():
        first = place.roomy[starts + MARGIN]
        is_negative = first == ord("-")
        lengths -= is_negative | (first == ord("+"))
        found, wrong = whole_numbers(place.words, ends + MARGIN, lengths)
    values = found.view(np.int64)
    if is_negative is not None:
        values *= 1 - 2 * is_negative
    is_odd = (wrong != 0) | (lengths <= 0) | (lengths > _MOST_DIGITS)
    for n in np.flatnonzero(is_odd):
        values[n] = _integer(place, int(starts[n]), int(ends[n]))
    return values


def _integer(place: _Place, start: int, end: int) -> int:
    word = place.text[start:end]
    if not (word[1:] if word[:1] in (b"+", b"-") else word).isdigit():
        place.fault(start, "expected a whole number", "write it in decimal digits")
    # Python refuses to convert very long strings of digits, and none of them fits anyway.
    value = int(word) if len(word) < 1000 else 1 << 64
    if not -(1 << 63) <= value < 1 << 63:
        place.fault(start, "the number does not fit 64 bits", "read the column as real numbers")
    return value


def _reals(starts: Ints, ends: Ints, place: _Place) -> NDArray[np.float64]:
    """Decimal numbers rounded to the nearest float64; exponents may be written with d."""
    has_letters = bool(place.roomy.max() > ord("9"))
    places = starts + MARGIN, ends + MARGIN
    values, is_open = real_numbers(place.roomy, place.words, *places, has_letters)
    left = np.flatnonzero(is_open)
    if len(left):
        values[left] = _strings(starts[left], ends[left], place)
    return values


def _strings(starts: Ints, ends: Ints, place: _Place) -> NDArray[np.float64]:
    """The same for numbers of any length and form, one string each."""
    lengths = ends - starts
    width = int(min(lengths.max(), _WIDEST))
    roomy = np.concatenate((place.roomy, np.zeros(_WIDEST, np.uint8)))
    words = np.lib.stride_tricks.sliding_window_view(roomy, width)[starts + MARGIN]
    words *= np.arange(width) < lengths[:, None]
    is_plain = (lengths <= width) & _REAL[words].all(axis=1)
    words[(words | 0x20) == ord("d")] = ord("e")
    words[~is_plain] = 0
    words[~is_plain, 0] = ord("0")
    try:
        values = words.view(f"S{width}")[:, 0].astype(np.float64)
    except ValueError:
        # One of them is no number; one by one finds it and tells where.
        is_plain[:] = False
        values = np.zeros(len(starts), np.float64)
    values = np.asarray(values, np.float64)
    for n in np.flatnonzero(~is_plain | ~np.isfinite(values)):
        values[n] = _real(place, int(starts[n]), int(ends[n]))
    return values


def _real(place: _Place, start: int, end: int) -> float:
    word = place.text[start:end].lower()
    if (word[1:] if word[:1] in (b"+", b"-") else word) in _NOT_FINITE:
        if place.finite:
            hint = "pass finite=False (--not-finite on the command line) to accept such values"
            place.fault(start, "the value is not finite", hint)
        return float(word)
    try:
        if not set(word) <= set(b"0123456789+-.ed"):
            raise ValueError(word)
        value = float(word.replace(b"d", b"e"))
    except ValueError:
        place.fault(start, "expected a real number", "write it as 1, -2.5 or 3e-7")
    if value in (float("inf"), float("-inf")):
        place.fault(start, "the number is too large for float64", "scale the values")
    return value
