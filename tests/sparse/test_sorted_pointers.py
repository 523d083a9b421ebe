"""Lists in order: found as such, with pointers made from the ends of runs; curves through space."""

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.diagnostics import UsageError
from loopwright.sparse.curves import CURVES, alto_bits
from loopwright.sparse.sorted_pointers import store_pointers
from loopwright.sparse.sortedness import Sortedness, ascent
from sparse_builders import morton

find_sortedness = sys.modules["loopwright.sparse.sortedness"].find_sortedness
ends = sys.modules["loopwright.sparse.sorted_pointers"]


@given(
    st.lists(st.integers(0, 9), max_size=12),
    st.booleans(),
    st.sampled_from(("uint8", "uint32", "uint64")),
    st.sampled_from(("int32", "int64")),
    st.integers(1, 3),
    st.integers(0, 3),
)
def test_store_ends(
    lengths: list[int], is_full: bool, index: str, dtype: str, threads: int, after: int
) -> None:
    """Numbers of any length, also of none, and rows before the first and after the last."""
    lengths = [max(length, 1) for length in lengths] if is_full else lengths
    parents = np.repeat(np.arange(len(lengths)), lengths).astype(index)
    count = len(lengths) + after
    pointer = np.full(count + 1, 77, dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ends, "LEAST_LIGHT", 4)
        store_pointers(parents, pointer, not is_full, threads)
    assert pointer.tolist() == np.searchsorted(parents, np.arange(count + 1)).tolist()
    assert pointer.dtype == dtype


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


def test_steps_that_go_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences alone would take a list for one that ascends, which returns to small numbers."""
    monkeypatch.setattr(module, "_SHORT", 2)
    row = np.array([0, 1, 101, 201, 40, 41], np.uint8)
    col = np.arange(6, dtype=np.int32)
    assert find_sortedness([row, col]) == Sortedness(True, False, (201, 5))
    high = np.array([0, 100, 200, 201], np.uint8)  # in order, though in the upper half
    assert find_sortedness([high, col[:4]]) == Sortedness(False, False, (201, 3))


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


def test_numbers_beyond_63_bits_are_refused() -> None:
    big = np.array(1 << 22)
    with pytest.raises(UsageError, match="MORTON needs 69 bits for 3 coordinates up to 4194304"):
        CURVES["MORTON"](big, big, big)
    with pytest.raises(UsageError, match="ALTO needs 66 bits for sizes"):
        CURVES["ALTO"](big, big, big, big, big, big)
    with pytest.raises(UsageError, match="coordinates from 0 on"):
        CURVES["MORTON"](np.array(-1), np.array(0))


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
