"""Executors against NumPy on dense arrays: formats, semirings, types, shapes, faulty calls."""

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import loopwright as lw
from drawn import combined, in_all, some
from loopwright.diagnostics import DtypeError, UsageError
from loopwright.ir.dtypes import dtype_of
from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.executors import kernel_code, kernel_plan
from loopwright.sparse.executors.interior_rows import RowBound, find_interior_ranges
from loopwright.sparse.executors.sparse_einsum import (
    compile_kernel,
    einsum,
    mttkrp,
    sddmm,
    spmv,
    ttm,
)
from loopwright.sparse.formats import find
from loopwright.sparse.tensor import SparseTensor
from loopwright.sparse.uf import Term, parse_linear
from sparse.synthesis.pairs import FORMATS_2D
from sparse_builders import of_dense

FORMATS_3D = ("coo", "csf", "hicoo(4)")
PLUS = {"add": np.add, "min": np.minimum, "max": np.maximum, "or": np.bitwise_or}
PLUS["xor"] = np.bitwise_xor
TIMES = {"mul": np.multiply, "add": np.add, "min": np.minimum, "max": np.maximum}
TIMES["and"] = np.bitwise_and


def pattern(shape: tuple[int, ...], seed: int, density: float = 0.4) -> NDArray[Any]:
    """Whole numbers, small enough that sums are exact, with rows and columns that are empty."""
    random = np.random.default_rng(seed)
    array = random.integers(1, 9, shape) * (random.random(shape) < density)
    array[random.integers(0, shape[0])] = 0
    return array


def product(dense: NDArray[Any], x: NDArray[Any], ring: str) -> NDArray[Any]:
    """y[i] = plus over the stored j of A[i, j] times x[j], one by one."""
    laws = lw.semirings.semiring(ring)
    assert isinstance(laws.plus, str)
    assert isinstance(laws.times, str)
    dtype = np.result_type(dense, x)
    out = np.full(dense.shape[0], laws.zero(dtype_of(dtype)), dtype)
    with np.errstate(all="ignore"):
        for i, j in np.argwhere(dense):
            term = TIMES[laws.times](dense[i, j].astype(dtype), x[j].astype(dtype))
            out[i] = PLUS[laws.plus](out[i], term)
    return out


# What is drawn: the format, the semiring, the dtypes of matrix and vector, the shape, how many
# entries there are, how the vector lies in memory, the threads. Threads share out large ones only.
RINGS = tuple(lw.semirings.SEMIRINGS)
LAYOUTS: tuple[Callable[[Any], Any], ...] = (lambda x: x, lambda x: np.repeat(x, 2)[::2])


@settings(max_examples=max(60, settings().max_examples) if in_all() else 12, deadline=None)
@given(
    st.sampled_from(FORMATS_2D),
    st.sampled_from(("plus_times", "plus_times", "min_plus", *RINGS)),
    st.sampled_from((("f8", "f8"), ("i8", "i8"), ("f4", "f4"), ("i4", "f8"), ("?", "?"))),
    st.tuples(st.sampled_from((0, 1, 2, 7, 40)), st.sampled_from((1, 2, 9, 64))),
    st.sampled_from((0.0, 0.1, 0.5, 1.0)),
    st.sampled_from(LAYOUTS),
    st.integers(0, 2**32 - 1),
)
def test_products(
    format: str,
    ring: str,
    dtypes: tuple[str, str],
    shape: tuple[int, int],
    density: float,
    layout: Callable[[Any], Any],
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    dense = (random.integers(1, 9, shape) * (random.random(shape) < density)).astype(dtypes[0])
    x = layout(random.integers(1, 9, shape[1]).astype(dtypes[1]))
    tensor = of_dense(format, dense)
    before = [a.copy() for a in (*tensor.arrays.values(), tensor.values, x)]
    try:
        found = spmv(tensor, x, semiring=ring)
    except DtypeError:  # a semiring of truth values or bits takes no others
        reject()
    expected = product(dense, x, ring)
    assert found.dtype == expected.dtype
    for _ in range(2):  # the second call repeats the launch of the first
        np.testing.assert_array_equal(spmv(tensor, x, semiring=ring), expected)
    for old, new in zip(before, (*tensor.arrays.values(), tensor.values, x), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.drawn(9)
@pytest.mark.parametrize(
    ("format", "threads"),
    combined(["csr", "dia", "bcsr(3,3)", "bcsr(7,2)", "csc", "dcsr", "sell"], [2, 1], one_in=2),
)
def test_threads(format: str, threads: int) -> None:
    """A matrix with enough entries for a team of threads; a band, empty rows and a long one."""
    count = 6000
    dense = sum(np.eye(count, k=o, dtype=np.float32) * (o + 401) for o in (-300, -1, 0, 1, 2, 700))
    dense[63:70] = 0.0
    dense[64] = 2.0
    x = np.random.default_rng(14).integers(0, 9, count).astype(np.float32)
    tensor = convert_tensor(lw.sparse.from_dense(dense), find(format))
    np.testing.assert_array_equal(spmv(tensor, x, threads=threads), dense @ x)


@pytest.mark.parametrize("name", ["csr", "csc", "coo", "bsr", "dia", "lil"])
def test_operands_of_scipy(name: str) -> None:
    """Values may change, and other arrays may take the place of the first."""
    matrix = pytest.importorskip("scipy.sparse").csr_array(pattern((6, 9), 15) * 1.0).asformat(name)
    x = np.arange(9.0)
    wanted = matrix.toarray() @ x
    np.testing.assert_array_equal(spmv(matrix, x), wanted)
    if name != "lil":
        matrix.data *= 2
        np.testing.assert_array_equal(spmv(matrix, x), 2 * wanted)
        matrix.data = matrix.data * 2
        np.testing.assert_array_equal(spmv(matrix, x), 4 * wanted)


@pytest.mark.drawn(6)
@pytest.mark.parametrize(
    ("text", "format"),
    combined(
        ["ij->", "ij->j", "ij->ji", "ij,jk->ki", "ij,jk->", "ij,k->ik", "ij,i,j->"],
        ["csr", "bcsr(2,3)"],
        one_in=2,
    ),
)
def test_any_einsum(text: str, format: str) -> None:
    sizes = {"i": 6, "j": 9, "k": 4}
    dense = pattern((6, 9), 6).astype(np.float64)
    random = np.random.default_rng(7)
    terms = text.split("->")[0].split(",")[1:]
    others = [random.random(tuple(sizes[c] for c in term)) for term in terms]
    found = einsum(text, of_dense(format, dense), *others)
    np.testing.assert_allclose(found, np.einsum(text, dense, *others), rtol=1e-12)


@pytest.mark.parametrize("format", ["csr", "coo"])
def test_the_sparse_operand_may_stand_anywhere(format: str) -> None:
    dense = pattern((6, 6), 8).astype(np.float64)
    tensor = of_dense(format, dense)
    x, y = np.random.default_rng(9).random((2, 6))
    np.testing.assert_allclose(einsum("i,ij,j->", x, tensor, y), x @ dense @ y)
    np.testing.assert_allclose(einsum("ii->i", tensor), np.diag(dense))
    np.testing.assert_allclose(einsum("ii", tensor), np.trace(dense))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("format", FORMATS_3D)
def test_tensors(format: str) -> None:
    dense = pattern((4, 5, 6), 10, 0.2).astype(np.float64)
    tensor = of_dense(format, dense)
    random = np.random.default_rng(11)
    factors = [random.random((n, 3)) for n in dense.shape]
    expected = np.einsum("ijk,jr,kr->ir", dense, factors[1], factors[2])
    np.testing.assert_allclose(mttkrp(tensor, [None, *factors[1:]], 0), expected)
    expected = np.einsum("ijk,ir,kr->jr", dense, factors[0], factors[2])
    np.testing.assert_allclose(mttkrp(tensor, factors, 1), expected)
    matrix = random.random((2, 5))
    np.testing.assert_allclose(ttm(tensor, matrix, 1), np.einsum("ijk,rj->irk", dense, matrix))


@pytest.mark.drawn(6)
@pytest.mark.parametrize("format", ["coo", "csr", "csc", "dia", "ell(row)", "bcsr(2,3)", "alto"])
def test_sampled_products(format: str) -> None:
    dense = pattern((6, 9), 12).astype(np.float64)
    tensor = of_dense(format, dense)
    random = np.random.default_rng(13)
    left, right = random.random((6, 4)), random.random((4, 9))
    found = sddmm(tensor, left, right).check()
    assert found.format == tensor.format
    np.testing.assert_allclose(found.to_dense(), dense * (left @ right))


def test_slices_are_shared_out_only_by_a_permutation() -> None:
    tensor = of_dense("sell(2,4)", pattern((8, 9), 33).astype(np.float64))
    assert "parallel for" in compile_kernel("ij,j->i", tensor, np.ones(9)).inspect()
    arrays = dict(tensor.arrays)
    arrays["perm"] = np.array([0, 0, *arrays["perm"][2:]], arrays["perm"].dtype)
    broken = SparseTensor(tensor.format, tensor.shape, arrays, tensor.symbols, tensor.values)
    with pytest.raises(UsageError, match="perm"):
        spmv(broken, np.ones(9))


def test_sums_keep_the_order_of_the_storage() -> None:
    """Products are added one by one from the left; a product and a sum may be rounded once."""
    random = np.random.default_rng(5)
    values, x = random.normal(size=(2, 37)) * 10.0 ** random.integers(-9, 9, (2, 37))
    x = 2.0 ** random.integers(-9, 9, 37)  # products are exact: both roundings agree
    total = 0.0
    for value, factor in zip(values, x, strict=True):
        total += value * factor
    assert spmv(of_dense("csr", values.reshape(1, -1)), x)[0] == total


@settings(max_examples=some(30), deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.sets(st.integers(-39, 39), min_size=1, max_size=5),
)
def test_stretches_have_exactly_their_steps(rows: int, columns: int, wished: set[int]) -> None:
    offsets = np.array(sorted(o for o in wished if -rows < o < columns), np.int32)
    if not len(offsets):
        return
    low = RowBound(True, "off", 1, Term.of(0))
    high = RowBound(False, "off", -1, parse_linear("NC-1", ()))
    found = find_interior_ranges((low, high), {"off": offsets}, {"NC": columns}, rows)
    for one, following in itertools.pairwise(found):
        assert one.stop == following.start
    for stretch in found:
        assert 0 <= stretch.start <= stretch.stop <= rows
        for row in range(stretch.start, stretch.stop):
            inside = np.flatnonzero((row + offsets >= 0) & (row + offsets < columns))
            assert inside.tolist() == list(range(stretch.first, stretch.last))


def test_a_kernel_of_an_earlier_process_needs_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """What code must know is on disk beside it."""
    dense, x = pattern((9, 8), 31).astype(np.float64), np.arange(8.0)
    for format in ("csr", "dia"):
        expected = spmv(of_dense(format, dense), x)
        kernel_code.code_of.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(kernel_plan, "plan", lambda _: pytest.fail("planned anew"))
            np.testing.assert_array_equal(spmv(of_dense(format, dense), x), expected)


def test_repeated_calls_of_several_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call laid out like an earlier one goes straight to its code."""
    dense = pattern((6, 9), 32).astype(np.float64)
    tensor = of_dense("csr", dense)
    x, y = np.arange(1.0, 7), np.arange(1.0, 10)
    left, right = np.ones((6, 3)), np.ones((3, 9))
    first = einsum("i,ij,j->", x, tensor, y), sddmm(tensor, left, right).values
    monkeypatch.setattr(sys.modules[einsum.__module__], "compile_kernel", None)
    assert einsum("i,ij,j->", x, tensor, y) == first[0] == x @ dense @ y
    assert einsum("i,ij,j->", 2 * x, tensor, y) == 2 * first[0]
    np.testing.assert_array_equal(sddmm(tensor, left, right).values, first[1])


def test_a_semiring_of_ones_own() -> None:
    ring = lw.semirings.make_semiring(
        "or_else", lambda x, y: lw.semirings.maximum(x, y), "mul", 0, 1, samples=[0, 1, 2, 5]
    )
    dense = pattern((6, 9), 19).astype(np.float64)
    x = np.arange(9.0)
    found = spmv(of_dense("dia", dense), x, semiring=ring)
    np.testing.assert_array_equal(found, (dense * x).max(axis=1))


def test_faulty_calls_are_told() -> None:
    tensor = of_dense("csr", np.eye(3))
    with pytest.raises(UsageError, match="index 'j' has two sizes"):
        spmv(tensor, np.ones(4))
    with pytest.raises(UsageError, match="exactly one sparse operand"):
        einsum("ij,jk->ik", tensor, tensor)
    with pytest.raises(UsageError, match="exactly one sparse operand"):
        einsum("ij,j->i", np.eye(3), np.ones(3))
    with pytest.raises(UsageError, match="operand 2 has 2 dimensions"):
        spmv(tensor, np.ones((3, 1)))
    with pytest.raises(UsageError, match="no semiring is named"):
        spmv(tensor, np.ones(3), semiring="plus_tims")
    with pytest.raises(DtypeError, match="does not take"):
        spmv(of_dense("csr", np.eye(3).astype(complex)), np.ones(3), semiring="min_plus")
    with pytest.raises(UsageError, match="threads must be a whole number"):
        spmv(tensor, np.ones(3), threads=0)
    with pytest.raises(UsageError, match="no dimension 2"):
        ttm(tensor, np.ones((2, 3)), 2)
    with pytest.raises(UsageError, match="a matrix for each dimension"):
        mttkrp(tensor, [np.ones((3, 2))], 0)
    with pytest.raises(UsageError, match="cannot hold the value 0 as an entry"):
        sddmm(
            of_dense("dia", np.eye(3)), np.ones((3, 1)), np.full((1, 3), -2.0), semiring="max_plus"
        )


def test_code_is_named_by_what_operators_compute() -> None:
    """Not by where a process happens to keep them: names last on disk."""
    tensor = lw.sparse.from_dense(np.eye(3))

    def key(times: Callable[[Any, Any], Any]) -> str:
        ring = lw.semirings.make_semiring("mine", "add", times, zero=0, one=1, check=False)
        return compile_kernel("ij,j->i", tensor, np.ones(3), semiring=ring).executor._code.key

    assert key(lambda x, y: x * y * 2) == key(lambda x, y: x * y * 2)
    assert key(lambda x, y: x * y * 2) != key(lambda x, y: x * y * 3)
    assert "0x" not in key(lambda x, y: x * y * 2)
