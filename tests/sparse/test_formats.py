"""Every built-in format means what its slow builder stores, for all small patterns and others."""

import gc
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.diagnostics import UsageError
from loopwright.sparse.format import Format, declare, index
from loopwright.sparse.formats import BUILT_IN, find
from loopwright.sparse.formats.canonical_formats import is_verified
from loopwright.sparse.invariants import facts_of
from loopwright.sparse.matrix_market import read
from sparse_builders import build, of_dense

MATRICES = (
    "coo",
    "scoo",
    "mcoo2",
    "csr",
    "csr_unsorted",
    "csc",
    "dia",
    "ell(row)",
    "ell(column)",
    "bcsr(2,2)",
    "bcsr(3,2)",
    "dcsr",
    "lil",
    "csf",
    "hicoo(2)",
    "hicoo(128)",
    "alto",
    "sell(2,2)",
    "sell(2,3)",
    "sell(32,128)",
)
TENSORS = ("coo", "scoo", "mcoo3", "csf", "hicoo(2)", "alto")


def test_every_built_in_format_is_tested() -> None:
    tested = {name.split("(")[0] for name in (*MATRICES, *TENSORS)}
    assert tested == set(BUILT_IN)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("format", MATRICES)
def test_patterns_of_two_by_three(format: str) -> None:
    for bits in list(itertools.product((0, 1), repeat=6))[::3]:
        array = np.reshape(bits, (2, 3)) * np.arange(1.0, 7.0).reshape(2, 3)
        tensor = of_dense(format, array).check()
        assert tensor.to_dense().tolist() == array.tolist()


@pytest.mark.drawn(4)
@pytest.mark.parametrize("format", MATRICES)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (9, 4)])
def test_shapes(format: str, shape: tuple[int, int]) -> None:
    random = np.random.default_rng(7)
    for density in (0.0, 0.3):
        array = (random.random(shape) < density) * random.integers(1, 100, shape)
        tensor = of_dense(format, array).check()
        assert tensor.to_dense().tolist() == array.tolist()
        assert tensor.dtype == array.dtype


@pytest.mark.drawn(3)
@pytest.mark.parametrize("format", TENSORS)
@settings(max_examples=15)
@given(st.data())
def test_tensors_of_three_dimensions(format: str, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=3, max_size=3)))
    at = st.tuples(*(st.integers(0, size - 1) for size in shape))
    entries = data.draw(st.lists(st.tuples(at, st.integers(-5, 5))))
    expected = np.zeros(shape)
    for place, value in entries:
        expected[place] += value
    tensor = build(format, shape, entries).check()
    assert tensor.to_dense().tolist() == expected.tolist()


@pytest.mark.parametrize("rank", [2, 4, 5])
def test_other_ranks(rank: int) -> None:
    random = np.random.default_rng(rank)
    array = (random.random((3,) * rank) < 0.2) * random.integers(1, 9, (3,) * rank)
    for format in ("coo", "scoo", "csf", "alto"):
        assert of_dense(format, array).check().to_dense().tolist() == array.tolist()


def test_repeated_coordinates_mean_their_sum() -> None:
    entries = [((0, 1), 1.0), ((1, 0), 2.0), ((0, 1), 4.0)]
    for format in ("coo", "scoo", "csr_unsorted"):
        tensor = build(format, (2, 2), entries).check()
        assert tensor.nnz == 3
        assert tensor.to_dense().tolist() == [[0, 5], [2, 0]]


def test_explicit_zeros_are_stored() -> None:
    for format in ("coo", "csr", "csc", "ell(row)", "csf", "sell(2,2)"):
        tensor = build(format, (2, 2), [((0, 1), 0.0), ((1, 1), 3.0)]).check()
        assert tensor.nnz == 2


def test_a_real_matrix_in_every_format(matrices: Path) -> None:
    found = read(matrices / "west0479.mtx.gz")
    rows, columns = (found.arrays[name].tolist() for name in ("row", "col"))
    entries = list(zip(zip(rows, columns, strict=True), found.values.tolist(), strict=True))
    dense = found.to_dense()
    for format in MATRICES:
        assert np.array_equal(build(format, found.shape, entries).check().to_dense(), dense)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_names_are_found_again(name: str) -> None:
    family = BUILT_IN[name]
    for rank in family.ranks[:4]:
        for text in (name, family.example):
            found = find(text, rank)
            assert find(found.name, rank) is find(found.name, rank)
            assert find(found.name, rank) == found
            assert find(found, rank) is found
            assert found.rank == rank
            assert len(facts_of(found).functions) == len(found.indices)


def test_csr_is_told_in_full() -> None:
    assert str(find("csr")) == (
        "csr: {[ii,k,jj] -> [i,j] : i = ii && j = jj && jj = col(k) && ii < NR && ii >= 0 && "
        "j < NC && j >= 0 && k < NNZ && k < rowptr(ii+1) && k >= 0 && k >= rowptr(ii)}\n"
        "  values: {[ii,k,jj] -> [k_1] : k = k_1}, NNZ places\n"
        "  rowptr: {[x] : x <= NR && x >= 0} -> {[y] : y <= NNZ && y >= 0}: increasing\n"
        "  col: {[x] : x < NNZ && x >= 0} -> {[y] : y < NC && y >= 0}\n"
        "  rowptr(0) = 0\n"
        "  rowptr(NR) = NNZ\n"
        "  forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)\n"
        "  order: i, j"
    )


@pytest.mark.parametrize(
    ("text", "rank", "told"),
    [
        ("crs", 2, "unknown format 'crs'\ntry: one of coo, scoo, mcoo2"),
        ("csr(", 2, "unknown format 'csr('"),
        (
            "csr",
            3,
            "the format csr holds tensors of 2 dimensions, not 3\ntry: for 3",
        ),
        (
            "csr(3)",
            2,
            "wrong parameters for the format csr\nnote: found csr(3)\ntry: write",
        ),
        ("bcsr(0,2)", 2, "bcsr: the sides of a block are whole numbers from 1 to 2147483647"),
        ("bcsr(a)", 2, "bcsr: the sides of a block are whole numbers from 1 to 2147483647"),
        ("hicoo(3)", 3, "hicoo: the side of a block is a power of two"),
        ("hicoo(1)", 3, "hicoo: the side of a block is a power of two, from 2 on"),
        ("sell(4294967296,1)", 2, "sell: the rows of a slice and of a window are whole numbers"),
        ("ell(diagonal)", 2, "ell: unknown layout 'diagonal'"),
        ("sell(0,1)", 2, "sell: the rows of a slice and of a window are whole numbers from 1"),
    ],
)
def test_unknown_names(text: str, rank: int, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        find(text, rank)
    assert str(caught.value).startswith(told)


def upper() -> Format:
    """A format of one's own: the rows of an upper triangle behind each other, all places stored."""
    return declare(
        "upper",
        "{[ii,w,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && 0<=w<NC-ii && jj=ii+w}",
        "{[ii,w,jj] -> [p] : p=start(ii)+w}",
        index("start", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NP}", monotone="increasing"),
        places="NP",
        order=("i", "j"),
        invariants=("start(0)=0", "forall x: 0<=x<NR && x<NC => start(x+1)=start(x)+NC-x"),
    )


def test_a_format_of_ones_own() -> None:
    from loopwright.sparse.tensor import sparse_tensor

    tensor = sparse_tensor(upper(), (3, 3), {"start": [0, 3, 5, 6]}, np.arange(1, 7)).check()
    assert tensor.to_dense().tolist() == [[1, 2, 3], [0, 4, 5], [0, 0, 6]]
    with pytest.raises(UsageError, match=r"an invariant is violated: forall x: 0<=x<NR"):
        sparse_tensor(upper(), (3, 3), {"start": [0, 3, 4, 6]}, np.arange(1, 7)).check()


MAP = "{[n,ii] -> [i] : i=ii && 0<=n<NNZ && ii=f(n) && 0<=i<NR}"
ACCESS = "{[n,ii] -> [n]}"


def test_faulty_declarations() -> None:
    f = index("f", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}")
    with pytest.raises(UsageError, match="format a: the function f is not declared"):
        declare("a", MAP, ACCESS, places="NNZ")
    with pytest.raises(UsageError, match="format a: an index array is declared twice"):
        declare("a", MAP, ACCESS, f, f, places="NNZ")
    with pytest.raises(UsageError, match="the access must take the tuple of the map to one place"):
        declare("a", MAP, "{[n] -> [n]}", f, places="NNZ")
    with pytest.raises(UsageError, match="1 dense coordinates need as many sizes"):
        declare("a", MAP, ACCESS, f, places="NNZ", sizes=("NR", "NC"))
    with pytest.raises(UsageError, match=r"format a: f\(n,n\) has 2 arguments"):
        declare("a", MAP.replace("f(n)", "f(n,n)"), ACCESS, f, places="NNZ")
    with pytest.raises(UsageError, match="the extent of its array along w does not follow"):
        index("g", "{[x,w] : 0<=x<NR && 0<=w<f(x)}", "{[y] : 0<=y<NR}")
    with pytest.raises(UsageError, match="index array g: unknown monotone 'up'"):
        index("g", "{[x] : 0<=x<NR}", "{[y] : 0<=y<NR}", monotone="up")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="index array g: unknown dtype 'float64'"):
        index("g", "{[x] : 0<=x<NR}", "{[y] : 0<=y<NR}", dtype="float64")
    with pytest.raises(UsageError, match="its range has one variable"):
        index("g", "{[x] : 0<=x<NR}", "{[y,z] : 0<=y<NR}")
    with pytest.raises(UsageError, match="index array g: uint8 cannot hold the pad -1"):
        index("g", "{[x] : 0<=x<NR}", "{[y] : 0<=y<NR}", dtype="uint8", pad=-1)
    with pytest.raises(UsageError, match="format a: the order names q, no coordinate and no size"):
        declare("a", MAP, ACCESS, f, places="NNZ", order=("i", "q"))


def test_formats_that_are_not_used_any_more_go() -> None:
    """Caches hold the latest: a format has hundreds of objects, 100 KB with what is derived."""

    def alive() -> int:
        gc.collect()
        return sum(isinstance(found, Format) for found in gc.get_objects())

    before = alive()
    for rows in range(1, 21):
        for columns in range(1, 5):
            assert is_verified(find(f"bcsr({rows},{columns})"))
    assert alive() - before <= 64
