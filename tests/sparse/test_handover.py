"""Who may write where: results never change with their sources, nor sources with results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from loopwright.sparse import frozen
from loopwright.sparse.bridge import from_scipy, to_scipy
from loopwright.sparse.convert_tensor import convert, convert_tensor
from loopwright.sparse.formats import find
from loopwright.sparse.frozen import are_frozen, freeze, is_frozen
from loopwright.sparse.handover import copied
from loopwright.sparse.tensor import SparseTensor
from sparse_builders import of_dense

scipy = pytest.importorskip("scipy.sparse")

SCIPY = ("coo", "csr", "csc", "bsr", "dia", "lil")
TARGETS = {"bsr": "bcsr(2,2)"}
OURS = ("coo", "scoo", "csr", "csc", "dia", "bcsr(2,2)", "dcsr", "lil", "csf", "mcoo2", "ell(row)")


def banded(size: int = 8) -> np.ndarray:
    """A symmetric pattern with zeros that are stored, as scipy sees them."""
    return np.eye(size) * 2 + np.eye(size, k=1) + 3 * np.eye(size, k=-1)


def scribble(array: np.ndarray) -> None:
    if array.flags.writeable and array.dtype.kind in "iufc":
        array[...] = array[::-1].copy() + 1


def parts(matrix: Any) -> list[np.ndarray]:
    found = [getattr(matrix, name, None) for name in ("data", "indices", "indptr", "offsets")]
    return [x for x in (*found, *getattr(matrix, "coords", ())) if isinstance(x, np.ndarray)]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("source", SCIPY)
@pytest.mark.parametrize("target", SCIPY)
def test_what_scipy_users_receive_is_theirs(source: str, target: str) -> None:
    dense = banded()
    given = getattr(scipy, f"{source}_array")(dense)
    made = convert(given, TARGETS.get(target, target))
    for array in parts(made):
        assert array.flags.writeable
        scribble(array)
    assert np.array_equal(given.toarray(), dense)
    made = convert(given, TARGETS.get(target, target))
    for array in parts(given):
        scribble(array)
    assert np.array_equal(made.toarray(), dense)


def test_entries_dropped_from_a_result_stay_in_its_source() -> None:
    given = scipy.coo_array((np.array([1.0, 0.0, 2.0]), ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    made = convert(given, "csr")
    made.eliminate_zeros()
    assert (made.nnz, given.nnz) == (2, 3)
    assert given.coords[1].tolist() == [0, 1, 1]
    assert given.data.tolist() == [1.0, 0.0, 2.0]


def test_the_same_format_is_copied() -> None:
    given = scipy.csr_array(banded())
    made = convert(given, "csr")
    made.data *= 10
    assert np.array_equal(given.toarray(), banded())
    made, _ = lw.sparse.convert_einsum("ij,j->i", given, np.ones(8), to="csr")
    made.data *= 10
    assert np.array_equal(given.toarray(), banded())


@pytest.mark.parametrize("kind", ["scipy", "ours"])
def test_a_symmetric_pattern_has_index_arrays_of_its_own(kind: str) -> None:
    """So many entries that rows and columns are exchanged without new index arrays."""
    size = 6000
    offsets = [-1, 0, 1]
    given = scipy.diags_array(
        [np.arange(1.0, size), np.ones(size), np.ones(size - 1)], offsets=offsets
    ).tocsr()
    wanted = given.tocsc().toarray() if size < 100 else given.tocsc()
    made = convert(given if kind == "scipy" else from_scipy(given), "csc")
    if kind == "scipy":
        pointers, rows = made.indptr, made.indices
    else:
        pointers, rows = made.arrays["colptr"], made.arrays["row"]
    given.indices[:] = 0
    given.indptr[1:-1] = 0
    given.data[:] = 7
    assert np.array_equal(pointers, wanted.indptr)
    assert np.array_equal(rows, wanted.indices)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("source", "target"), combined(OURS, OURS, one_in=2))
def test_tensors_are_independent(source: str, target: str) -> None:
    dense = banded()
    given = of_dense(source, dense)
    made = convert(given, target)
    assert are_frozen(made.arrays.values())
    for array in (*given.arrays.values(), given.values):
        scribble(array)
    assert np.array_equal(made.to_dense(), dense)
    given = of_dense(source, dense)
    made = convert(given, target)
    made.values[:] = 9
    assert np.array_equal(given.to_dense(), dense)


def test_frozen_arrays_cannot_be_written() -> None:
    made = convert(banded(), "csr")
    for array in made.arrays.values():
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
        assert freeze(array) is array
        assert not is_frozen(array[:])


def test_frozen_arrays_are_shared() -> None:
    rows = convert(banded(), "scoo")
    made = convert(rows, "csr")
    assert made.arrays["col"] is rows.arrays["col"]
    assert not np.shares_memory(made.values, rows.values)
    shared = convert_tensor(rows, find("csr"))
    assert np.shares_memory(shared.values, rows.values)


def test_arrays_of_others_that_are_read_only_are_not_frozen() -> None:
    """An older view may still write to them."""
    tensor = of_dense("csr", banded())
    older = tensor.arrays["col"][:]
    tensor.arrays["col"].flags.writeable = False
    assert older.flags.writeable
    assert not are_frozen(tensor.arrays.values())


def test_sampled_products_and_sums_are_independent() -> None:
    given, factor = of_dense("csr", banded()), np.ones((8, 2))
    sampled = lw.sparse.sddmm(given, factor, factor.T)
    summed = lw.sparse.add(given, given)
    wanted = [result.to_dense() for result in (sampled, summed)]
    for array in given.arrays.values():
        scribble(array)
    for result, before in zip((sampled, summed), wanted, strict=True):
        assert are_frozen(result.arrays.values())
        assert np.array_equal(result.to_dense(), before)
    frozen = convert(banded(), "csr")
    again = lw.sparse.sddmm(frozen, factor, factor.T)
    assert again.arrays["col"] is frozen.arrays["col"]


@pytest.mark.parametrize("format", ["coo", "csr", "csc", "bcsr(2,2)"])
def test_to_scipy_copies(format: str) -> None:
    tensor = convert(banded(), format)
    for array in parts(to_scipy(tensor)):
        assert array.flags.writeable
        scribble(array)
    assert np.array_equal(tensor.to_dense(), banded())
    shared = to_scipy(tensor, copy=False)
    assert np.shares_memory(shared.data, tensor.values)


def test_sums_of_scipy_are_theirs() -> None:
    given = scipy.csr_array(banded())
    for made in (lw.sparse.add(given, given), lw.sparse.add(given.tocoo(), given)):
        assert all(array.flags.writeable for array in parts(made))
        made.data *= 2
        assert np.array_equal(given.toarray(), banded())


@pytest.mark.parametrize("count", [5, (1 << 19) + 3, 1 << 20])
@pytest.mark.parametrize("dtype", ["int8", "int32", "float64", "complex128"])
def test_copies_by_several_threads(count: int, dtype: str) -> None:
    array = np.arange(count).astype(dtype)
    made = copied(array, 2)
    assert np.array_equal(made, array)
    assert not np.shares_memory(made, array)
    assert made.flags.writeable


def test_a_tensor_made_of_frozen_arrays_is_trusted() -> None:
    made = convert(banded(), "csr")
    again = lw.sparse.sparse_tensor("csr", (8, 8), made.arrays, made.values.copy())
    assert isinstance(again, SparseTensor)
    assert are_frozen(again.arrays.values())


def test_frozen_arrays_that_are_gone_are_forgotten() -> None:
    kept = [freeze(np.arange(3)) for _ in range(10)]
    for _ in range(20_000):
        freeze(np.arange(3))
    assert len(frozen._frozen) < 5_000
    assert are_frozen(kept)
