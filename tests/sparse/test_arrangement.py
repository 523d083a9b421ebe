"""What is found of a list of coordinates agrees with comparing its tuples one by one."""

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.sparse.arrangement import Arrangement, arrangement, ascent

module = sys.modules["loopwright.sparse.arrangement"]


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=20),
    st.sampled_from(("int8", "int32", "int64")),
)
def test_ascent(points: list[tuple[int, int]], dtype: str) -> None:
    columns = [np.array([p[m] for p in points], dtype) for m in (0, 1)]
    descents = sum(a > b for a, b in itertools.pairwise(points))
    repetitions = sum(a == b for a, b in itertools.pairwise(points))
    assert ascent(columns) == (descents, repetitions)
    assert ascent(columns[:1])[0] == sum(a[0] > b[0] for a, b in itertools.pairwise(points))


@pytest.mark.parametrize("is_sorted", [False, True])
def test_arrangement(is_sorted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that are longer than what is looked at first, and shorter ones."""
    monkeypatch.setattr(module, "_PROBE", 4)
    rng = np.random.default_rng(1)
    for count in (0, 1, 3, 5, 12, 40):
        for side in (2, 100):
            points = rng.integers(0, side, (count, 2)).tolist()
            points = sorted(points) if is_sorted else points
            columns = [np.array([p[m] for p in points], np.int32) for m in (0, 1)]
            pairs = list(itertools.pairwise(points))
            descends = any(a > b for a, b in pairs)
            found = arrangement(columns)
            assert found.descends == descends
            # In a list that descends nobody asks for more.
            assert descends or found.repeats == any(a == b for a, b in pairs)
            if found.largest is not None:
                assert found.largest == tuple(int(column.max()) for column in columns)


def test_negative_indices_are_larger_than_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PROBE", 2)
    columns = [np.array([0, 1, 2, 3], np.int32), np.array([5, 6, 7, -1], np.int32)]
    assert arrangement(columns) == Arrangement(False, False, (3, (1 << 32) - 1))
