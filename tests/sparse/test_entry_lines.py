"""Columns to lines: the words of repr and str, whichever way they were made."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.sparse.entry_lines import lines_of

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


def test_no_rows() -> None:
    assert lines_of([np.zeros(0, np.int64), np.zeros(0)]) == b""
