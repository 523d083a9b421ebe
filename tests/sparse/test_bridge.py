"""To scipy and back: equal matrices, shared memory where layouts agree, refusals elsewhere."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from loopwright.diagnostics import UsageError
from loopwright.sparse.bridge import from_scipy, is_scipy, to_scipy
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.executors.sparse_einsum import spmv
from loopwright.sparse.format import declare, index
from loopwright.sparse.formats import find
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


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_indices_are_not_copied(dtype: type) -> None:
    given = scipy.sparse.csr_array(dense((8, 8)))
    given.indices, given.indptr = given.indices.astype(dtype), given.indptr.astype(dtype)
    tensor = from_scipy(given)
    assert tensor.arrays["rowptr"] is given.indptr
    assert np.shares_memory(tensor.arrays["col"], given.indices)
    assert tensor.arrays["col"].dtype == dtype


def test_room_behind_the_entries() -> None:
    given = scipy.sparse.csr_array(dense((4, 4)))
    given.data = np.concatenate((given.data, [7, 7]))
    given.indices = np.concatenate((given.indices, [9, 9])).astype(np.int32)
    assert from_scipy(given).check().to_dense().tolist() == dense((4, 4)).tolist()


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


def test_other_formats_are_sorted_in_a_copy() -> None:
    parts = (np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 2, 3]))
    columns = scipy.sparse.csc_array(parts, shape=(2, 2))
    tensor = from_scipy(columns).check()
    assert tensor.format.name == "csc"
    assert tensor.to_dense().tolist() == [[2, 0], [1, 4]]
    assert columns.indices.tolist() == [1, 0, 1]
    blocks = scipy.sparse.bsr_array((np.arange(12.0).reshape(3, 2, 2), *parts[1:]), shape=(4, 4))
    tensor = from_scipy(blocks).check()
    assert tensor.format.name == "bcsr(2,2)"
    assert tensor.to_dense().tolist() == blocks.toarray().tolist()
    blocks.indices[:] = 0
    assert from_scipy(blocks).check().format.name == "coo"


def test_order_is_looked_at_and_not_believed() -> None:
    given = scipy.sparse.csr_array(np.array([[1.0, 2.0], [3.0, 0.0]]))
    assert given.has_canonical_format
    given.indices[:2] = [1, 0]
    assert from_scipy(given).format.name == "csr_unsorted"


def test_diagonals_of_any_width_and_order() -> None:
    data = np.arange(1.0, 13.0).reshape(3, 4)
    for shape in [(3, 6), (6, 3), (4, 4), (2, 2)]:
        given = scipy.sparse.dia_array((data, [1, -1, 0]), shape=shape)
        tensor = from_scipy(given).check()
        assert tensor.to_dense().tolist() == given.toarray().tolist()
    far = scipy.sparse.dia_array((data, [9, -9, 0]), shape=(3, 3))
    assert from_scipy(far).check().arrays["off"].tolist() == [0]


def test_more_dimensions() -> None:
    array = np.zeros((2, 3, 4))
    array[1, 2, 3] = 5
    given = scipy.sparse.coo_array(array)
    tensor = from_scipy(given).check()
    assert tensor.to_dense().tolist() == array.tolist()
    assert to_scipy(tensor).shape == (2, 3, 4)
    with pytest.raises(UsageError, match="a matrix of scipy has two dimensions"):
        to_scipy(tensor, matrix=True)


def test_blocks_over_the_edge() -> None:
    with pytest.raises(UsageError, match="cannot reach over the edge of 3 x 3"):
        to_scipy(of_dense("bcsr(2,2)", np.eye(3)))


def test_refusals() -> None:
    with pytest.raises(UsageError, match=r"scipy has no format ell\(row\)"):
        to_scipy(of_dense("ell(row)", np.eye(3)))
    with pytest.raises(UsageError, match="expected a sparse array or matrix of scipy"):
        from_scipy(np.eye(3))
    assert not is_scipy(np.eye(3))


def test_scipy_is_not_loaded_without_need() -> None:
    program = "import sys, loopwright.sparse.bridge; assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


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


def test_conversion_to_blocks_over_the_edge() -> None:
    array = dense((5, 3))
    result = convert(scipy.sparse.csr_matrix(array), "bcsr(2,2)")
    assert isinstance(result, SparseTensor)
    assert result.to_dense().tolist() == array.tolist()
    whole = convert(scipy.sparse.csr_matrix(array), "bcsr(5,3)")
    assert isinstance(whole, scipy.sparse.bsr_matrix)


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


def test_classes_made_from_those_of_scipy() -> None:
    class Own(scipy.sparse.csr_matrix):  # type: ignore[misc]
        pass

    assert is_scipy(Own(np.eye(2)))
    assert isinstance(convert(Own(np.eye(2)), "csc"), scipy.sparse.csc_matrix)


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


def test_an_index_out_of_range_is_named_at_its_place() -> None:
    given = scipy.sparse.csc_array(np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0], [4.0, 0.0, 5.0]]))
    given.indices[0] = 7
    with pytest.raises(UsageError, match=r"row\[0\]"):
        convert(given, "csr")


@pytest.mark.parametrize("kind", ["csr_array", "coo_array", "dok_array"])
def test_vectors_are_coordinates(kind: str) -> None:
    given = getattr(scipy.sparse, kind)(np.array([1.0, 0.0, 2.0]))
    assert from_scipy(given).format.name == "coo"
    assert convert(given, "coo").toarray().tolist() == [1.0, 0.0, 2.0]
    with pytest.raises(UsageError, match="csr holds tensors of 2 dimensions, not 1"):
        convert(given, "csr")
