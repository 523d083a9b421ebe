"""What convert takes and gives: dtypes, far coordinates, formats of one's own, refusals."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import HUNTS, combined, drawn, in_all
from loopwright import options
from loopwright.diagnostics import DtypeError, RoomError, UsageError
from loopwright.sparse.convert_tensor import convert, convert_tensor
from loopwright.sparse.explain_conversion import explain
from loopwright.sparse.format import Format, Padding, declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.frozen import is_frozen
from loopwright.sparse.tensor import SparseTensor, from_dense, same, sparse_tensor
from outside.campaigns.far_coordinates import (
    FORMATS,
    entries_of,
    far_tensor,
    room_of,
    sum_of_repeated,
)
from sparse.synthesis.pairs import FORMATS_2D, assert_converts, scattered
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


def test_values_of_an_unknown_type_are_refused() -> None:
    tensor = sparse_tensor("coo", (2, 2), {"row": [0], "col": [1]}, np.array(["x"]))
    with pytest.raises(DtypeError, match="values of this type cannot be converted"):
        convert(tensor, "csr")


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


def test_the_same_format_is_the_same_tensor_when_asked() -> None:
    tensor = of_dense("csr", np.eye(3))
    assert convert(tensor, "csr", copy=False) is tensor
    assert same(convert(tensor, "csr"), tensor)


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


TESTS = Path(__file__).parent.parent
COO = {"row": [0, 1, 1], "col": [1, 0, 2]}
CSR = {"rowptr": [0, 1, 3], "col": [1, 0, 2]}
VALUES = [1.0, 2.0, 3.0]


def given(format: str, arrays: dict[str, Any], values: Any = VALUES, shape: Any = (2, 3)) -> Any:
    return sparse_tensor(format, shape, arrays, values)


@pytest.mark.parametrize(
    ("format", "arrays", "told"),
    [
        ("scoo", COO | {"row": [1, 0, 1]}, "scoo: the entries are not in the order of i, j"),
        ("csr", CSR | {"col": [1, 2, 0]}, "csr: an invariant is violated: forall x,k"),
        ("csr", CSR | {"col": [1, 2, 2]}, "csr: an invariant is violated: forall x,k"),
        ("mcoo2", COO | {"row": [1, 0, 1]}, "mcoo2: an invariant is violated"),
        ("alto", {"alto": [4, 2, 1]}, "alto: alto is not strictly increasing"),
    ],
)
def test_what_is_not_sorted_is_refused(format: str, arrays: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        convert(given(format, arrays), "csc")


DANGEROUS = """
    import sys
    import numpy as np
    from loopwright.diagnostics import BoundsError, LoopwrightError
    from loopwright.sparse.convert_tensor import convert
    from loopwright.sparse.tensor import sparse_tensor
    from sparse_builders import of_dense

    rng = np.random.default_rng(0)
    dense = np.where(rng.random((20, 19)) < 0.3, rng.random((20, 19)), 0)
    for source, *targets in [line.split() for line in sys.argv[1:]]:
        good = of_dense(source, dense)
        outcomes = dict.fromkeys(("refused", "converted"), 0)
        for turn in range(TURNS):
            arrays = {name: array.copy() for name, array in good.arrays.items()}
            name = list(arrays)[turn % len(arrays)]
            flat = arrays[name].reshape(-1)
            info = np.iinfo(flat.dtype)
            far = (info.max, info.min, 19, 20, 25, 31, 32, -1, -2, 1, 0)
            flat[rng.integers(len(flat))] = np.array(far[turn % len(far)]).astype(flat.dtype)
            bad = sparse_tensor(source, good.shape, arrays, good.values, symbols=good.symbols)
            for target in targets:
                try:
                    convert(bad, target)
                    outcomes["converted"] += 1
                except BoundsError as error:
                    raise SystemExit(f"{source} -> {target}, {name}: {error}")
                except LoopwrightError as error:
                    outcomes["refused"] += 1
                    assert name in str(error) or "(" in str(error), error
        print(source, outcomes)
        assert outcomes["refused"]
"""
TURNS = "60" if HUNTS else "33"  # each of the numbers in each of up to three arrays
SOURCES = tuple(f for f in FORMATS_2D if f != "csf")


def spoilt_in_a_child(first: int, **environ: str) -> None:
    targets = ("csc", "dia", "mcoo2")
    sources = enumerate(drawn(SOURCES, 2 if in_all() else 4, first))
    lines = [" ".join((source, *drawn(targets, 2, number))) for number, source in sources]
    paths = filter(None, (str(TESTS), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DANGEROUS).replace("TURNS", TURNS), *lines],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | environ,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_access_leaves_its_array() -> None:
    """What the fast look lets pass may be out of order, but never out of bounds."""
    spoilt_in_a_child(1, **{options.variable("boundscheck"): "1"})


def test_what_is_no_format_thread_or_tensor() -> None:
    for wrong in (None, 3, ["csr"]):
        with pytest.raises(UsageError, match="a format is a name or a Format"):
            convert(np.eye(2), wrong)  # type: ignore[arg-type]
    for threads in (0, -1, 2.5, "2"):
        with pytest.raises(UsageError, match="threads must be a whole number"):
            convert(np.eye(2), "csr", threads=threads)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a masked array does not say"):
        convert(np.ma.masked_array(np.eye(2), np.eye(2)), "csr")


@pytest.mark.parametrize(
    ("format", "told"),
    [
        ("dia", f"745058.1 GiB for {10**14} x float64 of 'values'"),
        ("csr", f"745058.1 GiB for {10**14 + 1} x int64 of 'rowptr'"),
        ("bcsr(10000000,10000000)", f"745058.1 GiB for {10**14} x float64 of 'values'"),
    ],
)
def test_what_does_not_fit_into_memory(format: str, told: str) -> None:
    wide = given("coo", {"row": [0], "col": [0]}, [1.0], (10**14, 10**14))
    with pytest.raises(RoomError) as caught:
        convert(wide, format)
    assert caught.value.message == f"the tensor does not fit into memory as {format}"
    assert caught.value.found == told
    assert "recommend" in caught.value.hint
    assert isinstance(caught.value, UsageError)


MOST = 1 << 16  # elements of an array: formats that need more are left to the campaign
SIZES = [(1 << b) + more for b in (20, 21, 31, 32) for more in (-1, 0, 1)] + [(1 << 20) + 100]


def pairs() -> list[tuple[tuple[int, int], str, str]]:
    """Shapes and formats, without those that need an element for each of so many coordinates."""
    sources = ["coo", "csf", "dia", "csr", "csc"]
    shapes = [shape for n in SIZES for shape in ((3, n), (n, 3), (n, n))]
    rooms = {(name, shape): room_of(find(name, 2), shape) for name in FORMATS for shape in shapes}
    return [
        (shape, source, target)
        for shape, source, target in combined(shapes, sources, FORMATS, one_in=17)
        if max(rooms[source, shape], rooms[target, shape]) <= MOST
    ]


@pytest.mark.drawn(30)
@pytest.mark.parametrize(("shape", "source", "target"), pairs())
def test_pairs(shape: tuple[int, int], source: str, target: str) -> None:
    assert_far(far_tensor(shape), source, target)


def assert_far(given: SparseTensor, source: str, target: str) -> None:
    try:
        made = lw.sparse.convert(lw.sparse.convert(given, source), target)
    except UsageError as error:
        assert "takes more than 62 bits" in str(error)  # noqa: PT017, keys along curves
        return
    made.check()
    assert entries_of(made) == sum_of_repeated(given)


def test_every_step_from_csr_to_csc_is_told() -> None:
    text = str(explain("csr", "csc"))
    for part in (
        "from csr: {[ii,k,jj] -> [i,j]",
        "to csc: {[jj,k,ii] -> [i,j]",
        "to_k numbers (j, i)",
        "to_row: to_row(to_k) = i, for every entry",
        "to_colptr: to_k runs from to_colptr(x) to to_colptr(x+1) under parent x",
        "to_NNZ: how many numbers to_k has",
        "to_k is taken from a cursor of its parent",
        "order: (j, i) from (i, j): by j",
        "make to_colptr[NC+1] of int32, all 0",
        "for (long from_ii = 0; from_ii < NR; from_ii++)",
    ):
        assert part in text, part


def test_what_is_shared_is_told() -> None:
    whole = np.eye(4)
    found = explain(from_dense(whole), "csr")
    assert found.shared == ("col", "values")
    assert "shared with the source: col, values" in str(found)
    assert "nothing is sorted" in str(found)
    assert explain("csr", "csc").shared == ()


def mysterious() -> Format:
    """COO with an array of which nothing says what stands in it."""
    return declare(
        "mysterious",
        "{[n,ii,jj] -> [i,j] : 0<=n<NNZ && ii=row(n) && jj=col(n) && i=ii && j=jj && 0<=n+salt(n)}",
        "{[n,ii,jj] -> [n]}",
        index("row", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        index("salt", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<9}"),
        places="NNZ",
        order=("i", "j"),
        is_unique=False,
        invariants=("forall n: 0<=n<NNZ-1 => salt(n)+row(n)<=salt(n+1)+row(n+1)",),
    )


def test_a_failed_synthesis_names_the_array_and_what_is_said_of_it() -> None:
    found = explain("csr", mysterious())
    assert found.conversion is None
    assert found.failure is not None
    text = str(found)
    assert repr(found) == text
    assert "no conversion was found:" in text
    assert "salt' does not follow from the entries" in text
    assert "salt(n)+row(n)<=salt(n+1)+row(n+1)" in text
    with pytest.raises(UsageError, match="salt"):
        convert(np.eye(3), mysterious())


def test_a_tensor_is_explained_as_what_it_is() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    shuffled = sparse.coo_array(([1.0, 2.0], ([1, 0], [0, 1])), shape=(2, 2))
    assert "order: any" in str(explain(shuffled, "csr"))
    ordered = sparse.coo_array(([1.0, 2.0], ([0, 1], [1, 0])), shape=(2, 2))
    assert "values" in explain(ordered, "csr").shared
