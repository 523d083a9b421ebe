"""Lines of numbers to columns of NumPy arrays, a block at a time; faults name line and column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import Diagnostic, SourceError, Span

from .digits import MARGIN, real_numbers, whole_numbers, words_of

__all__ = ["Block", "Kind", "parse_block"]

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_MOST_DIGITS = 18  # any number of 18 digits fits 64 bits
_WIDEST = 40  # bytes of a number that NumPy parses as a string; longer ones one by one
_BLANK = np.zeros(256, np.bool_)
_BLANK[list(b" \t\r\n\v\f")] = True
_REAL = np.zeros(256, np.bool_)
_REAL[list(b"0123456789+-.eEdD\0")] = True
_NOT_FINITE = frozenset((b"nan", b"inf", b"infinity"))


class Kind(Enum):
    """What the numbers of a column are."""

    INTEGER = "integer"
    REAL = "real number"


@dataclass(frozen=True, slots=True)
class Block:
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
    kinds: Sequence[Kind],
    *,
    file: str,
    first_line: int,
    comment: bytes,
    finite: bool = True,
) -> Block:
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
    return Block(file, first_line, len(newlines), columns, text, table)


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


def _column(starts: Ints, ends: Ints, kind: Kind, place: _Place) -> NDArray[Any]:
    if not len(starts):
        return np.zeros(0, np.int64 if kind is Kind.INTEGER else np.float64)
    return (_integers if kind is Kind.INTEGER else _reals)(starts, ends, place)


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
