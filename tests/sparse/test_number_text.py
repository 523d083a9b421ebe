"""Lines of numbers: exact values, and faults that point at the right number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.diagnostics import SourceError
from loopwright.sparse.number_text import NumberBlock, NumberKind, parse_block

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


def test_no_lines() -> None:
    for text in ("", "\n \n", "% only\n% comments"):
        assert [len(c) for c in parsed(text, INTEGER, REAL).columns] == [0, 0]


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


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1 2\n1\n", "a line that is too short"),
        ("1 2\n1 2 3\n", "see whether a line end is missing"),
    ],
    ids=["short", "long"],
)
def test_hints_for_lines_of_another_length(text: str, hint: str) -> None:
    with pytest.raises(SourceError, match=rf"each needs 2 .*\n.*\n.*\ntry: {hint}"):
        parsed(text, INTEGER, REAL)


def test_block_points_at_a_number() -> None:
    block = parsed("1 2\n30 40\n", INTEGER, REAL, first_line=5)
    assert (block.count, block.lines) == (2, 2)
    with pytest.raises(SourceError, match=r"^a.mtx:6:4: error: too many"):
        block.fault(1, 1, "too many")
