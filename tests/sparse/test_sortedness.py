"""What is found of a list of coordinates agrees with comparing its tuples one by one."""

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.sparse.sortedness import Sortedness, ascent, find_sortedness

module = sys.modules["loopwright.sparse.sortedness"]


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
def test_sortedness(is_sorted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that are longer than what is looked at first, and shorter ones."""
    monkeypatch.setattr(module, "_SHORT", 4)
    rng = np.random.default_rng(1)
    for count in (0, 1, 3, 5, 12, 40):
        for side in (2, 100):
            points = rng.integers(0, side, (count, 2)).tolist()
            points = sorted(points) if is_sorted else points
            columns = [np.array([p[m] for p in points], np.int32) for m in (0, 1)]
            pairs = list(itertools.pairwise(points))
            descends = any(a > b for a, b in pairs)
            found = find_sortedness(columns)
            assert found.descends == descends
            # In a list that descends nobody asks for more.
            assert descends or found.repeats == any(a == b for a, b in pairs)
            if found.largest is not None:
                assert found.largest == tuple(int(column.max()) for column in columns)


@given(
    st.lists(st.tuples(*[st.integers(0, 255)] * 3), min_size=2, max_size=12),
    st.integers(1, 3),
    st.sampled_from((("uint8", "int8", "uint8"), ("uint16", "uint8", "int64"))),
    st.integers(2, 14),
    st.integers(1, 3),
)
def test_numbers_of_all_sizes(
    points: list[tuple[int, ...]], rank: int, dtypes: tuple[str, ...], short: int, side: int
) -> None:
    """Any numbers of a type, read as unsigned, in lists in order and in others that nearly are."""
    columns = [np.array([p[m] for p in points], np.uint8) for m in range(rank)]
    columns = [column // side if m else column for m, column in enumerate(columns)]
    columns = [
        c.view(d) if d == "int8" else c.astype(d) for c, d in zip(columns, dtypes, strict=False)
    ]
    for order in (slice(None), np.lexsort([module.unsigned(c) for c in reversed(columns)])):
        arrays = [column[order] for column in columns]
        tuples = list(zip(*(module.unsigned(a).tolist() for a in arrays), strict=True))
        pairs = list(itertools.pairwise(tuples))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_SHORT", short)
            found = find_sortedness(arrays)
        if found.largest is None:
            continue
        assert found.largest == tuple(max(column) for column in zip(*tuples, strict=True))
        assert found.descends == any(a > b for a, b in pairs)
        assert found.repeats == any(a == b for a, b in pairs)
        assert found.skips or all(a[0] <= b[0] <= a[0] + 1 for a, b in pairs)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_one_pair_out_of_place(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a long list descends or repeats, whatever share of it finds that."""
    monkeypatch.setattr(module, "LEAST_LIGHT", 16)
    monkeypatch.setattr(module, "_SHORT", 8)
    row, col = (part.astype(np.int32).reshape(-1) for part in np.indices((20, 5)))
    assert find_sortedness([row, col], threads) == Sortedness(False, False, (19, 4), False)
    assert find_sortedness([2 * row, col], threads) == Sortedness(False, False, (38, 4), True)
    for e in range(8, len(row)):
        other = col.copy()
        other[e] = other[e - 1]
        found = find_sortedness([row, other], threads)
        # A row that begins with the column in which the one before has ended descends at once.
        assert (found.descends, found.repeats) == (e % 5 == 0, e % 5 > 0)
        other = row.copy()
        other[e] -= 2
        assert find_sortedness([other, col], threads).descends


def test_steps_that_go_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences alone would take a list for one that ascends, which returns to small numbers."""
    monkeypatch.setattr(module, "_SHORT", 2)
    row = np.array([0, 1, 101, 201, 40, 41], np.uint8)
    col = np.arange(6, dtype=np.int32)
    assert find_sortedness([row, col]) == Sortedness(True, False, (201, 5))
    high = np.array([0, 100, 200, 201], np.uint8)  # in order, though in the upper half
    assert find_sortedness([high, col[:4]]) == Sortedness(False, False, (201, 3))


def test_negative_indices_are_larger_than_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHORT", 2)
    columns = [np.array([0, 1, 2, 3], np.int32), np.array([5, 6, 7, -1], np.int32)]
    assert find_sortedness(columns) == Sortedness(False, False, (3, (1 << 32) - 1), False)
