"""One look finds fine what the looks at each array and rule find fine, and nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.sparse import validate_arrays
from loopwright.sparse.check_invariants import has_no_violations, quantified_invariants_hold
from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.formats import find
from loopwright.sparse.quick_check import quick_check_of
from loopwright.sparse.spf import chunk_plan
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from loopwright.sparse.validate_arrays import require_valid_arrays
from sparse.synthesis.pairs import FORMATS_2D, FORMATS_3D, scattered
from sparse_builders import of_dense

# Formats with padded arrays, or with a rule that is told by no code, are looked at one by one.
APART = ("ell(row)", "ell(column)", "sell(2,4)", "alto")
TOGETHER = [*((f, 2) for f in FORMATS_2D), *((f, 3) for f in FORMATS_3D)]
TOGETHER = [(name, rank) for name, rank in TOGETHER if name not in APART]


def is_fine(tensor: SparseTensor, threads: int = 1) -> bool:
    dtypes = tuple(tensor.arrays[index.name].dtype for index in tensor.format.indices)
    look = quick_check_of(tensor.format, dtypes, False)
    assert look is not None
    given = tensor.arrays, tensor.symbols, tensor.values, {}, threads
    return look.is_fine(*given) and has_no_violations(look.rest, tensor, threads)


def one_by_one(tensor: SparseTensor) -> bool:
    return validate_arrays._is_valid(tensor, {}, 1) and quantified_invariants_hold(tensor) is True


def changed(tensor: SparseTensor, name: str, array: np.ndarray) -> SparseTensor:
    arrays = dict(tensor.arrays) | {name: array}
    return sparse_tensor(tensor.format, tensor.shape, arrays, tensor.values, symbols=tensor.symbols)


@settings(max_examples=some(100), deadline=None)
@given(
    st.sampled_from(TOGETHER), st.integers(0, 3), st.sampled_from(("int32", "int64", "")), st.data()
)
def test_as_one_by_one(chosen: tuple[str, int], seed: int, dtype: str, data: st.DataObject) -> None:
    """Tensors with some numbers of one array changed, one element or a few exchanged."""
    name, rank = chosen
    tensor = of_dense(name, scattered(seed, (5, 4) if rank == 2 else (3, 4, 2), 0.2 + 0.15 * seed))
    which = data.draw(st.sampled_from([index.name for index in tensor.format.indices]))
    array = tensor.arrays[which].copy()
    if dtype and not tensor.format.index(which).dtype:
        array = array.astype(dtype)
    if array.size:
        info = np.iinfo(array.dtype)
        other = st.sampled_from((-1, 0, 1, 2, 3, 4, 5, 9, 100, info.max, info.min))
        for _ in range(data.draw(st.integers(0, 2))):
            at = data.draw(st.integers(0, array.size - 1))
            array[at] = np.array(data.draw(other)).astype(array.dtype)
    bad = changed(tensor, which, array)
    assert is_fine(bad) == one_by_one(bad)


rows = st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=7)


@given(rows, st.booleans(), st.sampled_from(("int32", "int64", "uint8")), st.integers(1, 3))
@settings(max_examples=some(100), deadline=None)
def test_order_within_rows(
    columns: list[list[int]], is_sorted: bool, dtype: str, threads: int
) -> None:
    """With and without empty rows, whose boundaries are found in different ways."""
    kept = [sorted(set(row)) for row in columns] if is_sorted else columns
    pointers = np.cumsum([0, *map(len, kept)]).astype(dtype)
    listed = np.array([c for row in kept for c in row], dtype)
    arrays = {"rowptr": pointers, "col": listed}
    tensor = sparse_tensor("csr", (len(kept), 4), arrays, np.ones(len(listed)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_plan, "LEAST", 1)
        patch.setattr(chunk_plan, "LEAST_LIGHT", 1)
        found = is_fine(tensor, threads)
    assert found == all(row == sorted(set(row)) for row in kept)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_rows_by_shares(threads: int) -> None:
    """Long arrays are shared out; what is wrong in one place is found, wherever that is."""
    count = 2 * chunk_plan.LEAST_LIGHT + 100
    pointers = np.arange(0, count + 1, 2, dtype=np.int32)
    col = np.tile(np.array([3, 5], np.int32), count // 2)
    shape = (len(pointers) - 1, 6)
    tensor = sparse_tensor("csr", shape, {"rowptr": pointers, "col": col}, np.ones(count))
    assert is_fine(tensor, threads)
    with_gap = pointers.copy()
    with_gap[1:9] = 2  # some empty rows
    assert not is_fine(changed(tensor, "rowptr", with_gap), threads)  # a longer one falls
    for at in (0, 1, count // 2 + 1, count - 2, count - 1):
        for value in (-1, 6) if at % 2 else (5, 6):
            worse = col.copy()
            worse[at] = value
            assert not is_fine(changed(tensor, "col", worse), threads), (at, value)


def test_known_numbers_are_not_looked_for() -> None:
    tensor = of_dense("coo", np.eye(3))
    require_valid_arrays(tensor, {"row": 2, "col": 2})
    for largest in ({"row": 3, "col": 2}, {"row": 2, "col": (1 << 32) - 1}):
        look = quick_check_of(tensor.format, (np.dtype(np.int32),) * 2, True)
        assert look is not None
        assert not look.is_fine(tensor.arrays, tensor.symbols, tensor.values, largest, 1)


@pytest.mark.parametrize("name", APART)
def test_others_are_left_alone(name: str) -> None:
    format = find(name)
    assert quick_check_of(format, (np.dtype(np.int32),) * len(format.indices), False) is None


def test_arrays_with_gaps_are_looked_at() -> None:
    col = np.array([0, 9, 1, 9, 2, 9], np.int32)[::2]
    arrays = {"rowptr": np.array([0, 1, 2, 3], np.int32), "col": col}
    tensor = sparse_tensor("csr", (3, 3), arrays, np.ones(3))
    assert is_fine(tensor)
    assert convert_tensor(tensor, find("csc")).arrays["row"].tolist() == [0, 1, 2]
    with pytest.raises(UsageError, match=r"col\[1\] = 9 is outside its range"):
        require_valid_arrays(changed(tensor, "col", np.array([0, 9, 2], np.int32)))
