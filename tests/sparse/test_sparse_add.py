"""Sums of sparse tensors of different formats against sums of dense arrays."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.sparse.executors.add import add
from loopwright.sparse.tensor import sparse_tensor
from sparse_builders import build, of_dense

FORMATS = ("coo", "csr", "csc", "dia", "bcsr(2,3)", "ell(row)", "csf")


def pattern(shape: tuple[int, ...], seed: int) -> NDArray[Any]:
    random = np.random.default_rng(seed)
    found: NDArray[Any] = random.integers(1, 9, shape) * (random.random(shape) < 0.4)
    return found.astype(np.float64)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("format", FORMATS)
def test_sums_have_the_format_of_the_first(format: str) -> None:
    one, other = pattern((5, 7), 1), pattern((5, 7), 2)
    found = add(of_dense(format, one), of_dense("csc", other))
    assert found.format.name.split("(")[0] == format.split("(")[0]
    np.testing.assert_array_equal(found.check().to_dense(), one + other)


@settings(max_examples=some(25), deadline=None)
@given(st.sampled_from(FORMATS), st.sampled_from(FORMATS), st.integers(0, 2**32 - 1))
def test_random_sums(first: str, second: str, seed: int) -> None:
    one, other = pattern((4, 6), seed), pattern((4, 6), seed + 1)
    found = add(of_dense(first, one), of_dense(second, other))
    np.testing.assert_array_equal(found.check().to_dense(), one + other)


def test_common_entries_are_combined_by_plus() -> None:
    one = build("coo", (2, 3), [((0, 1), 5.0), ((1, 2), 4.0), ((0, 1), 3.0)])
    other = build("csr", (2, 3), [((0, 1), 4.0), ((0, 0), 7.0)])
    found = add(one, other, semiring="min_plus")
    assert found.to_dense().tolist() == [[7.0, 3.0, 0.0], [0.0, 0.0, 4.0]]
    found = add(other, one, semiring="max_plus")
    assert found.to_dense().tolist() == [[7.0, 5.0, 0.0], [0.0, 0.0, 4.0]]


def test_tensors_and_types() -> None:
    one, other = pattern((3, 4, 5), 3), pattern((3, 4, 5), 4).astype(np.int32)
    found = add(of_dense("csf", one), of_dense("coo", other))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found.to_dense(), one + other)


def test_empty_ones() -> None:
    found = add(of_dense("csr", np.zeros((2, 3))), of_dense("coo", np.zeros((2, 3))))
    assert found.nnz == 0
    np.testing.assert_array_equal(found.to_dense(), np.zeros((2, 3)))


def test_scipy_comes_back() -> None:
    scipy = pytest.importorskip("scipy.sparse")
    one, other = pattern((5, 7), 5), pattern((5, 7), 6)
    found = add(scipy.csr_array(one), scipy.coo_array(other))
    assert found.format == "csr"
    np.testing.assert_array_equal(found.toarray(), one + other)


def test_faulty_sums_are_told() -> None:
    with pytest.raises(UsageError, match="different shapes"):
        add(of_dense("csr", np.eye(2)), of_dense("csr", np.eye(3)))
    one, other = np.eye(2), -np.eye(2)
    zero = build("csr", (2, 2), [((1, 1), 0.0)])
    assert add(of_dense("dia", one), of_dense("csr", other)).to_dense().tolist() == [[0, 0], [0, 0]]
    with pytest.raises(UsageError, match=r"cannot hold the value 0 .* padding[\s\S]*\(1, 1\)"):
        add(of_dense("dia", one), zero, semiring="min_plus")


def test_lists_without_entries() -> None:
    one, other = np.zeros((3, 4)), np.eye(3, 4)
    for a, b in ((one, one), (one, other), (other, one)):
        found = add(of_dense("csr", a), of_dense("coo", b)).check()
        np.testing.assert_array_equal(found.to_dense(), a + b)


@settings(max_examples=some(40), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=9), st.integers(0, 9))
def test_repeated_entries_are_combined_in_their_order(places: list[Any], cut: int) -> None:
    """Repeated ones may stand in either list, in any order; `min` tells who took part."""
    values = np.arange(1.0, len(places) + 1)
    rows, columns = (np.array([p[axis] for p in places], np.int32) for axis in (0, 1))
    parts = [
        sparse_tensor("coo", (4, 3), {"row": rows[s], "col": columns[s]}, values[s])
        for s in (slice(None, cut), slice(cut, None))
    ]
    expected = np.zeros((4, 3))
    np.add.at(expected, (rows, columns), values)
    np.testing.assert_array_equal(add(*parts).to_dense(), expected)
    least = np.full((4, 3), np.inf)
    np.minimum.at(least, (rows, columns), values)
    found = add(*parts, semiring="min_plus")
    assert sorted(found.values.tolist()) == sorted(least[np.isfinite(least)].tolist())
