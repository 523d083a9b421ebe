"""Executors against NumPy on dense arrays: formats, semirings, types, shapes, faulty calls."""

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import loopwright as lw
from drawn import combined, in_all, some
from loopwright.diagnostics import DtypeError, UsageError
from loopwright.ir.dtypes import dtype_of
from loopwright.sparse.bridge import from_scipy
from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.executors import kernel_code, kernel_plan
from loopwright.sparse.executors.interior_rows import RowBound, find_interior_ranges
from loopwright.sparse.executors.sparse_einsum import (
    compile_kernel,
    einsum,
    mttkrp,
    sddmm,
    spmm,
    spmv,
    ttm,
)
from loopwright.sparse.formats import find
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from loopwright.sparse.uf import Term, parse_linear
from sparse_builders import build, of_dense

FORMATS = (
    "coo",
    "scoo",
    "mcoo2",
    "csr",
    "csr_unsorted",
    "csc",
    "dia",
    "ell(row)",
    "ell(column)",
    "bcsr(2,3)",
    "dcsr",
    "lil",
    "csf",
    "hicoo(4)",
    "alto",
    "sell(2,4)",
)
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


@pytest.mark.drawn(10)
@pytest.mark.parametrize("format", FORMATS)
def test_products_in_every_format(format: str) -> None:
    dense = pattern((7, 10), 1).astype(np.float64)
    tensor = of_dense(format, dense)
    random = np.random.default_rng(2)
    x, right = random.random(10), random.random((10, 3))
    for _ in range(2):  # the second call repeats the launch of the first
        np.testing.assert_allclose(spmv(tensor, x), dense @ x)
        np.testing.assert_allclose(spmm(tensor, right), dense @ right)


@pytest.mark.drawn(6)
@pytest.mark.parametrize(
    ("format", "ring"), combined(["csr", "dia"], lw.semirings.SEMIRINGS, one_in=2)
)
def test_semirings(format: str, ring: str) -> None:
    dense = pattern((6, 9), 3).astype(np.int64)
    x = np.random.default_rng(4).integers(1, 9, 9)
    expected = product(dense, x, ring)
    np.testing.assert_array_equal(spmv(of_dense(format, dense), x, semiring=ring), expected)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float32", "complex64"])
@pytest.mark.parametrize("format", ["csr"])
def test_types(format: str, dtype: str) -> None:
    dense = pattern((5, 6), 5).astype(dtype)
    x = np.arange(6).astype(dtype)
    found = spmv(of_dense(format, dense), x)
    expected = np.einsum("ij,j->i", dense, x)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_types_mix() -> None:
    dense = pattern((5, 6), 5).astype(np.int32)
    found = spmv(of_dense("csr", dense), np.linspace(0, 1, 6))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, dense @ np.linspace(0, 1, 6))


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


@pytest.mark.drawn(6)
@pytest.mark.parametrize("format", ["coo", "csr", "dia", "bcsr(2,3)", "ell(row)"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 4), (0, 3), (3, 0)])
@pytest.mark.parametrize("is_empty", [True, False])
def test_small_shapes(format: str, shape: tuple[int, int], is_empty: bool) -> None:
    dense = np.zeros(shape) if is_empty else np.ones(shape)
    if dense.size == 0 and format != "csr":
        pytest.skip("one format is enough for arrays without elements")
    tensor = of_dense(format, dense)
    x = np.arange(1.0, shape[1] + 1)
    np.testing.assert_array_equal(spmv(tensor, x), dense @ x)


def test_repeated_entries_and_explicit_zeros() -> None:
    entries = [((0, 1), 2.0), ((2, 0), 0.0), ((0, 1), 3.0), ((1, 1), 0.0)]
    for format in ("coo", "scoo", "csr_unsorted"):
        tensor = build(format, (3, 2), entries)
        x = np.array([7.0, 10.0])
        assert spmv(tensor, x).tolist() == [50.0, 0.0, 0.0]
        assert spmv(tensor, x, semiring="min_plus").tolist() == [12.0, 10.0, 7.0]


@settings(max_examples=max(20, settings().max_examples) if in_all() else 6, deadline=None)
@given(
    st.sampled_from(["coo", "csr", "csc", "bcsr(2,3)", "ell(column)", "sell(2,4)"]),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["plus_times", "min_plus"]),
)
def test_random_matrices(format: str, rows: int, columns: int, seed: int, ring: str) -> None:
    random = np.random.default_rng(seed)
    dense = random.integers(1, 9, (rows, columns)) * (random.random((rows, columns)) < 0.5)
    x = random.integers(0, 9, columns)
    expected = product(dense, x, ring)
    np.testing.assert_array_equal(spmv(of_dense(format, dense), x, semiring=ring), expected)


def big_matrix(format: str) -> tuple[SparseTensor, NDArray[Any], NDArray[Any]]:
    """A matrix with enough entries for a team of threads, its vector and the product."""
    scipy = pytest.importorskip("scipy.sparse")
    count = 6000
    offsets = (-300, -1, 0, 1, 2, 700)
    random = np.random.default_rng(14)
    matrix = scipy.diags_array(
        [random.integers(1, 9, count - abs(o)).astype(float) for o in offsets], offsets=offsets
    )
    sparse = convert_tensor(from_scipy(matrix.tocsr()), find(format))
    x = random.integers(0, 9, count).astype(float)
    return sparse, x, matrix @ x


@pytest.mark.drawn(9)
@pytest.mark.parametrize(
    ("format", "threads"),
    combined(["csr", "dia", "bcsr(3,3)", "bcsr(7,2)", "csc", "dcsr", "sell"], [2, 1], one_in=2),
)
def test_threads(format: str, threads: int) -> None:
    tensor, x, expected = big_matrix(format)
    np.testing.assert_array_equal(spmv(tensor, x, threads=threads), expected)


def test_slices_are_shared_out_only_by_a_permutation() -> None:
    tensor = of_dense("sell(2,4)", pattern((8, 9), 33).astype(np.float64))
    assert "parallel for" in compile_kernel("ij,j->i", tensor, np.ones(9)).inspect()
    arrays = dict(tensor.arrays)
    arrays["perm"] = np.array([0, 0, *arrays["perm"][2:]], arrays["perm"].dtype)
    broken = SparseTensor(tensor.format, tensor.shape, arrays, tensor.symbols, tensor.values)
    with pytest.raises(UsageError, match="perm"):
        spmv(broken, np.ones(9))


def test_rows_of_any_length() -> None:
    """More rows than a block of them, empty ones, and one that is much longer than the others."""
    dense = pattern((300, 40), 20, 0.05).astype(np.float64)
    dense[[63, 64, 200]] = [[0.0], [1.0], [2.0]]
    x = np.arange(40.0)
    for format in ("csr", "csr_unsorted", "dcsr"):
        np.testing.assert_array_equal(spmv(of_dense(format, dense), x), dense @ x)


def test_rows_of_every_length() -> None:
    """Entries are taken eight at a time, and the rest of a row in halves."""
    dense = np.zeros((40, 40))
    for i in range(40):
        dense[i, :i] = 1 + np.arange(i)
    tensor = of_dense("csr", dense[np.random.default_rng(1).permutation(40)])
    x = np.arange(40.0)
    np.testing.assert_array_equal(spmv(tensor, x), tensor.to_dense() @ x)
    text = compile_kernel("ij,j->i", tensor, x).inspect()
    assert "for A_k in range(at[], int64(uint32(A_rowptr[A_ii + 1])) - 7, 8):" in text
    assert "if (int64(uint32(A_rowptr[A_ii + 1])) - at[]) % 4 >= 2:" in text
    assert "branch_weights" in compile_kernel("ij,j->i", tensor, x).inspect("llvm")


def test_sums_keep_the_order_of_the_storage() -> None:
    """Products are added one by one from the left; a product and a sum may be rounded once."""
    random = np.random.default_rng(5)
    values, x = random.normal(size=(2, 37)) * 10.0 ** random.integers(-9, 9, (2, 37))
    x = 2.0 ** random.integers(-9, 9, 37)  # products are exact: both roundings agree
    total = 0.0
    for value, factor in zip(values, x, strict=True):
        total += value * factor
    assert spmv(of_dense("csr", values.reshape(1, -1)), x)[0] == total


@pytest.mark.drawn(4)
@pytest.mark.parametrize("offsets", [(-5, 0, 4), (-1, 0, 1), (0,), (3,), (-6,)])
def test_diagonals_with_and_without_an_interior(offsets: tuple[int, ...]) -> None:
    for rows, columns in ((7, 7), (7, 5), (4, 9)):
        dense = np.zeros((rows, columns))
        for offset in offsets:
            for i in range(max(0, -offset), min(rows, columns - offset)):
                dense[i, i + offset] = 1 + i
        x = np.arange(1.0, columns + 1)
        np.testing.assert_array_equal(spmv(of_dense("dia", dense), x), dense @ x)


def test_diagonals_that_never_meet_in_a_row() -> None:
    """No row has all of them; rows are cut into stretches in which the same ones exist."""
    size, dense = 48, np.zeros((48, 48))
    for offset in (-32, -16, -1, 0, 1, 16, 32):
        dense += np.diag(np.arange(1.0, size - abs(offset) + 1), offset)
    tensor, x = of_dense("dia", dense), np.arange(1.0, size + 1)
    np.testing.assert_array_equal(spmv(tensor, x), dense @ x)
    kernel = compile_kernel("ij,j->i", tensor, x)
    assert "CUT3" in kernel.inspect()
    assert "for A_d in range(2, 7):" in kernel.inspect()
    others = of_dense("dia", np.diag(np.ones(48)) + np.diag(np.ones(47), -1))
    assert "CUT2" not in compile_kernel("ij,j->i", others, x).inspect()


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


def test_operands_of_scipy() -> None:
    scipy = pytest.importorskip("scipy.sparse")
    dense = pattern((6, 9), 15).astype(np.float64)
    x = np.arange(9.0)
    for name in ("csr", "csc", "coo", "bsr", "dia", "lil"):
        matrix = scipy.csr_array(dense).asformat(name)
        np.testing.assert_array_equal(spmv(matrix, x), dense @ x)
        matrix = matrix.tocsr() if name in ("lil", "dia") else matrix
        np.testing.assert_array_equal(spmv(matrix, x), dense @ x)
        matrix.data *= 2  # values may change, and other arrays may take the place of the first
        np.testing.assert_array_equal(spmv(matrix, x), 2 * dense @ x)
        matrix.data = matrix.data * 2
        np.testing.assert_array_equal(spmv(matrix, x), 4 * dense @ x)


def test_a_dia_of_scipy_is_read_anew() -> None:
    scipy = pytest.importorskip("scipy.sparse")
    matrix = scipy.dia_array((np.ones((1, 3)), [0]), shape=(3, 3))
    assert spmv(matrix, np.ones(3)).tolist() == [1.0, 1.0, 1.0]
    matrix.data *= 5
    assert spmv(matrix, np.ones(3)).tolist() == [5.0, 5.0, 5.0]


@pytest.mark.parametrize("make", [np.asfortranarray, lambda a: np.repeat(a, 2, 1)[:, ::2]])
def test_strides(make: Any) -> None:
    dense = pattern((6, 9), 16).astype(np.float64)
    x = np.random.default_rng(17).random((9, 5))
    tensor = of_dense("csr", dense)
    np.testing.assert_allclose(spmm(tensor, make(x)), dense @ x)
    np.testing.assert_allclose(spmv(tensor, make(x)[:, 1]), dense @ x[:, 1])
    np.testing.assert_allclose(
        einsum("ij,jk->ik", tensor, np.ones((1, 2))), dense @ np.ones((9, 2))
    )


def test_operands_stay_as_they_are() -> None:
    dense = pattern((6, 9), 18).astype(np.float64)
    tensor = of_dense("csr", dense)
    x = np.arange(9.0)
    before = [a.copy() for a in (*tensor.arrays.values(), tensor.values, x)]
    first = spmv(tensor, x)
    second = spmv(tensor, x)
    assert first is not second
    for old, new in zip(before, (*tensor.arrays.values(), tensor.values, x), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_semiring_of_ones_own() -> None:
    ring = lw.semirings.make_semiring(
        "or_else", lambda x, y: lw.semirings.maximum(x, y), "mul", 0, 1, samples=[0, 1, 2, 5]
    )
    dense = pattern((6, 9), 19).astype(np.float64)
    x = np.arange(9.0)
    found = spmv(of_dense("dia", dense), x, semiring=ring)
    np.testing.assert_array_equal(found, (dense * x).max(axis=1))


def test_texts_of_stages() -> None:
    tensor = of_dense("csr", np.eye(3))
    kernel = compile_kernel("ij,j->i", tensor, np.ones(3))
    assert "for A_k in range(at[], int64(uint32(A_rowptr[A_ii + 1])) - 7, 8):" in kernel.inspect()
    assert "define" in kernel.inspect("llvm")


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


def test_indices_that_leave_their_range_are_refused() -> None:
    arrays = {"rowptr": np.array([0, 1, 2], np.int32), "col": np.array([0, 5], np.int32)}
    tensor = sparse_tensor("csr", (2, 3), arrays, np.ones(2))
    with pytest.raises(UsageError, match="col"):
        spmv(tensor, np.ones(3))
    arrays = {"rowptr": np.array([0, 9, 2], np.int32), "col": np.array([0, 1], np.int32)}
    tensor = sparse_tensor("csr", (2, 3), arrays, np.ones(2))
    with pytest.raises(UsageError, match="rowptr"):
        spmv(tensor, np.ones(3))


def test_code_is_named_by_what_operators_compute() -> None:
    """Not by where a process happens to keep them: names last on disk."""
    tensor = lw.sparse.from_dense(np.eye(3))

    def key(times: Callable[[Any, Any], Any]) -> str:
        ring = lw.semirings.make_semiring("mine", "add", times, zero=0, one=1, check=False)
        return compile_kernel("ij,j->i", tensor, np.ones(3), semiring=ring).executor._code.key

    assert key(lambda x, y: x * y * 2) == key(lambda x, y: x * y * 2)
    assert key(lambda x, y: x * y * 2) != key(lambda x, y: x * y * 3)
    assert "0x" not in key(lambda x, y: x * y * 2)
