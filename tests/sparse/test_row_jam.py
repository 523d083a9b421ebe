"""Loops of products, row by row: taken in vectors or eight at a time, with the same meaning."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.frontends.einsum_syntax import parse_subscripts
from loopwright.ir.dtypes import FLOAT64, INT32, dtype_of
from loopwright.ir.expr import Const, Load, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Alloc, For, If, LoopNest, Mark, Prefetch, Store
from loopwright.ir.visit import loads, rebuild, statements
from loopwright.machines.load import load_machine
from loopwright.semirings.named import semiring
from loopwright.sparse.convert_tensor import convert, convert_tensor
from loopwright.sparse.executors.compose import KernelRequest
from loopwright.sparse.executors.executor import bits_of, exact_of, fixed_of, indices_of
from loopwright.sparse.executors.kernel_plan import plan
from loopwright.sparse.executors.row_blocking import unroll_and_jam_rows, vectorize_rows
from loopwright.sparse.executors.row_loops import split_fma_chains
from loopwright.sparse.executors.sparse_einsum import compile_kernel, spmv
from loopwright.sparse.format import declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.spf.scan import scan
from loopwright.sparse.tensor import SparseTensor, from_dense, sparse_tensor
from sparse_builders import of_dense

ACROSS = ("ell(column)", "sell(32,128)", "sell(8,64)")


@lru_cache(maxsize=16)
def loops(name: str) -> LoopNest:
    """The loops of a product before rows are jammed."""
    format = find(name)
    request = KernelRequest(
        format,
        FLOAT64,
        tuple((i.name, INT32) for i in format.indices),
        (0, 0),
        (),
        (),
        parse_subscripts("ij,j->i", (2, 1)),
        0,
        (FLOAT64,),
        semiring("plus_times"),
        FLOAT64,
    )
    return scan(plan(request).computation)


def ragged(rows: int, columns: int, seed: int, empty: float = 0.3) -> Any:
    """A matrix whose rows have from no to many entries, small whole numbers."""
    random = np.random.default_rng(seed)
    density = random.random((rows, 1)) * (random.random((rows, 1)) >= empty)
    return random.integers(1, 9, (rows, columns)) * (random.random((rows, columns)) < density)


def meaning(nest: LoopNest, tensor: SparseTensor, x: Any) -> Any:
    rows, columns = tensor.shape
    out = np.zeros(rows)
    arrays = {f"A_{name}": array.astype(np.int32) for name, array in tensor.arrays.items()}
    arrays |= {"A_values": tensor.values, "x1": x, "out": out}
    sizes = {f"A_{name}": int(value) for name, value in tensor.symbols.items()}
    sizes |= {"NR": rows, "NC": columns}
    used = {buffer.name: np.ravel(arrays[buffer.name]) for buffer in nest.buffers}
    interpret_nest(nest, used, {name: sizes[name] for name in nest.scalars}, threads=2, seed=1)
    return out


@given(st.sampled_from(ACROSS), st.integers(1, 40), st.integers(1, 12), st.integers(0, 999))
@settings(max_examples=some(30), deadline=None)
def test_loops_mean_the_same(name, rows, columns, seed):
    dense = ragged(rows, columns, seed).astype(np.float64)
    tensor, x = of_dense(name, dense), np.arange(1.0, columns + 1)
    nest = unroll_and_jam_rows(loops(name))
    np.testing.assert_array_equal(meaning(nest, tensor, x), dense @ x)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ACROSS)
def test_code_gives_the_bits_of_compressed_rows(name):
    dense = ragged(1003, 61, 5) * np.random.default_rng(6).random((1003, 61))
    x = np.random.default_rng(7).random(61)
    expected = spmv(convert_tensor(from_dense(dense), find("csr")), x, threads=1)
    tensor = convert_tensor(from_dense(dense), find(name))
    assert len(tensor.values) > 1 << 14  # worth a team
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(spmv(tensor, x, threads=threads), expected)


@pytest.mark.parametrize("name", ["csr", "csc", "ell(row)", "dia", "bcsr(3,3)", "lil", "coo"])
def test_rows_that_lie_along_the_memory_stay_as_they_are(name):
    assert unroll_and_jam_rows(loops(name)) == loops(name)


def test_loops_of_other_forms_stay_as_they_are():
    nest = loops("ell(column)")

    def changed(change):
        return replace(nest, body=rebuild(nest.body, change))

    def fed_back(stmt):  # sums that read what rows before have stored
        if not isinstance(stmt, Store) or not stmt.buffer.startswith("sum"):
            return stmt
        return replace(stmt, value=stmt.value + Load("out", (Var("A_ii"),), FLOAT64))

    def ended(stmt):  # a loop that may end before its rows do
        is_inner = isinstance(stmt, For) and stmt.mark is Mark.SERIAL
        return replace(stmt, until=Var("A_w") < Var("A_ii")) if is_inner else stmt

    def guarded(stmt):
        is_add = isinstance(stmt, Store) and "A_values" in {x.array for x in loads(stmt.value)}
        return If(Var("A_ii") < Var("NC"), stmt) if is_add else stmt

    for change in (fed_back, ended, guarded):
        other = changed(change)
        assert other != nest
        assert unroll_and_jam_rows(other) == other


# -- tests that promises make needless --------------------------------------------------------


LISTED = "{[k,ii,jj] -> [i,j] : i=ii && j=jj && 0<=k<NNZ && ii=r(k) && jj=f(k) && 0<=j}"


def listed(rule: str) -> Any:
    """A list of entries whose columns may be -1 as far as ranges tell."""
    return declare(
        "listed",
        LISTED,
        "{[k,ii,jj] -> [k]}",
        index("r", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        index("f", "{[x] : 0<=x<NNZ}", "{[y] : -1<=y<NC}"),
        places="NNZ",
        invariants=(rule,) if rule else (),
    )


def entries(format: Any, columns: list[int]) -> SparseTensor:
    arrays = {"r": np.array([0, 1, 1]), "f": np.array(columns)}
    return sparse_tensor(format, (2, 3), arrays, np.array([1.0, 2.0, 4.0]))


def test_rules_of_ones_own_are_checked_where_code_relies_on_them():
    promised = listed("forall k: 0<=k<NNZ => f(k)>=0")
    x = np.array([1.0, 10.0, 100.0])
    good = entries(promised, [2, 0, 1])
    assert "if" not in compile_kernel("ij,j->i", good, x).inspect()
    assert spmv(good, x).tolist() == [100.0, 42.0]
    with pytest.raises(UsageError, match="an invariant is violated"):
        spmv(entries(promised, [2, -1, 1]), x)


def test_without_a_rule_code_asks():
    x = np.array([1.0, 10.0, 100.0])
    tensor = entries(listed(""), [2, -1, 1])
    assert "if" in compile_kernel("ij,j->i", tensor, x).inspect()
    assert spmv(tensor, x).tolist() == [100.0, 40.0]


@pytest.mark.parametrize(
    ("name", "array", "place", "number"), [("sell(2,4)", "scol", 0, -1), ("alto", "alto", 0, 99)]
)
def test_rules_of_built_in_formats_are_checked(name, array, place, number):
    tensor = of_dense(name, np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0], [4.0, 0.0, 5.0]]))
    x = np.ones(3)
    assert compile_kernel("ij,j->i", tensor, x).executor._code.needs.relies_on_invariants
    arrays = {key: found.copy() for key, found in tensor.arrays.items()}
    arrays[array][place] = number
    with pytest.raises(UsageError):
        spmv(replace(tensor, arrays=arrays), x)


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
def diagonal_loops(count: int, dtype: str, ring: str = "plus_times") -> LoopNest:
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


def diagonal_meaning(nest: LoopNest, tensor: SparseTensor, x: Any, fill: Any) -> Any:
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
def test_vectors_of_rows_mean_the_same(rows, columns, offsets, kind, size, seed):
    dtype, ring = kind
    inside = sorted(o for o in offsets if -rows < o < columns) or [0]
    tensor = banded(rows, columns, inside, seed, dtype)
    x = np.random.default_rng(seed).integers(1, 9, columns).astype(dtype)
    nest = diagonal_loops(len(inside), dtype, ring)
    fill = semiring(ring).zero(dtype_of(dtype))
    expected = diagonal_meaning(nest, tensor, x, fill)
    np.testing.assert_array_equal(
        diagonal_meaning(vectorize_rows(nest, size), tensor, x, fill), expected
    )
    if ring == "plus_times":
        np.testing.assert_allclose(expected, tensor.to_dense() @ x, rtol=1e-5)


def marks(nest: LoopNest) -> set[Mark]:
    return {stmt.mark for stmt in statements(nest.body) if isinstance(stmt, For)}


def test_rows_are_loaded_along_and_fetched_ahead():
    nest = vectorize_rows(diagonal_loops(3, "float64"), 16)
    assert Mark.VECTOR in marks(nest)
    fetches = [stmt for stmt in statements(nest.body) if isinstance(stmt, Prefetch)]
    assert {stmt.buffer for stmt in fetches} == {"A_values"}
    squares = [
        stmt for stmt in statements(nest.body) if isinstance(stmt, Alloc) and len(stmt.shape) == 2
    ]
    assert {stmt.shape for stmt in squares} == {(Const(2), Const(2))}


def test_other_forms_are_not_taken_in_vectors():
    nest = diagonal_loops(3, "float64")

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


def nest_of(format: str, dtype: str = "float64") -> LoopNest:
    tensor = convert(np.eye(6, dtype=dtype), format)
    return compile_kernel("ij,j->i", tensor, np.ones(6, dtype)).executor._code.nest()


@pytest.mark.parametrize(
    ("machine", "fuses"), [("neoverse-n1", True), ("sapphirerapids", False), ("zen4", False)]
)
def test_rows(machine: str, fuses: bool) -> None:
    nest = split_fma_chains(nest_of("csr"), load_machine(machine))
    assert nest.fuses == fuses
