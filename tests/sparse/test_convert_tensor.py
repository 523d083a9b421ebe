"""What convert takes and gives: dtypes, widths of indices, wide sizes, formats of one's own."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from drawn import drawn, in_all
from loopwright.diagnostics import DtypeError, UsageError
from loopwright.sparse.convert_tensor import convert, convert_tensor
from loopwright.sparse.format import Format, Padding, declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.frozen import is_frozen
from loopwright.sparse.tensor import SparseTensor, same, sparse_tensor
from sparse.synthesis.pairs import assert_converts, scattered
from sparse_builders import build, of_dense

DTYPES = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
WAYS = (("coo", "csc"), ("csr", "dia"), ("csc", "ell(row)"), ("dia", "csr"), ("mcoo2", "bcsr(2,2)"))


def shuffled(array: Any, seed: int = 0) -> SparseTensor:
    """The entries of an array as coordinates in no order."""
    tensor = of_dense("coo", array)
    order = np.random.default_rng(seed).permutation(len(tensor.values))
    arrays = {name: a[order] for name, a in tensor.arrays.items()}
    return sparse_tensor("coo", tensor.shape, arrays, tensor.values[order])


@pytest.mark.drawn(6)
@pytest.mark.parametrize(("number", "dtype"), list(enumerate(DTYPES)))
def test_every_dtype(number: int, dtype: str) -> None:
    array = np.abs(scattered(11, (18, 17), 0.2)).astype(dtype)
    for source, target in drawn(WAYS, 6, number):
        assert_converts(of_dense(source, array), target, of_dense(target, array))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "complex64"])
def test_sums_in_every_dtype(dtype: str) -> None:
    """Repeated entries add up as NumPy adds them; truth values are or-ed, integers wrap round."""
    one = np.ones(1, dtype)[0]
    big = np.array([100]).astype(dtype)[0]
    entries = [((1, 1), one), ((0, 1), big), ((0, 1), big), ((1, 1), one), ((0, 0), one)]
    with np.errstate(over="ignore"):
        wanted = build("csr", (2, 2), entries, dtype)
        meeting = build("dia", (2, 2), entries, dtype)
    assert_converts(build("coo", (2, 2), entries, dtype), "csr", wanted)
    assert_converts(build("coo", (2, 2), entries, dtype), "dia", meeting)


def test_bits_of_values_are_kept() -> None:
    """NaN with a payload, -0.0, infinities and denormals arrive as they were."""
    bits = np.array([0x7FF800000000BEEF, 1 << 63, 0x7FF0 << 48, 1, 0xFFF8000000000001], np.uint64)
    values = bits.view(np.float64)
    places = [(0, 2), (1, 0), (1, 1), (2, 2), (3, 0)]
    entries = list(zip(places, values, strict=True))
    for number, source in enumerate(("coo", "csr", "csc", "alto", "ell(row)")):
        for target in drawn(("csr", "csc", "dia", "bcsr(2,2)", "sell(2,4)"), 2, number):
            if source != target:
                tensor = build(source, (4, 3), entries)
                assert_converts(tensor, target, build(target, (4, 3), entries))


def test_nan_leaves_padded_formats() -> None:
    """Only what equals the fill is padding; NaN equals nothing."""
    entries = [((0, 0), np.nan), ((1, 1), -1.0)]
    for source in ("dia", "bcsr(2,2)"):
        assert_converts(build(source, (2, 2), entries), "csr", build("csr", (2, 2), entries))


def test_values_of_an_unknown_type_are_refused() -> None:
    tensor = sparse_tensor("coo", (2, 2), {"row": [0], "col": [1]}, np.array(["x"]))
    with pytest.raises(DtypeError, match="values of this type cannot be converted"):
        convert(tensor, "csr")


# -- index arrays ---------------------------------------------------------------------------------


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("number", "width"), list(enumerate(["int8", "uint8", "int16", "uint32", "int64", "uint64"]))
)
def test_any_width_of_indices_is_read(number: int, width: str) -> None:
    array = scattered(12, (19, 21), 0.2)
    ways = (("coo", "csr"), ("csr", "csc"), ("csc", "dia"), ("dcsr", "lil"))
    for source, target in drawn(ways, 6, number):
        tensor = of_dense(source, array)
        arrays = {name: a.astype(width) for name, a in tensor.arrays.items()}
        wide = sparse_tensor(source, tensor.shape, arrays, tensor.values)
        assert_converts(wide, target, of_dense(target, array))


def test_indices_are_as_narrow_as_they_may() -> None:
    small = convert(shuffled(scattered(13, (18, 18), 0.3)), "csr")
    assert {a.dtype for a in small.arrays.values()} == {np.dtype(np.int32)}
    arrays = {"row": np.array([5, 1]), "col": np.array([0, 1 << 40])}
    wide = convert(sparse_tensor("coo", (9, (1 << 40) + 1), arrays, [1.0, 2.0]), "dcsr")
    assert {a.dtype for a in wide.arrays.values()} == {np.dtype(np.int64)}
    assert wide.arrays["col"].tolist() == [1 << 40, 0]


HUGE = 10**9


@pytest.mark.drawn(3)
@pytest.mark.parametrize("shape", [(HUGE, HUGE), (HUGE, 7), (7, HUGE)])
def test_wide_dimensions(shape: tuple[int, int]) -> None:
    """Work and memory follow the entries, not the sizes."""
    rng = np.random.default_rng(3)
    places = {(0, 0), (shape[0] - 1, shape[1] - 1)}
    while len(places) < 40:
        places.add((int(rng.integers(shape[0])), int(rng.integers(shape[1]))))
    chosen = [sorted(places)[n] for n in rng.permutation(40)]
    entries = [(at, float(n)) for n, at in enumerate(chosen)]
    formats = ("coo", "scoo", "mcoo2", "dcsr", "csf", "alto", "hicoo(128)")
    for source in ("coo", "mcoo2", "dcsr") if shape[0] == shape[1] else ("coo",):
        tensor = built_wide(source, shape, entries)
        for target in drawn(formats, 2 if in_all() else 4, formats.index(source) + 1):
            if source != target:
                assert_converts(tensor, target, built_wide(target, shape, entries))


def built_wide(format: str, shape: tuple[int, int], entries: list[Any]) -> SparseTensor:
    """A tensor built by hand; dcsr by way of csf, since it must not count empty rows."""
    if format != "dcsr":
        return build(format, shape, entries)
    tree = build("csf", shape, entries)
    arrays = {
        "rowidx": tree.arrays["idx0"],
        "rptr": tree.arrays["ptr0"],
        "col": tree.arrays["idx1"],
    }
    return sparse_tensor("dcsr", shape, arrays, tree.values)


def test_wide_dimensions_of_three() -> None:
    rng = np.random.default_rng(4)
    shape = (HUGE // 1000, 3, HUGE // 1000)
    places = {tuple(int(rng.integers(size)) for size in shape) for _ in range(30)}
    entries = [(at, float(n)) for n, at in enumerate(sorted(places, key=lambda at: at[::-1]))]
    for target in ("mcoo3", "csf", "alto") if in_all() else ("csf",):
        assert_converts(build("coo", shape, entries), target, build(target, shape, entries))


def test_orders_of_many_bits() -> None:
    """Two coordinates of 40 bits do not fit into one number: a curve through them is refused."""
    shape = (1 << 40, 1 << 40)
    arrays = {"row": np.array([1 << 39, 3]), "col": np.array([5, 1 << 39])}
    tensor = sparse_tensor("coo", shape, arrays, [1.0, 2.0])
    for target in ("mcoo2", "alto"):
        with pytest.raises(UsageError, match="bits"):
            convert(tensor, target)
    for target in ("scoo", "dcsr"):
        back = convert(convert(tensor, target), "scoo")
        assert back.arrays["row"].tolist() == [3, 1 << 39]
        assert back.arrays["col"].tolist() == [1 << 39, 5]
        assert back.values.tolist() == [2.0, 1.0]


# -- many entries ---------------------------------------------------------------------------------


@pytest.mark.drawn(2)
@pytest.mark.parametrize("count", [140_000, 5_000])
def test_many_entries_in_any_order(count: int) -> None:
    """Enough that entries are dealt out into parts before they are sorted."""
    rng = np.random.default_rng(count)
    row, col = rng.integers(0, 3000, count, np.int32), rng.integers(0, 2000, count, np.int32)
    values = rng.integers(-9, 9, count).astype(np.float64)
    tensor = sparse_tensor("coo", (3000, 2000), {"row": row, "col": col}, values)
    order = np.lexsort((col, row))
    key = row[order].astype(np.int64) * 2000 + col[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    sums = np.add.reduceat(values[order], first)
    rowptr = np.searchsorted(key[first], np.arange(3001) * 2000)
    for threads in (1, 2):
        csr = convert_tensor(tensor, find("csr"), threads=threads)
        assert np.array_equal(csr.arrays["rowptr"], rowptr)
        assert np.array_equal(csr.arrays["col"], key[first] % 2000)
        assert np.array_equal(csr.values, sums)
        csc = convert_tensor(tensor, find("csc"), threads=threads)
        assert same(convert_tensor(csc, find("csr"), threads=threads), csr)
        others = ("mcoo2", "alto", "hicoo(64)", "lil")
        if threads == 1 and not in_all():
            continue
        for target in drawn(others, 4, threads + count // 70_000):
            other = convert_tensor(tensor, find(target), threads=threads)
            assert same(convert_tensor(other, find("csr"), threads=threads), csr)


# -- arrays that are shared -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "shared"),
    [
        ("scoo", "csr", {"col": "col"}),
        ("coo", "csr", {"col": "col"}),  # its entries turn out to be sorted
        ("scoo", "csf", {"idx1": "col"}),
        ("mcoo2", "coo", {"row": "row", "col": "col"}),
    ],
)
def test_what_stays_in_place_is_shared(source: str, target: str, shared: dict[str, str]) -> None:
    tensor = of_dense(source, scattered(14, (20, 20), 0.3))
    result = convert(tensor, target, copy=False)
    found = {
        name: next((old for old, b in tensor.arrays.items() if np.shares_memory(array, b)), "")
        for name, array in result.arrays.items()
    }
    assert np.shares_memory(result.values, tensor.values)
    assert {name: old for name, old in found.items() if old} == shared


def test_read_only_sources_are_read() -> None:
    tensor = of_dense("csr", scattered(15, (20, 18), 0.3))
    for array in (*tensor.arrays.values(), tensor.values):
        array.flags.writeable = False
    for target in ("csc", "dia", "coo", "dcsr"):
        assert np.array_equal(convert(tensor, target).to_dense(), tensor.to_dense())


def test_sources_with_gaps_are_read() -> None:
    """Views that step over elements are copied before code runs on them."""
    tensor = of_dense("coo", scattered(16, (20, 18), 0.3))
    arrays = {name: np.repeat(a, 2)[::2] for name, a in tensor.arrays.items()}
    spread = sparse_tensor("coo", tensor.shape, arrays, np.repeat(tensor.values, 3)[::3])
    assert same(convert(spread, "csc"), of_dense("csc", tensor.to_dense()))


def test_the_same_format_is_the_same_tensor_when_asked() -> None:
    tensor = of_dense("csr", np.eye(3))
    assert convert(tensor, "csr", copy=False) is tensor
    assert same(convert(tensor, "csr"), tensor)


def test_dense_arrays_are_taken() -> None:
    array = scattered(17, (20, 25), 0.2)
    assert same(convert(array, "csc"), of_dense("csc", array))
    with pytest.raises(UsageError, match="expected a sparse tensor"):
        convert([[1, 2]], "csr")


# -- formats of one's own -------------------------------------------------------------------------

ONE_BASED = declare(
    "csr_from_1",
    "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1)"
    " && 0<=k<NNZ && jj=col(k)-1 && 0<=j<NC}",
    "{[ii,k,jj] -> [k]}",
    index("rowptr", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing"),
    index("col", "{[x] : 0<=x<NNZ}", "{[y] : 1<=y<=NC}", dtype="int16"),
    places="NNZ",
    order=("i", "j"),
    invariants=(
        "rowptr(0) = 0",
        "rowptr(NR) = NNZ",
        "forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)",
    ),
)
ANTIDIAGONALS = declare(
    "antidiagonals",
    "{[ii,d,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && 0<=d<ND && jj=sum(d)-ii && 0<=j<NC}",
    "{[ii,d,jj] -> [p] : p=ND*ii+d}",
    index("sum", "{[x] : 0<=x<ND}", "{[y] : 0<=y<NR+NC-1}", monotone="strictly increasing"),
    places="ND*NR",
    padding=Padding(is_mapped=True),
)


def one_based(array: Any) -> SparseTensor:
    plain = of_dense("csr", array)
    arrays = dict(plain.arrays) | {"col": (plain.arrays["col"] + 1).astype(np.int16)}
    return sparse_tensor(ONE_BASED, array.shape, arrays, plain.values)


def antidiagonals(array: Any) -> SparseTensor:
    rows, columns = np.nonzero(array)
    sums = sorted(set((rows + columns).tolist()))
    values = np.zeros((array.shape[0], len(sums)))
    for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
        values[i, sums.index(i + j)] = array[i, j]
    return sparse_tensor(ANTIDIAGONALS, array.shape, {"sum": np.int32(sums)}, values.reshape(-1))


@pytest.mark.drawn(10)
@pytest.mark.parametrize("own", [one_based, antidiagonals])
@pytest.mark.parametrize("other", ["coo", "csc", "dia", "ell(row)", "alto"])
def test_own_formats_both_ways(own: Any, other: str) -> None:
    array = scattered(18, (17, 20), 0.15)
    assert_converts(of_dense(other, array), own(array).format, own(array).check())
    assert_converts(own(array), other, of_dense(other, array))


def test_own_formats_to_each_other() -> None:
    array = scattered(19, (17, 20), 0.15)
    assert_converts(one_based(array), ANTIDIAGONALS, antidiagonals(array))
    assert_converts(antidiagonals(array), ONE_BASED, one_based(array))


def test_a_format_is_found_by_what_it_is() -> None:
    """A renamed format is another one with the same code."""
    named: Format = dataclasses.replace(find("csr"), name="mine")
    array = scattered(20, (20, 20), 0.2)
    result = convert(of_dense("csc", array), named)
    assert result.format is named
    assert np.array_equal(result.to_dense(), array)


def test_ranks_must_fit() -> None:
    with pytest.raises(UsageError, match="holds tensors of 2 dimensions, not 3"):
        convert(of_dense("coo", np.ones((2, 2, 2))), "csr")
    with pytest.raises(UsageError, match="unknown format 'nonsense'"):
        convert(np.eye(2), "nonsense")


def test_results_stay_when_memory_is_used_again() -> None:
    """Arrays on the way lie in memory that the next conversion uses; results never do."""
    rng = np.random.default_rng(3)
    made = []
    for turn in range(3):
        row, col = (rng.integers(0, 4000, 60_000, np.int32) for _ in range(2))
        tensor = sparse_tensor("coo", (4000, 4000), {"row": row, "col": col}, np.ones(60_000))
        found = convert_tensor(tensor, find("csr"), threads=1)
        copied = {name: array.copy() for name, array in found.arrays.items()}
        made.append((found, copied, found.values.copy()))
        assert len({found.values.sum() for found, _, _ in made}) == 1, turn
    for found, arrays, values in made:
        assert all(np.array_equal(found.arrays[name], arrays[name]) for name in arrays)
        assert np.array_equal(found.values, values)


@pytest.mark.parametrize("target", ["csr", "coo", "scoo", "csc", "dcsr"])
def test_a_result_shares_nothing_that_can_be_written(target: str) -> None:
    dense = np.eye(4) + np.eye(4, k=1) + np.eye(4, k=-1)
    rows = convert(dense, "csr")
    given = sparse_tensor("csr", (4, 4), {n: a.copy() for n, a in rows.arrays.items()}, rows.values)
    for source in (rows, given):
        made = convert(source, target)
        assert made.format.name == target
        assert np.array_equal(made.to_dense(), dense)
        theirs = (*source.arrays.values(), source.values)
        for array in (*made.arrays.values(), made.values):
            # What nobody can write may be shared.
            is_apart = not any(np.may_share_memory(array, other) for other in theirs)
            assert is_apart or is_frozen(array)
            assert is_apart or source is rows
