"""Pointers made from the ends of runs are what counting gives, by any number of threads."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.sparse.convert_tensor import conversion, convert_tensor, with_sortedness
from loopwright.sparse.explain_conversion import explain
from loopwright.sparse.formats import find
from loopwright.sparse.sorted_pointers import convert_by_pointers, store_pointers
from loopwright.sparse.synthesis.conversion import run
from loopwright.sparse.tensor import SparseTensor, sparse_tensor

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


def listed(lengths: list[int], columns: int, first: int = 0) -> SparseTensor:
    """A list in order with so many entries in each row, from row `first` on."""
    row = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32) + np.int32(first)
    col = np.concatenate([np.arange(length) for length in lengths]).astype(np.int32)
    shape = (first + len(lengths), columns)
    return sparse_tensor("coo", shape, {"row": row, "col": col}, np.arange(len(row)) + 0.5)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("lengths", "first"), [([3, 4, 2] * 8, 0), ([3, 4, 2] * 8, 2), ([0, 5, 0, 0, 4, 1] * 5, 0)]
)
def test_as_by_stages(
    lengths: list[int], first: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "LEAST_LIGHT", 8)
    tensor = listed(lengths, 9, first)
    arrays = [tensor.arrays[name] for name in ("row", "col")]
    sortedness = find_sortedness(arrays)
    assert sortedness.skips == (0 in lengths)
    found = conversion(with_sortedness(tensor, sortedness), find("csr"))
    given = tensor.arrays, tensor.values, tensor.symbols
    mine, staged = convert_by_pointers(found, *given, sortedness, threads), run(found, *given)
    assert mine is not None
    assert mine[0]["rowptr"].dtype == staged[0]["rowptr"].dtype
    np.testing.assert_array_equal(mine[0]["rowptr"], staged[0]["rowptr"])
    assert mine[0]["col"] is tensor.arrays["col"]
    assert mine[1] is tensor.values
    assert mine[2] == staged[2]
    whole = convert_tensor(tensor, find("csr"), threads=threads)
    np.testing.assert_array_equal(whole.arrays["rowptr"], staged[0]["rowptr"])


def test_only_where_pointers_are_all() -> None:
    """What needs sorting, sums or other arrays is left to the stages; so is a list with faults."""
    tensor = listed([3, 4, 2] * 8, 9)
    sortedness = find_sortedness([tensor.arrays[name] for name in ("row", "col")])
    given = tensor.arrays, tensor.values, tensor.symbols
    for name in ("csc", "dia", "dcsr", "bcsr(2,2)", "ell"):
        assert (
            convert_by_pointers(
                conversion(with_sortedness(tensor, sortedness), find(name)), *given, sortedness
            )
            is None
        )
    unsorted = find_sortedness([tensor.arrays[name][::-1] for name in ("row", "col")])
    found = conversion(with_sortedness(tensor, sortedness), find("csr"))
    assert convert_by_pointers(found, *given, unsorted) is None
    assert conversion(tensor, find("csr")).pointer is None


def test_empty_lists() -> None:
    for shape in ((0, 0), (3, 0), (0, 3), (4, 5)):
        tensor = sparse_tensor(
            "coo", shape, {n: np.zeros(0, np.int32) for n in ("row", "col")}, np.zeros(0)
        )
        found = convert_tensor(tensor, find("csr"))
        assert found.arrays["rowptr"].tolist() == [0] * (shape[0] + 1)


def test_explained() -> None:
    tensor = listed([3, 4, 2] * 8, 9)
    told = str(explain(tensor, "csr"))
    assert "where from_row turns out to be sorted, to_rowptr is stored" in told
    assert "found it in order" not in str(explain(tensor, "csc"))
