"""Index arrays that are written to between two calls: refused in words, never followed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from loopwright.diagnostics import UsageError
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from sparse_builders import of_dense

SIDE = 8
MATRICES = (
    "coo", "scoo", "mcoo2", "csr", "csr_unsorted", "csc", "dia", "ell(column)", "ell(row)",
    "bcsr(2,2)", "dcsr", "lil", "csf", "hicoo(2)", "alto", "sell(2,4)",
)  # fmt: skip
TENSORS = ("coo", "scoo", "mcoo3", "csf", "hicoo(2)", "alto")
FAR = (2_000_000_000, -2_000_000_000, -1)
FACTOR = np.ones((SIDE, 2))

CALLS: Mapping[str, Callable[[Any], Any]] = {
    "spmv": lambda a: lw.sparse.spmv(a, np.ones(SIDE)),
    "transposed": lambda a: lw.sparse.einsum("ij,i->j", a, np.ones(SIDE)),
    "spmm": lambda a: lw.sparse.spmm(a, FACTOR),
    "sddmm": lambda a: lw.sparse.sddmm(a, FACTOR, FACTOR.T),
    "add": lambda a: lw.sparse.add(a, a),
    "convert": lambda a: convert(a, "csc" if a.format.name == "csr" else "csr"),
    "convert_einsum": lambda a: lw.sparse.convert_einsum("ij,j->i", a, np.ones(SIDE), to="dia"),
}
CALLS_3 = {
    "ttm": lambda a: lw.sparse.ttm(a, FACTOR.T, 1),
    "mttkrp": lambda a: lw.sparse.mttkrp(a, [None, FACTOR, FACTOR], 0),
    "convert": lambda a: convert(a, "csf" if a.format.name == "coo" else "coo"),
}


def pattern(rank: int) -> np.ndarray:
    random = np.random.default_rng(4)
    made = (random.random((SIDE,) * rank) < 0.3) * 1.0
    made[(np.arange(SIDE),) * rank] = 2.0
    return made


def writable(format: str, dense: np.ndarray) -> SparseTensor:
    found = of_dense(format, dense)
    arrays = {name: array.copy() for name, array in found.arrays.items()}
    return sparse_tensor(
        found.format, found.shape, arrays, found.values.copy(), symbols=found.symbols
    )


def refuses(call: Callable[[Any], Any], tensor: SparseTensor, is_padded: bool) -> None:
    """Every element of every index array in turn is replaced by what no array has room for."""
    call(tensor)
    call(tensor)
    for array in tensor.arrays.values():
        flat = array.reshape(-1)
        for at in {0, flat.size // 2, flat.size - 1}:
            for far in FAR:
                if far < np.iinfo(array.dtype).min or far > np.iinfo(array.dtype).max:
                    far = np.iinfo(array.dtype).max
                before = flat[at]
                flat[at] = far
                try:
                    if is_padded and (before == -1 or far == -1):
                        call_if_allowed(call, tensor)
                    else:
                        with pytest.raises(UsageError):
                            call(tensor)
                finally:
                    flat[at] = before
        call(tensor)


def call_if_allowed(call: Callable[[Any], Any], tensor: SparseTensor) -> None:
    with contextlib.suppress(UsageError):
        call(tensor)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("format", "name"), combined(MATRICES, CALLS, one_in=5))
def test_matrices(format: str, name: str) -> None:
    refuses(CALLS[name], writable(format, pattern(2)), format.startswith(("ell", "sell")))


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("format", "name"), combined(TENSORS, CALLS_3, one_in=3))
def test_tensors(format: str, name: str) -> None:
    refuses(CALLS_3[name], writable(format, pattern(3)), False)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr"])
def test_matrices_of_scipy(format: str) -> None:
    scipy = pytest.importorskip("scipy.sparse")
    matrix = getattr(scipy, f"{format}_array")(pattern(2))
    x = np.ones(SIDE)
    wanted = pattern(2) @ x
    indices = matrix.coords if format == "coo" else (matrix.indptr, matrix.indices)
    for array in indices:
        for at in (0, -1):
            assert np.array_equal(lw.sparse.spmv(matrix, x), wanted)
            before = array[at]
            array[at] = 2_000_000_000
            with pytest.raises(UsageError):
                lw.sparse.spmv(matrix, x)
            array[at] = before
    assert np.array_equal(lw.sparse.spmv(matrix, x), wanted)


def test_what_is_written_and_right_is_seen() -> None:
    """Other columns, other diagonals, rows that are no longer sorted: the product follows them."""
    scipy = pytest.importorskip("scipy.sparse")
    matrix, x = scipy.csr_array(pattern(2)), np.arange(1.0, SIDE + 1)
    lw.sparse.spmv(matrix, x)
    matrix.indices[: matrix.indptr[1]] = matrix.indices[: matrix.indptr[1]][::-1].copy()
    np.testing.assert_allclose(lw.sparse.spmv(matrix, x), matrix @ x)
    matrix.indices[0] = (matrix.indices[0] + 1) % SIDE
    np.testing.assert_allclose(lw.sparse.spmv(matrix, x), matrix @ x)
    diagonal = writable("dia", np.eye(SIDE, k=-2) + np.eye(SIDE, k=3))
    for offsets in ((-2, 3), (-7, 7), (0, 1), (5, 6), (-6, -5)):
        diagonal.arrays["off"][:] = offsets
        wanted = diagonal.to_dense() @ x
        np.testing.assert_allclose(lw.sparse.spmv(diagonal, x), wanted)
    spread = np.repeat(matrix.indices, 2)
    tensor = sparse_tensor(
        "csr_unsorted", (SIDE, SIDE), {"rowptr": matrix.indptr, "col": spread[::2]}, matrix.data
    )
    before = lw.sparse.spmv(tensor, x)
    spread[:2] = (spread[0] + 1) % SIDE
    matrix.indices[0] = spread[0]
    np.testing.assert_allclose(lw.sparse.spmv(tensor, x), matrix @ x)
    assert before.shape == (SIDE,)


def test_a_compiled_kernel_validates_again() -> None:
    tensor, x = writable("csr", pattern(2)), np.ones(SIDE)
    kernel = lw.sparse.compile_kernel("ij,j->i", tensor, x)
    np.testing.assert_array_equal(kernel.run(), pattern(2) @ x)
    tensor.arrays["col"][3] = 2_000_000_000
    with pytest.raises(UsageError, match=r"col\[3\] = 2000000000 is outside its range"):
        kernel.run()


def test_two_threads_validate_too() -> None:
    size = 40_000
    columns = np.arange(4 * size, dtype=np.int32) // 4
    pointers = np.arange(0, 4 * size + 1, 4, dtype=np.int32)
    columns = np.minimum(columns // 4 * 4 + np.tile(np.arange(4, dtype=np.int32), size), size - 1)
    arrays = {"rowptr": pointers, "col": columns}
    tensor = sparse_tensor("csr_unsorted", (size, size), arrays, np.ones(4 * size))
    x = np.ones(size)
    for _ in range(2):
        assert lw.sparse.spmv(tensor, x, threads=2).tolist() == [4.0] * size
    columns[-5] = 2_000_000_000
    with pytest.raises(UsageError):
        lw.sparse.spmv(tensor, x, threads=2)
