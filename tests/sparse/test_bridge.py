"""To scipy and back: equal matrices, memory shared where layouts agree, and nobody surprised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import loopwright as lw
from drawn import combined
from loopwright.diagnostics import UsageError
from loopwright.sparse.bridge import from_scipy, is_scipy, to_scipy
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.executors.sparse_einsum import spmv
from loopwright.sparse.format import declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.frozen import are_frozen, freeze, is_frozen
from loopwright.sparse.handover import copied
from loopwright.sparse.tensor import SparseTensor
from sparse_builders import of_dense

SHAPES = [(4, 6), (6, 4), (2, 2), (1, 8), (0, 3), (8, 8)]
NAMES = {"bsr": "bcsr", "dok": "coo"}


def dense(shape: tuple[int, int]) -> Any:
    random = np.random.default_rng(sum(shape))
    return (random.random(shape) < 0.4) * random.integers(1, 99, shape)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("format", ["coo", "csr", "csc", "dia", "bsr", "lil", "dok"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_round_trip(format: str, kind: str, shape: tuple[int, int]) -> None:
    array = dense(shape)
    given = getattr(scipy.sparse, f"{format}_{kind}")(array)
    tensor = from_scipy(given).check()
    assert tensor.format.name.split("(")[0] == NAMES.get(format, format)
    assert tensor.to_dense().tolist() == array.tolist()
    back = to_scipy(tensor, matrix=kind == "matrix", copy=False)
    assert isinstance(back, scipy.sparse.spmatrix) == (kind == "matrix")
    assert back.toarray().tolist() == array.tolist()
    assert back.dtype == array.dtype
    if format in ("coo", "csr", "csc"):
        assert np.shares_memory(back.data, given.data) or not given.nnz


def test_unsorted_and_repeated() -> None:
    parts = (np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 3, 3]))
    rows = scipy.sparse.csr_array(parts, shape=(2, 2))
    tensor = from_scipy(rows).check()
    assert tensor.format.name == "csr_unsorted"
    assert tensor.to_dense().tolist() == rows.toarray().tolist() == [[2, 5], [0, 0]]
    assert to_scipy(tensor).toarray().tolist() == [[2, 5], [0, 0]]
    columns = from_scipy(scipy.sparse.csc_array(parts, shape=(2, 2))).check()
    assert columns.format.name == "coo"
    assert columns.to_dense().tolist() == [[2, 0], [5, 0]]


def test_blocks_over_the_edge() -> None:
    with pytest.raises(UsageError, match="cannot reach over the edge of 3 x 3"):
        to_scipy(of_dense("bcsr(2,2)", np.eye(3)))


def test_refusals() -> None:
    with pytest.raises(UsageError, match=r"scipy has no format ell\(row\)"):
        to_scipy(of_dense("ell(row)", np.eye(3)))
    with pytest.raises(UsageError, match="expected a sparse array or matrix of scipy"):
        from_scipy(np.eye(3))
    assert not is_scipy(np.eye(3))


def test_a_format_of_ones_own_is_none_of_scipy() -> None:
    """The columns of a matrix under the names of csr must not pass for its rows."""
    csc = find("csc")
    spelled = str(csc.map).replace("colptr", "rowptr").replace("row(", "col(")
    own = declare(
        "csr",
        spelled,
        str(csc.access),
        index("rowptr", "{[x] : 0<=x<=NC}", "{[y] : 0<=y<=NNZ}", monotone="increasing"),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        places="NNZ",
        order=("j", "i"),
        invariants=("rowptr(0) = 0", "rowptr(NC) = NNZ"),
    )
    array = dense((4, 6))
    result = convert(scipy.sparse.csr_array(array), own)
    assert isinstance(result, SparseTensor)
    assert result.to_dense().tolist() == array.tolist()
    with pytest.raises(UsageError, match="scipy has no format csr"):
        to_scipy(result)


def test_lists_in_any_order() -> None:
    lists = scipy.sparse.lil_array((3, 4))
    lists.rows[0], lists.data[0] = [3, 1, 1], [1.0, 2.0, 3.0]
    lists.rows[2], lists.data[2] = [2], [4.0]
    wanted = [[0, 5, 0, 1], [0, 0, 0, 0], [0, 0, 4, 0]]
    for target in ("lil", "csr", "dia"):
        assert convert(lists, target).toarray().tolist() == wanted
    lists.data[0] = [1.0]
    with pytest.raises(UsageError, match="lil: row 0 has 3 columns and 1 values"):
        from_scipy(lists)


@pytest.mark.parametrize("kind", ["csc_array", "csr_array", "bsr_array"])
@pytest.mark.parametrize(("at", "value"), [(1, 10**8), (2, 1), (1, -1), (0, 1), (-1, 1)])
def test_pointers_that_go_astray(kind: str, at: int, value: int) -> None:
    """Code of scipy would follow them beyond the arrays."""
    given = getattr(scipy.sparse, kind)(
        np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0], [4.0, 0.0, 5.0]])
    )
    given.indices[:2] = given.indices[1::-1]  # so that somebody might want to sort them
    given.indptr[at] = value
    for run in (lambda: convert(given, "dcsr"), lambda: spmv(given, np.ones(3))):
        with pytest.raises(UsageError, match="ptr"):
            run()


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
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("source", SCIPY)
@pytest.mark.parametrize("target", SCIPY)
def test_what_scipy_users_receive_is_theirs(source: str, target: str, kind: str) -> None:
    """Equal to what scipy makes, of its classes; neither is changed with the other."""
    dense = banded()
    given = getattr(scipy.sparse, f"{source}_{kind}")(dense)
    made = convert(given, TARGETS.get(target, target))
    assert type(made).__name__ == f"{target}_{kind}"
    assert np.array_equal(made.toarray(), dense)
    for array in parts(made):
        assert array.flags.writeable
        scribble(array)
    assert np.array_equal(given.toarray(), dense)
    made = convert(given, TARGETS.get(target, target))
    for array in parts(given):
        scribble(array)
    assert np.array_equal(made.toarray(), dense)


@pytest.mark.parametrize("kind", ["scipy", "ours"])
def test_a_symmetric_pattern_has_index_arrays_of_its_own(kind: str) -> None:
    """So many entries that rows and columns are exchanged without new index arrays."""
    size = 6000
    offsets = [-1, 0, 1]
    given = scipy.sparse.diags_array(
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


@pytest.mark.parametrize("count", [5, (1 << 19) + 3, 1 << 20])
@pytest.mark.parametrize("dtype", ["int8", "int32", "float64", "complex128"])
def test_copies_by_several_threads(count: int, dtype: str) -> None:
    array = np.arange(count).astype(dtype)
    made = copied(array, 2)
    assert np.array_equal(made, array)
    assert not np.shares_memory(made, array)
    assert made.flags.writeable


def test_more_dimensions() -> None:
    array = np.zeros((2, 3, 4))
    array[1, 2, 3] = 5
    given = scipy.sparse.coo_array(array)
    tensor = from_scipy(given).check()
    assert tensor.to_dense().tolist() == array.tolist()
    assert to_scipy(tensor).shape == (2, 3, 4)
    with pytest.raises(UsageError, match="a matrix of scipy has two dimensions"):
        to_scipy(tensor, matrix=True)
