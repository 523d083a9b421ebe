"""Kernels that validate index arrays themselves: what they refuse, and that they follow nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import drawn
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
from loopwright.sparse.format import Format, declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from loopwright.sparse.validated_levels import levels_of
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


@pytest.mark.parametrize("format", IN_LEVELS)
def test_formats_in_levels_validate_themselves(format: str) -> None:
    tensor, x = writable(format, matrix(4)), np.arange(float(ROWS))
    for _ in range(2):
        np.testing.assert_array_equal(lw.sparse.spmv(tensor, x), matrix(4) @ x)
    assert validates_itself(tensor)


@pytest.mark.parametrize("format", OTHERS)
def test_other_formats_are_validated_before(format: str) -> None:
    tensor, x = writable(format, matrix(4)), np.arange(float(ROWS))
    for _ in range(2):
        np.testing.assert_array_equal(lw.sparse.spmv(tensor, x), matrix(4) @ x)
    assert not validates_itself(tensor)


def test_frozen_arrays_are_not_validated_again() -> None:
    tensor, x = convert(of_dense("coo", matrix(4)), "csr"), np.arange(float(ROWS))
    lw.sparse.spmv(tensor, x)
    assert not validates_itself(tensor)


def test_a_declared_format_of_the_same_structure() -> None:
    """The descriptor decides, not the name."""
    declared = declare(
        "strips",
        "{[jj,q,ii] -> [i,j] : i=ii && j=jj && 0<=jj<NC && first(jj)<=q<first(jj+1) && ii=line(q)}",
        "{[jj,q,ii] -> [q]}",
        index("first", "{[x] : 0<=x<=NC}", "{[y] : 0<=y<=N}", monotone="increasing"),
        index("line", "{[x] : 0<=x<N}", "{[y] : 0<=y<NR}"),
        places="N",
        order=("j", "i"),
        invariants=("first(0) = 0", "first(NC) = N"),
    )
    counts = [[index.name for index in level.arrays] for level in levels_of(declared)]
    assert counts == [["first"], ["line"]]
    assert any(buffer.name == REFUSED for buffer in loops(declared, "ij,j->i").buffers)


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


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_types_of_indices(dtype: str) -> None:
    """The least number of a type and the greatest are outside; 8 bits have not even all columns."""
    dense = np.zeros((ROWS, ROWS))
    dense[np.arange(100), np.arange(100)] = 3.0
    tensor, x = writable("csr_unsorted", dense, dtype), np.arange(float(ROWS))
    for _ in range(2):
        np.testing.assert_array_equal(lw.sparse.spmv(tensor, x), dense @ x)
    assert validates_itself(tensor)
    column, limits = tensor.arrays["col"], np.iinfo(dtype)
    for far in {limits.min, limits.max, min(ROWS, limits.max)} - {*range(ROWS)}:
        column[5] = far
        with pytest.raises(UsageError):
            lw.sparse.spmv(tensor, x)
        column[5] = 5
        np.testing.assert_array_equal(lw.sparse.spmv(tensor, x), dense @ x)


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


def test_empty_matrices() -> None:
    for shape in ((0, 4), (4, 0), (4, 4)):
        arrays = {"rowptr": np.zeros(shape[0] + 1, np.int32), "col": np.zeros(0, np.int32)}
        tensor = sparse_tensor("csr", shape, arrays, np.zeros(0))
        for _ in range(3):
            assert lw.sparse.spmv(tensor, np.ones(shape[1])).tolist() == [0.0] * shape[0]


def test_rows_out_of_order_across_blocks() -> None:
    """Threads would meet in one row: what ascends is compared across the ends of blocks, too."""
    dense = np.eye(ROWS)
    tensor = writable("dcsr", dense)
    tensor.arrays["rowidx"][63] = 64
    assert interpreted(loops(tensor.format, "ij,j->i"), tensor, np.ones(ROWS))[0]
