"""Numbers as text: exact values, the words of repr, faults that point at the right number."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.diagnostics import SourceError
from loopwright.sparse.entry_lines import lines_of
from loopwright.sparse.number_text import (
    MARGIN,
    NumberBlock,
    NumberKind,
    nearest,
    parse_block,
    whole_numbers,
    words_of,
)

INTEGER, REAL = NumberKind.INTEGER, NumberKind.REAL


def parsed(text: str, *kinds: NumberKind, first_line: int = 1, finite: bool = True) -> NumberBlock:
    return parse_block(
        text.encode(), kinds, file="a.mtx", first_line=first_line, comment=b"%", finite=finite
    )


@given(
    st.lists(
        st.tuples(
            st.integers(-(1 << 63), (1 << 63) - 1),
            st.integers(0, 10**6),
            st.floats(allow_nan=False, allow_infinity=False),
        )
    ),
    st.sampled_from(["\n", "\r\n", "\n\n", " \n", "\n% 1 2 3\n"]),
)
def test_numbers_are_exact(rows: list[tuple[int, int, float]], end: str) -> None:
    block = parsed("".join(f"{a}\t{b}  {c!r}{end}" for a, b, c in rows), INTEGER, INTEGER, REAL)
    assert [column.tolist() for column in block.columns] == [
        [row[c] for row in rows] for c in range(3)
    ]


@given(st.lists(st.floats(), min_size=1))
def test_bits_of_reals(values: list[float]) -> None:
    text = "\n".join(map(repr, values))
    found = parsed(text, REAL, finite=False).columns[0]
    assert np.array_equal(found, np.array(values), equal_nan=True)
    assert (np.signbit(found) == np.signbit(values))[~np.isnan(found)].all()


def test_spellings() -> None:
    text = "+1 1d3\n-2 -1.5E-3\n0007 .5\n00000000000000000000000003 5.\n4 " + "0" * 50 + "1e-5\n"
    block = parsed(text, INTEGER, REAL)
    assert block.columns[0].tolist() == [1, -2, 7, 3, 4]
    assert block.columns[1].tolist() == [1000.0, -0.0015, 0.5, 5.0, 1e-5]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("1 2\n3\n", "a.mtx:11:1", "the line has 1 number, each needs 2"),
        ("1 2\n\n3 4 5\n", "a.mtx:12:1", "the line has 3 numbers, each needs 2"),
        ("1 2\n3 4 5 6\n", "a.mtx:11:1", "the line has 4 numbers, each needs 2"),
        ("1\n2 3\n4\n", "a.mtx:10:1", "the line has 1 number, each needs 2"),
        ("1 2\nx 4\n", "a.mtx:11:1", "expected a whole number"),
        ("1.0 2\n", "a.mtx:10:1", "expected a whole number"),
        ("1_0 2\n", "a.mtx:10:1", "expected a whole number"),
        ("--1 2\n", "a.mtx:10:1", "expected a whole number"),
        ("1- 2\n", "a.mtx:10:1", "expected a whole number"),
        ("- 2\n", "a.mtx:10:1", "expected a whole number"),
        ("nan 2\n", "a.mtx:10:1", "expected a whole number"),
        ("9223372036854775808 2\n", "a.mtx:10:1", "the number does not fit 64 bits"),
        ("9" * 5000 + " 2\n", "a.mtx:10:1", "the number does not fit 64 bits"),
        ("1 2\n% c\n3   x\n", "a.mtx:12:5", "expected a real number"),
        ("1 1.2.3\n", "a.mtx:10:3", "expected a real number"),
        ("1 1_0\n", "a.mtx:10:3", "expected a real number"),
        ("1 -\n", "a.mtx:10:3", "expected a real number"),
        ("1 0x10\n", "a.mtx:10:3", "expected a real number"),
        ("1 1e\n", "a.mtx:10:3", "expected a real number"),
        ("1 \x001\n", "a.mtx:10:3", "expected a real number"),
        ("1 ½\n", "a.mtx:10:3", "expected a real number"),
        ("1 2\n3 1e999\n", "a.mtx:11:3", "the number is too large for float64"),
        ("1 2\n3 -NaN\n", "a.mtx:11:3", "the value is not finite"),
        ("1 inf\n", "a.mtx:10:3", "the value is not finite"),
    ],
)
def test_fault_is_told_with_its_place(text: str, place: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        parsed(text, INTEGER, REAL, first_line=10)
    assert str(caught.value).startswith(f"{place}: error: {message} [LW161]")


def test_whole_message() -> None:
    with pytest.raises(SourceError) as caught:
        parsed("1 2\n3 nan % why\n", INTEGER, REAL)
    assert str(caught.value) == (
        "a.mtx:2:3: error: the value is not finite [LW161]\n"
        "    3 nan\n"
        "      ^^^\n"
        "try: pass finite=False (--not-finite on the command line) to accept such values"
    )


MANTISSAS = st.integers(0, 18 * 10**18) | st.integers(0, 1 << 54) | st.integers(0, 999)


@given(st.lists(st.tuples(MANTISSAS, st.integers(-300, 300)), min_size=1))
def test_what_is_sure_is_nearest(pairs: list[tuple[int, int]]) -> None:
    values, is_sure = nearest(
        np.array([m for m, _ in pairs], np.uint64), np.array([e for _, e in pairs])
    )
    wanted = np.array([float(f"{m}e{e}") for m, e in pairs])
    assert (values == wanted)[is_sure].all()


def test_ties_and_far_powers_are_not_sure() -> None:
    ties = np.array([(1 << 53) + 1, 10**14, 1], np.uint64)
    assert not nearest(ties, np.array([0, 9, -300]))[1].any()


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1), st.binary(min_size=1, max_size=30))
def test_whole_numbers(numbers: list[int], other: bytes) -> None:
    texts = [str(n).encode() for n in numbers] + [other]
    text = np.frombuffer(b"7" * MARGIN + b"7".join(texts) + b"7" * MARGIN, np.uint8)
    lengths = np.array([len(word) for word in texts])
    ends = MARGIN + np.cumsum(lengths + 1) - 1
    values, wrong = whole_numbers(words_of(text), ends, lengths)
    for n, word in enumerate(texts):
        if wrong[n] == 0:
            assert int(values[n]) == int(word)
        else:
            assert not word.isdigit() or len(word) > 24 or int(word) >= 1843 * 10**16


SPREADS = {
    "normal": lambda r: r.standard_normal(3000),
    "few digits": lambda r: np.round(r.standard_normal(3000) * 100, 3),
    "quotients": lambda r: 1 / r.integers(1, 10_000, 3000),
    "all sizes": lambda r: 10 ** r.uniform(-101, 101, 3000),
    "whole": lambda r: r.integers(-(1 << 53), 1 << 53, 3000).astype(float),
    "beyond exact": lambda r: r.random(3000) * 1e17,
    "small": lambda r: r.random(3000) * 1e-3,
    "any bits": lambda r: np.frombuffer(r.bytes(24_000)),
    "powers of two": lambda r: 2.0 ** np.arange(-1074, 1024),
    "powers of ten": lambda r: 10.0 ** np.arange(-320, 309),
    "below powers of ten": lambda r: np.nextafter(10.0 ** np.arange(-320, 309), 0),
    "above powers of ten": lambda r: np.nextafter(10.0 ** np.arange(-320, 308), np.inf),
    "special": lambda r: np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]),
    "zeros": lambda r: np.zeros(3),
}


@pytest.mark.parametrize("name", SPREADS)
def test_reals_have_the_words_of_repr(name: str) -> None:
    values: Any = SPREADS[name](np.random.default_rng(7))
    assert lines_of([values]).decode().splitlines() == [repr(x) for x in values.tolist()]


@given(st.lists(st.floats(), min_size=1))
def test_any_reals(values: list[float]) -> None:
    assert lines_of([np.array(values)]).decode() == "".join(f"{x!r}\n" for x in values)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)), st.integers(0, 63))
def test_any_whole_numbers(numbers: list[int], shift: int) -> None:
    small = [number >> shift for number in numbers]
    found = lines_of([np.array(small, np.int64), np.array(small, np.int64) != 0])
    assert found.decode() == "".join(f"{n} {int(n != 0)}\n" for n in small)


def test_unsigned_numbers_and_several_columns() -> None:
    large = np.array([0, 9999, 10_000, 99_999_999, 100_000_000, (1 << 64) - 1], np.uint64)
    columns = [large, np.arange(6, dtype=np.int8), np.full(6, -0.5), np.full(6, 1e-7)]
    wanted = "".join(f"{n} {k} -0.5 1e-07\n" for k, n in enumerate(large.tolist()))
    assert lines_of(columns).decode() == wanted
