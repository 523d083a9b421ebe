"""The curves through space: exact against bits written as text, one-to-one, in order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.diagnostics import UsageError
from loopwright.sparse.curves import CURVES, alto_bits, alto_places
from sparse_builders import morton


@given(st.lists(st.integers(0, (1 << 31) - 1), min_size=2, max_size=2))
def test_morton_of_two(at: list[int]) -> None:
    assert int(CURVES["MORTON"](*map(np.array, at))) == morton(at)


@given(st.lists(st.integers(0, (1 << 21) - 1), min_size=3, max_size=3))
def test_morton_of_three(at: list[int]) -> None:
    assert int(CURVES["MORTON"](*map(np.array, at))) == morton(at)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_alto_is_one_to_one(sizes: list[int]) -> None:
    at = np.indices(sizes).reshape(len(sizes), -1)
    numbers = CURVES["ALTO"](*at, *map(np.array, sizes))
    assert len(set(numbers.tolist())) == at.shape[1]
    assert int(numbers.max()) < 1 << sum(map(alto_bits, sizes))
    for mode in range(len(sizes)):
        back = CURVES[f"ALTO_{mode}"](numbers, *map(np.array, sizes))
        assert back.tolist() == at[mode].tolist()


def test_alto_of_equal_sizes_is_morton() -> None:
    at = np.indices((8, 8, 8)).reshape(3, -1)
    assert (CURVES["ALTO"](*at, *[np.array(8)] * 3) == CURVES["MORTON"](*at)).all()
    assert alto_places((4, 2)) == ((1, 0), (0, 0), (0, 1))


def test_numbers_beyond_63_bits_are_refused() -> None:
    big = np.array(1 << 22)
    with pytest.raises(UsageError, match="MORTON needs 69 bits for 3 coordinates up to 4194304"):
        CURVES["MORTON"](big, big, big)
    with pytest.raises(UsageError, match="ALTO needs 66 bits for sizes"):
        CURVES["ALTO"](big, big, big, big, big, big)
    with pytest.raises(UsageError, match="coordinates from 0 on"):
        CURVES["MORTON"](np.array(-1), np.array(0))
