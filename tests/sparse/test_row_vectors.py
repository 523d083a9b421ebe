"""Rows of equal length taken in vectors: the loops, their meaning, and the code that runs."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.frontends.einsum_syntax import parse_subscripts
from loopwright.ir.dtypes import dtype_of
from loopwright.ir.expr import Const, Load, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Alloc, For, LoopNest, Mark, Prefetch, Store
from loopwright.ir.visit import rebuild, statements
from loopwright.semirings.named import semiring
from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.executors.compose import KernelRequest
from loopwright.sparse.executors.executor import bits_of, exact_of, fixed_of, indices_of
from loopwright.sparse.executors.kernel_plan import plan
from loopwright.sparse.executors.row_blocking import vectorize_rows
from loopwright.sparse.executors.sparse_einsum import compile_kernel, spmv
from loopwright.sparse.format import Padding, declare, index
from loopwright.sparse.spf.scan import scan
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from sparse_builders import of_dense

BY_DIAGONALS = declare(
    "by_diagonals",
    "{[ii,d,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && 0<=d<ND && jj=ii+off(d) && 0<=j<NC}",
    "{[ii,d,jj] -> [p] : p=NC*d+jj}",
    index("off", "{[x] : 0<=x<ND}", "{[y] : -NR<y<NC}", monotone="strictly increasing"),
    places="ND*NC",
    order=("i", "j"),
    padding=Padding(is_mapped=True),
)


def banded(rows: int, columns: int, offsets: list[int], seed: int, dtype: str) -> SparseTensor:
    """Diagonals of numbers whose sums depend on their order."""
    random = np.random.default_rng(seed)
    values = np.zeros((rows, len(offsets)), dtype)
    for d, offset in enumerate(offsets):
        first, stop = max(0, -offset), min(rows, columns - offset)
        n = max(stop - first, 0)
        drawn = random.integers(1, 9, n) if "int" in dtype else random.uniform(1, 2, n)
        values[first : first + n, d] = drawn
    return sparse_tensor("dia", (rows, columns), {"off": np.array(offsets)}, values.reshape(-1))


@lru_cache(maxsize=64)
def loops(count: int, dtype: str, ring: str = "plus_times") -> LoopNest:
    """The loops of a product of so many diagonals before rows are taken together."""
    tensor = banded(64, 64, list(range(count)), 1, dtype)
    found = dtype_of(np.float32 if dtype == "float16" else dtype)
    request = KernelRequest(
        tensor.format,
        dtype_of(dtype),
        indices_of(tensor),
        bits_of(tensor),
        fixed_of(tensor),
        exact_of(tensor),
        parse_subscripts("ij,j->i", (2, 1)),
        0,
        (dtype_of(dtype),),
        semiring(ring),
        found,
    )
    return scan(plan(request).computation)


def meaning(nest: LoopNest, tensor: SparseTensor, x: Any, fill: Any) -> Any:
    """What the loops compute, by interpretation; parallel ones in an arbitrary order."""
    rows, columns = tensor.shape
    out = np.full(rows, fill, np.result_type(tensor.values, x))
    reach = [(max(0, -o), min(rows, columns - o)) for o in tensor.arrays["off"].tolist()]
    start = max((a for a, _ in reach), default=0)
    stop = max(start, min((b for _, b in reach), default=rows))
    sizes = {"A_ND": len(reach), "NC": columns, "NR": rows, "CUT0": start, "CUT1": stop}
    arrays = {"A_off": tensor.arrays["off"], "A_values": tensor.values, "x1": x, "out": out}
    interpret_nest(nest, arrays, {name: sizes[name] for name in nest.scalars}, threads=2, seed=1)
    return out


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.sets(st.integers(-6, 6), min_size=1, max_size=7),
    st.sampled_from([("float64", "plus_times"), ("float32", "plus_times"), ("int32", "min_plus")]),
    st.sampled_from([16, 32, 64]),
    st.integers(0, 99),
)
@settings(max_examples=some(40))
def test_loops_mean_the_same(rows, columns, offsets, kind, size, seed):
    dtype, ring = kind
    inside = sorted(o for o in offsets if -rows < o < columns) or [0]
    tensor = banded(rows, columns, inside, seed, dtype)
    x = np.random.default_rng(seed).integers(1, 9, columns).astype(dtype)
    nest = loops(len(inside), dtype, ring)
    fill = semiring(ring).zero(dtype_of(dtype))
    expected = meaning(nest, tensor, x, fill)
    np.testing.assert_array_equal(meaning(vectorize_rows(nest, size), tensor, x, fill), expected)
    if ring == "plus_times":
        np.testing.assert_allclose(expected, tensor.to_dense() @ x, rtol=1e-5)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("count", [1, 3, 13])
def test_code_sums_rows_in_their_order(count, dtype):
    size = 517
    offsets = [k * 3 - count for k in range(count)]
    tensor = banded(size, size, offsets, count, dtype)
    x = np.random.default_rng(3).uniform(1, 2, size).astype(dtype)
    found = spmv(tensor, x, threads=1)
    close = 0.0 if dtype == "int32" else 4 * float(np.finfo(dtype).eps)
    for row in (size // 2, size // 2 + 1, size - 40):  # the same but for products rounded apart
        part = tensor.to_dense()[row : row + 1]
        np.testing.assert_allclose(spmv(of_dense("csr", part), x), found[row : row + 1], rtol=close)
    for threads in (2, 3):
        np.testing.assert_array_equal(spmv(tensor, x, threads=threads), found)


def test_results_do_not_depend_on_threads():
    tensor = banded(30_011, 30_011, [-100, -1, 0, 1, 100], 5, "float64")  # worth a team
    x = np.random.default_rng(6).random(30_011)
    one = spmv(tensor, x, threads=1)
    for threads in (2, 3, 4):
        np.testing.assert_array_equal(spmv(tensor, x, threads=threads), one)


def marks(nest: LoopNest) -> set[Mark]:
    return {stmt.mark for stmt in statements(nest.body) if isinstance(stmt, For)}


def test_rows_are_loaded_along_and_fetched_ahead():
    nest = vectorize_rows(loops(3, "float64"), 16)
    assert Mark.VECTOR in marks(nest)
    fetches = [stmt for stmt in statements(nest.body) if isinstance(stmt, Prefetch)]
    assert {stmt.buffer for stmt in fetches} == {"A_values"}
    squares = [
        stmt for stmt in statements(nest.body) if isinstance(stmt, Alloc) and len(stmt.shape) == 2
    ]
    assert {stmt.shape for stmt in squares} == {(Const(2), Const(2))}


@pytest.mark.parametrize("dtype", ["complex128", "int16", "float16"])
def test_types_without_a_vector_of_sums_stay_as_they_are(dtype):
    nest = loops(3, dtype)
    size = 8 if dtype == "float16" else 16  # halves are summed in float32
    assert vectorize_rows(nest, size) == nest


def test_one_lane_is_no_vector():
    nest = loops(3, "float64")
    assert vectorize_rows(nest, 8) == nest


def test_loops_of_other_forms_stay_as_they_are():
    nest = loops(3, "float64")

    def changed(change):
        return replace(nest, body=rebuild(nest.body, change))

    def serial(stmt):
        return replace(stmt, mark=Mark.SERIAL) if isinstance(stmt, For) else stmt

    def scattered(stmt):  # sums that go to every second row
        is_out = isinstance(stmt, Store) and stmt.buffer == "out"
        return replace(stmt, index=(stmt.index[0] * 2,)) if is_out else stmt

    def fed_back(stmt):  # rows that read what others write
        if not isinstance(stmt, Store) or stmt.buffer == "out" or isinstance(stmt.value, Const):
            return stmt
        return replace(stmt, value=stmt.value + Load("out", (Var("A_ii"),), stmt.value.dtype))

    for change in (serial, scattered, fed_back):
        other = changed(change)
        assert other != nest
        assert vectorize_rows(other, 16) == other


def test_values_by_diagonals_need_no_turning():
    dense = np.diag(np.ones(64)) + np.diag(np.full(63, 2.0), 1)
    tensor = convert_tensor(of_dense("csr", dense), BY_DIAGONALS)
    kernel = compile_kernel("ij,j->i", tensor, np.ones(64))
    assert "vector" not in kernel.inspect()
    np.testing.assert_array_equal(kernel.run(), dense.sum(1))
