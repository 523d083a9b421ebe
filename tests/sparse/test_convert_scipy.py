"""What comes from scipy goes back to scipy, as scipy itself converts it."""

from typing import Any

import numpy as np
import pytest

from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.tensor import SparseTensor
from sparse.synthesis.pairs import scattered

sparse = pytest.importorskip("scipy.sparse")

FORMATS = ("coo", "csr", "csc", "bsr", "dia", "lil")


def target_of(name: str) -> str:
    return "bcsr(2,3)" if name == "bsr" else name


def matrix_in(name: str, array: Any, kind: str = "array") -> Any:
    made = getattr(sparse, f"csr_{kind}")(array)
    return made.tobsr(blocksize=(2, 3)) if name == "bsr" else made.asformat(name)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("source", FORMATS)
def test_scipy_to_scipy(source: str, kind: str) -> None:
    array = scattered(31, (18, 21), 0.2)
    given = matrix_in(source, array, kind)
    before = given.copy()
    for name in FORMATS:
        result = convert(given, target_of(name))
        assert type(result).__name__ == f"{name}_{kind}"
        assert np.array_equal(result.toarray(), array)
        assert (given != before).nnz == 0


def test_the_arrays_are_those_of_scipy() -> None:
    given = matrix_in("csr", scattered(32, (18, 21), 0.2))
    result, right = convert(given, "csc"), given.tocsc()
    for name in ("indptr", "indices", "data"):
        mine, other = getattr(result, name), getattr(right, name)
        assert mine.dtype == other.dtype
        assert np.array_equal(mine, other)
    assert result.has_canonical_format


def test_sorted_coordinates_share_their_arrays_when_asked() -> None:
    given = matrix_in("csr", scattered(33, (18, 21), 0.2)).tocoo()
    result = convert(given, "csr", copy=False)
    assert np.shares_memory(result.data, given.data)
    assert np.shares_memory(result.indices, given.coords[1])


def test_formats_that_scipy_lacks_are_ours() -> None:
    result = convert(matrix_in("csr", np.eye(3)), "dcsr")
    assert isinstance(result, SparseTensor)
    assert result.format.name == "dcsr"


@pytest.mark.drawn(3)
@pytest.mark.parametrize("source", ["coo", "csr", "csc"])
def test_repeated_entries_of_scipy(source: str) -> None:
    """Unsorted indices and repeated entries, as scipy allows them."""
    rows, columns = np.array([2, 0, 2, 1, 2, 0]), np.array([1, 2, 1, 0, 0, 1])
    given = sparse.coo_array((np.arange(1.0, 7.0), (rows, columns)), shape=(3, 3))
    if source != "coo":
        pointers = np.bincount(rows if source == "csr" else columns, minlength=3).cumsum()
        order = np.argsort(rows if source == "csr" else columns, kind="stable")
        indices = (columns if source == "csr" else rows)[order]
        parts = (given.data[order], indices, np.concatenate(([0], pointers)))
        given = getattr(sparse, f"{source}_array")(parts, shape=(3, 3))
    for target in ("csr", "csc", "dia", "bsr"):
        result = convert(given, "bcsr(3,1)" if target == "bsr" else target)
        assert np.array_equal(result.toarray(), given.toarray())
        if target in ("csr", "csc") and target != source:
            assert result.has_canonical_format
            assert result.nnz == 5


def test_three_dimensions_of_scipy() -> None:
    array = scattered(34, (4, 5, 6), 0.2)
    given = sparse.coo_array(array)
    assert np.array_equal(convert(given, "csf").to_dense(), array)
    assert np.array_equal(convert(given, "scoo").todense(), array)
