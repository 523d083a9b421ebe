"""Tensors that break a promise are refused with array, position and value, by any of the looks."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import DtypeError, UsageError
from loopwright.sparse import validate_arrays
from loopwright.sparse.check_invariants import has_no_violations, quantified_invariants_hold
from loopwright.sparse.format import declare, index
from loopwright.sparse.quick_check import quick_check_of
from loopwright.sparse.spf import chunk_plan
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from loopwright.sparse.validate_arrays import limits, require_valid_arrays
from loopwright.sparse.validate_tensor import validate_tensor
from sparse.synthesis.pairs import FORMATS_2D, FORMATS_3D, scattered
from sparse_builders import of_dense

ARRAY = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [3, 4, 0, 5], [0, 0, 6, 0]])


def spoiled(format: str, name: str, at: Any, value: int) -> SparseTensor:
    """The tensor of ARRAY with one number of one array changed."""
    tensor = of_dense(format, ARRAY)
    arrays = {key: array.copy() for key, array in tensor.arrays.items()}
    values = tensor.values.copy()
    (values if name == "values" else arrays[name])[at] = value
    return sparse_tensor(tensor.format, tensor.shape, arrays, values, symbols=tensor.symbols)


@pytest.mark.parametrize(
    ("format", "name", "at", "value", "told"),
    [
        ("coo", "row", 2, 4, "coo: row[2] = 4 is outside its range"),
        ("coo", "col", 0, -1, "coo: col[0] = -1 is outside its range"),
        ("scoo", "row", 0, 3, "scoo: the entries are not in the order of i, j"),
        ("mcoo2", "row", 0, 2, "mcoo2: an invariant is violated: forall n"),
        ("csr", "rowptr", 0, 1, "csr: an invariant is violated: rowptr(0) = 0"),
        ("csr", "rowptr", 4, 5, "csr: an invariant is violated: rowptr(NR) = NNZ"),
        ("csr", "rowptr", 2, 6, "csr: rowptr is not increasing"),
        ("csr", "rowptr", 2, 9, "csr: rowptr[2] = 9 is outside its range"),
        ("csr", "col", 3, 9, "csr: col[3] = 9 is outside its range"),
        ("csr", "col", 2, 3, "csr: an invariant is violated: forall x,k"),
        ("csr", "col", 1, 0, "csr: an invariant is violated: forall x,k"),
        ("csc", "row", 0, 3, "csc: an invariant is violated: forall x,k"),
        ("dcsr", "rowidx", 1, 0, "dcsr: rowidx is not strictly increasing"),
        ("dcsr", "rptr", 1, 0, "dcsr: rptr is not strictly increasing"),
        ("dia", "off", 0, 3, "dia: off is not strictly increasing"),
        ("dia", "off", 0, -4, "dia: off[0] = -4 is outside its range"),
        ("dia", "values", 0, 9, "dia: place 0 is padding and holds 9"),
        ("ell(row)", "ecol", (0, 1), 0, "ell(row): ecol is not strictly increasing"),
        ("ell(row)", "ecol", (0, 2), 3, "ell(row): ecol[0, 2] = 3 is padding"),
        ("ell(row)", "ecol", (2, 2), 4, "ell(row): ecol[2, 2] = 4 is outside its range"),
        ("ell(row)", "rlen", 0, 4, "ell(row): rlen[0] = 4 is outside its range"),
        ("ell(row)", "values", 2, 9, "ell(row): place 2 is padding and holds 9"),
        ("ell(column)", "ecol", (1, 0), 0, "ell(column): an invariant is violated"),
        ("bcsr(2,2)", "bcol", 1, 0, "bcsr(2,2): an invariant is violated: forall x,k"),
        ("lil", "len", 0, 1, "lil: an invariant is violated: forall x: 0<=x<NR"),
        ("csf", "idx0", 2, 1, "csf: idx0 is not strictly increasing"),
        ("hicoo(2)", "ei", 0, 2, "hicoo(2): ei[0] = 2 is outside its range"),
        ("hicoo(2)", "bj", 1, 0, "hicoo(2): an invariant is violated: forall b"),
        ("alto", "alto", 0, 99, "alto: alto is not strictly increasing"),
        ("alto", "alto", 5, 99, "alto: an invariant is violated: forall n"),
        ("sell(2,2)", "perm", 0, 1, "sell(2,2): perm is not a permutation, 0 does not occur"),
        ("sell(2,2)", "clen", 0, 1, "sell(2,2): an invariant is violated: forall c"),
        ("sell(2,2)", "scol", 0, 3, "sell(2,2): an invariant is violated: forall c,r,w"),
    ],
)
def test_broken_promise(format: str, name: str, at: Any, value: int, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        validate_tensor(spoiled(format, name, at, value))
    assert str(caught.value).startswith(told)


def test_whole_messages() -> None:
    with pytest.raises(UsageError) as caught:
        validate_tensor(spoiled("csr", "rowptr", 2, 6))
    assert str(caught.value) == (
        "csr: rowptr is not increasing\n"
        "note: found rowptr[2] = 6 and rowptr[3] = 5\n"
        "try: sort the entries, or name a format without a required order, such as coo"
    )
    with pytest.raises(UsageError) as caught:
        validate_tensor(spoiled("csr", "col", 3, 9))
    assert str(caught.value) == (
        "csr: col[3] = 9 is outside its range\n"
        "note: found NR = 4, NC = 4, NNZ = 6\n"
        "try: allowed are {[y] : y < NC && y >= 0}"
    )
    with pytest.raises(UsageError) as caught:
        validate_tensor(spoiled("csr", "col", 2, 3))
    assert str(caught.value) == (
        "csr: an invariant is violated: "
        "forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)\n"
        "note: found x = 2, k = 2, col(k) = 3, col(k+1) = 1\n"
        "try: sort the entries, or name a format without a required order, such as coo"
    )


ONE = {"rowptr": [0, 1], "col": [0]}


@pytest.mark.parametrize(
    ("format", "shape", "arrays", "values", "symbols", "told"),
    [
        ("csr", (-1, 1), ONE, [1.0], None, "dimension 0 of the shape"),
        ("csr", (1.5, 1), ONE, [1.0], None, "a shape is a tuple of"),
        ("csr", (1, 1, 1), ONE, [1.0], None, "the format csr holds"),
        ("csr", (1, 1), {"col": [0]}, [1.0], None, "csr needs the index array rowptr"),
        ("csr", (1, 1), {**ONE, "row": [0]}, [1.0], None, "csr has the index arrays rowptr, col"),
        ("csr", (1, 1), ONE, [1.0, 2.0], None, "csr: col has shape (1,), it needs (2,)"),
        ("csr", (1, 1), ONE, [[1.0]], None, "csr: the values have shape (1, 1), they need (1,)"),
        (
            "csr",
            (1, 1),
            {"rowptr": [0.0, 1.0], "col": [0]},
            [1.0],
            None,
            "csr: the index array rowptr must hold integers",
        ),
        (
            "csr",
            (1, 1),
            {"rowptr": [[0, 1]], "col": [0]},
            [1.0],
            None,
            "csr: rowptr must have 1 dimensions",
        ),
        ("csr", (1, 1), ONE, [1.0], {"NNZ": 2}, "csr: col has shape (1,), it needs (2,)"),
        ("csr", (1, 1), ONE, [1.0], {"NNZ": -1}, "csr: NNZ is -1, sizes are not negative"),
        ("csr", (1, 1), ONE, [1.0], {"NNZ": 1, "NR": 2}, "csr: NR is 2, the shape makes it 1"),
        ("csr", (1, 1), ONE, [1.0], {}, "csr: the symbol NNZ has no value"),
        (
            "alto",
            (1, 1),
            {"alto": np.zeros(1, np.int32)},
            [1.0],
            None,
            "alto: the index array alto must be int64",
        ),
        (
            "dia",
            (2, 2),
            {"off": [0]},
            [1.0],
            None,
            "dia: the values have shape (1,), they need (2,)",
        ),
    ],
)
def test_lengths_and_types(
    format: str, shape: Any, arrays: Any, values: Any, symbols: dict[str, int] | None, told: str
) -> None:
    is_type = "must" in told and "dimensions" not in told
    with pytest.raises(DtypeError if is_type else UsageError) as caught:
        sparse_tensor(format, shape, arrays, values, symbols=symbols)
    assert str(caught.value).startswith(told)


def test_domains_beyond_their_arrays() -> None:
    """A point of a domain without an element is refused, a negative one too."""
    format = declare(
        "listed",
        "{[n,ii,jj] -> [i,j] : i=ii && j=jj && 0<=n<NNZ && ii=row(n) && jj=col(n)}",
        "{[n,ii,jj] -> [n]}",
        index("row", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        index("col", "{[x] : -1<=x<NNZ}", "{[y] : 0<=y<NC}", extents=("NNZ",)),
        places="NNZ",
    )
    for count in (0, 2):
        zeros = np.zeros(count, np.int32)
        tensor = sparse_tensor(format, (1, 1), {"row": zeros, "col": zeros}, np.ones(count))
        with pytest.raises(UsageError) as caught:
            tensor.check()
        assert str(caught.value) == (
            f"listed: col[-1] is in the domain of col, which has shape ({count},)\n"
            "note: found domain {[x] : x < NNZ && x+1 >= 0}, extents (NNZ)\n"
            "try: a domain within the extents"
        )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_limits(dtype: str) -> None:
    info = np.iinfo(dtype)
    for values in ([5], [3, 1, 2], [info.max, info.min, 0], list(range(100))):
        array = np.array(values, dtype)
        assert limits(array) == (min(values), max(values))
        assert limits(np.repeat(array, 2)[::2]) == (min(values), max(values))


def spoilt(tensor: SparseTensor, seed: int) -> SparseTensor:
    """The tensor with one number of one index array changed."""
    rng = np.random.default_rng(seed)
    arrays = {key: array.copy() for key, array in tensor.arrays.items()}
    filled = [name for name, array in arrays.items() if array.size]
    array = arrays[filled[rng.integers(len(filled))]]
    info = np.iinfo(array.dtype)
    worst = (-1, -5, 1, 2, 4, 5, 100, info.max, info.min)
    array.reshape(-1)[rng.integers(array.size)] = np.array(worst[rng.integers(len(worst))]).astype(
        array.dtype
    )
    return sparse_tensor(tensor.format, tensor.shape, arrays, tensor.values, symbols=tensor.symbols)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("name", "rank"), [*((f, 2) for f in FORMATS_2D), *((f, 3) for f in FORMATS_3D)]
)
def test_what_passes_stays_inside(name: str, rank: int) -> None:
    """Of spoilt tensors only such pass as the whole check lets pass, but for what pads them.

    Coordinates that are sorted are looked at later, where it is found out what they are.
    """
    tensor = of_dense(name, ARRAY.reshape((4, 4) if rank == 2 else (2, 4, 2)))
    refused = 0
    for seed in range(60):
        bad = spoilt(tensor, seed)
        try:
            require_valid_arrays(bad)
        except UsageError:
            refused += 1
            continue
        if name != "scoo" and not is_padding_wrong(bad):
            validate_tensor(bad)
    assert refused > 5


def is_padding_wrong(tensor: SparseTensor) -> bool:
    """Whether something stands in a padded index array where nothing is read."""
    try:
        validate_tensor(tensor)
    except UsageError as error:
        return "is padding" in str(error)
    return False


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


def test_known_numbers_are_not_looked_for() -> None:
    tensor = of_dense("coo", np.eye(3))
    require_valid_arrays(tensor, {"row": 2, "col": 2})
    for largest in ({"row": 3, "col": 2}, {"row": 2, "col": (1 << 32) - 1}):
        look = quick_check_of(tensor.format, (np.dtype(np.int32),) * 2, True)
        assert look is not None
        assert not look.is_fine(tensor.arrays, tensor.symbols, tensor.values, largest, 1)


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
