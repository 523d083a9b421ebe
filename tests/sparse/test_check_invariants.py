"""Rules are counted as the whole check finds them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.sparse.check_invariants import quantified_invariants_hold
from loopwright.sparse.formats import find
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from loopwright.sparse.validate_tensor import validate_tensor

COLUMNS = 5


def rows_of(lengths: list[int], columns: list[int], dtype: str) -> SparseTensor:
    pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)
    arrays = {"rowptr": pointers, "col": np.array(columns, dtype)}
    return sparse_tensor("csr", (len(lengths), COLUMNS), arrays, np.ones(len(columns)))


@st.composite
def tensors(draw: st.DrawFn) -> SparseTensor:
    lengths = draw(st.lists(st.integers(0, 3), max_size=6))
    columns = []
    for length in lengths:
        some = st.lists(st.integers(0, COLUMNS - 1), min_size=length, max_size=length)
        row = draw(some)
        columns += sorted(row) if draw(st.booleans()) else row
    return rows_of(lengths, columns, draw(st.sampled_from(("int32", "int64"))))


@given(tensors())
@settings(max_examples=some(150))
def test_neighbours_within_segments_and_not_across_them(tensor: SparseTensor) -> None:
    """Columns fall from one row to the next; what counts is that they rise within each."""
    pointers, columns = tensor.arrays["rowptr"].tolist(), tensor.arrays["col"].tolist()
    rising = all(
        columns[k] < columns[k + 1]
        for first, last in itertools.pairwise(pointers)
        for k in range(first, last - 1)
    )
    assert quantified_invariants_hold(tensor) is rising
    if not rising:
        with pytest.raises(UsageError, match="col"):
            validate_tensor(tensor)


@pytest.mark.parametrize("name", ["csr", "csc", "dcsr", "bcsr(2,2)"])
def test_rules_of_segments_need_no_loop_within_a_loop(name: str) -> None:
    """The rule that indices ascend in each segment is counted by two plain loops."""
    from loopwright.ir.dtypes import INT32
    from loopwright.sparse.check_invariants import _codes

    format = find(name, 2)
    codes = _codes(format, (INT32,) * len(format.indices))
    assert codes is not None
    assert all(len(s.domain.variables) == 1 for c in codes for s in c.computation.statements)
