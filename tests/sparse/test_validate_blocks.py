"""Index arrays that change between calls: kernels refuse them in words and follow nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import combined, drawn
from loopwright.diagnostics import UsageError
from loopwright.frontends.einsum_syntax import parse_subscripts
from loopwright.ir.dtypes import FLOAT64, dtype_of
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import For, LoopNest, Mark, Stmt
from loopwright.ir.text import nest_text
from loopwright.ir.visit import rebuild
from loopwright.semirings.named import semiring
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.executors.compose import REFUSED, SPARSE, KernelRequest
from loopwright.sparse.executors.kernel_code import code_of
from loopwright.sparse.executors.operands import cache_of
from loopwright.sparse.format import Format
from loopwright.sparse.formats import find
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from sparse.synthesis.pairs import FORMATS_2D
from sparse_builders import of_dense

IN_LEVELS = ("coo", "scoo", "csr", "csr_unsorted", "csc", "dcsr", "csf", "bcsr(2,2)")
OTHERS = ("dia", "ell(row)", "ell(column)", "lil", "hicoo(2)", "sell(2,4)")
ROWS = 150  # more than two blocks of rows
FAR = (2_000_000_000, -1)


def matrix(entries_a_row: int) -> np.ndarray:
    """A matrix of two blocks of rows and a rest; rows 3, 70 and the last one are empty."""
    random = np.random.default_rng(7)
    made = np.zeros((ROWS, ROWS))
    for row in range(ROWS - 1):
        columns = random.choice(ROWS, entries_a_row, replace=False)
        made[row, columns] = random.integers(1, 9, entries_a_row)
    made[[3, 70]] = 0
    return made


def writable(format: str, dense: np.ndarray, dtype: Any = None) -> SparseTensor:
    found = of_dense(format, dense)
    arrays = {name: array.astype(dtype or array.dtype) for name, array in found.arrays.items()}
    return sparse_tensor(
        found.format, found.shape, arrays, found.values.copy(), symbols=found.symbols
    )


def validates_itself(tensor: SparseTensor) -> bool:
    home = cache_of(tensor)
    assert home is not None
    return any(executor.refused is not None for executor in home.ready.values())


@lru_cache(maxsize=32)
def loops(format: Format, subscripts: str, dtype: str = "int32") -> LoopNest:
    """The validating loops of a product with a vector."""
    request = KernelRequest(
        format,
        FLOAT64,
        tuple((i.name, dtype_of(np.dtype(dtype))) for i in format.indices),
        (0, 0),
        (),
        (),
        parse_subscripts(subscripts, (2, 1)),
        0,
        (FLOAT64,),
        semiring("plus_times"),
        FLOAT64,
        is_validated=True,
    )
    return code_of(request).nest()


def interpreted(nest: LoopNest, tensor: SparseTensor, x: np.ndarray) -> tuple[int, np.ndarray]:
    """The flag and the result on memory that nothing may leave."""
    out, refused = np.zeros(ROWS), np.zeros(1, np.int64)
    arrays = {SPARSE + name: array for name, array in tensor.arrays.items()}
    arrays |= {SPARSE + "values": tensor.values, "x1": x, "out": out, REFUSED: refused}
    symbols = {SPARSE + name: value for name, value in tensor.symbols.items()} | tensor.symbols
    # Blocks of a parallel loop set the flag to the same number, which counts as a race here.
    serial = rebuild(nest.body, lambda s: replace(s, mark=Mark.SERIAL) if _is_parallel(s) else s)
    scalars = {name: symbols[name] for name in nest.scalars}
    interpret_nest(replace(nest, body=serial), arrays, scalars)
    return int(refused[0]), out


def _is_parallel(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.mark is Mark.PARALLEL


def test_the_loops_of_a_list_of_coordinates() -> None:
    assert (
        nest_text(replace(loops(find("coo"), "ij,j->i"), buffers=()))
        == """\
nest kernel(A_NNZ, NC, NR):
    for A_n_block in range((A_NNZ + 2047) // 2048):
        let A_n_first: int64 = A_n_block * 2048
        let A_n_last: int64 = min(A_n_block * 2048 + 2048, A_NNZ)
        alloc stack wrong: int32[] strides []
        wrong[] = 0
        if A_n_first < A_n_last:
            alloc stack top: uint32[] strides []
            top[] = 0
            for e in range(A_n_first, A_n_last):
                top[] = max(top[], uint32(A_row[e]))
            wrong[] = max(wrong[], int32(uint64(top[]) >= uint64(min(NR, 2147483648))))
        if A_n_first < A_n_last:
            alloc stack top_2: uint32[] strides []
            top_2[] = 0
            for e_2 in range(A_n_first, A_n_last):
                top_2[] = max(top_2[], uint32(A_col[e_2]))
            wrong[] = max(wrong[], int32(uint64(top_2[]) >= uint64(min(NC, 2147483648))))
        if wrong[] == 0:
            for A_n in range(A_n_block * 2048, min(A_n_block * 2048 + 2048, A_NNZ)):
                out[int64(uint32(A_row[A_n]))] = out[int64(uint32(A_row[A_n]))] \
+ A_values[A_n] * x1[int64(uint32(A_col[A_n]))]
        else:
            refused[0] = 1"""
    )


@pytest.mark.parametrize("format", OTHERS)
def test_other_formats_are_validated_before(format: str) -> None:
    tensor, x = writable(format, matrix(4)), np.arange(float(ROWS))
    for _ in range(2):
        np.testing.assert_array_equal(lw.sparse.spmv(tensor, x), matrix(4) @ x)
    assert not validates_itself(tensor)


@pytest.mark.drawn(6)
@pytest.mark.parametrize(
    ("format", "subscripts", "entries"),
    [
        # Rows of 2 and of 20 entries in turn, for the most usual format both.
        *((format, "ij,j->i", (2, 20)[k % 2]) for k, format in enumerate(IN_LEVELS)),
        *(("csr", "ij,j->i", 2), ("csr", "ij,j->i", 20)),
        *(("csr", "ij,i->j", 20), ("coo", "ij,i->j", 2)),
    ],
)
def test_nothing_wrong_is_followed(format: str, subscripts: str, entries: int) -> None:
    """On memory that is watched: elements at the ends of blocks of rows and groups of entries."""
    tensor, x = writable(format, matrix(entries)), np.arange(float(ROWS))
    nest = loops(tensor.format, subscripts)
    wanted = matrix(entries) @ x if subscripts == "ij,j->i" else x @ matrix(entries)
    refused, out = interpreted(nest, tensor, x)
    assert not refused
    np.testing.assert_array_equal(out, wanted)
    for first, array in enumerate(tensor.arrays.values(), entries > 2):
        places = {0, 1, 63, 64, 65, len(array) // 2, len(array) - 1} & {*range(len(array))}
        for number, at in enumerate(drawn(sorted(places), 2, first)):
            before = array[at]
            for far in drawn(FAR, 2, number):  # one of both in turn
                array[at] = far
                assert interpreted(nest, tensor, x)[0], (at, far)
            array[at] = before


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("entries", [4, 40], ids=["short rows", "long rows"])
def test_calls_refuse_in_words(entries: int, threads: int) -> None:
    """A wrong number in any block is refused; once it is right again, so is the product."""
    rows = 40_000 // entries * 4
    columns = np.random.default_rng(3).integers(0, rows, rows * entries, np.int32)
    pointers = np.arange(0, rows * entries + 1, entries, dtype=np.int32)
    arrays = {"rowptr": pointers, "col": columns}
    tensor = sparse_tensor("csr_unsorted", (rows, rows), arrays, np.ones(rows * entries))
    wanted = [float(entries)] * rows
    for name, at in (("col", 0), ("col", rows * entries - 1), ("rowptr", rows // 2), ("col", 777)):
        for _ in range(2):
            found = lw.sparse.spmv(tensor, np.ones(rows), threads=threads)
            assert found.tolist() == wanted
        assert validates_itself(tensor)
        before = arrays[name][at]
        arrays[name][at] = 2_000_000_000
        with pytest.raises(UsageError, match=name):
            lw.sparse.spmv(tensor, np.ones(rows), threads=threads)
        arrays[name][at] = before


SIDE = 8
TENSORS = ("coo", "scoo", "mcoo3", "csf", "hicoo(2)", "alto")
FARTHEST = (2_000_000_000, -2_000_000_000, -1)
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


def tensor_in(format: str, dense: np.ndarray) -> SparseTensor:
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
            for far in FARTHEST:
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
@pytest.mark.parametrize(("format", "name"), combined(FORMATS_2D, CALLS, one_in=5))
def test_matrices(format: str, name: str) -> None:
    refuses(
        CALLS[name],
        tensor_in(format, pattern(2)),
        format.startswith(("ell", "sell")),
    )


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("format", "name"), combined(TENSORS, CALLS_3, one_in=3))
def test_tensors(format: str, name: str) -> None:
    refuses(CALLS_3[name], tensor_in(format, pattern(3)), False)


def test_what_is_written_and_right_is_seen() -> None:
    """Other columns, other diagonals, rows that are no longer sorted: the product follows them."""
    scipy = pytest.importorskip("scipy.sparse")
    matrix, x = scipy.csr_array(pattern(2)), np.arange(1.0, SIDE + 1)
    lw.sparse.spmv(matrix, x)
    matrix.indices[: matrix.indptr[1]] = matrix.indices[: matrix.indptr[1]][::-1].copy()
    np.testing.assert_allclose(lw.sparse.spmv(matrix, x), matrix @ x)
    matrix.indices[0] = (matrix.indices[0] + 1) % SIDE
    np.testing.assert_allclose(lw.sparse.spmv(matrix, x), matrix @ x)
    diagonal = tensor_in("dia", np.eye(SIDE, k=-2) + np.eye(SIDE, k=3))
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
    tensor, x = tensor_in("csr", pattern(2)), np.ones(SIDE)
    kernel = lw.sparse.compile_kernel("ij,j->i", tensor, x)
    np.testing.assert_array_equal(kernel.run(), pattern(2) @ x)
    tensor.arrays["col"][3] = 2_000_000_000
    with pytest.raises(UsageError, match=r"col\[3\] = 2000000000 is outside its range"):
        kernel.run()
