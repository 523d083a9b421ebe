"""Rows across the memory, eight at a time, and tests that promises make needless."""

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
from loopwright.ir.dtypes import FLOAT64, INT32
from loopwright.ir.expr import Load, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import For, If, LoopNest, Mark, Prefetch, Store
from loopwright.ir.visit import loads, rebuild, statements
from loopwright.semirings.named import semiring
from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.executors.compose import KernelRequest
from loopwright.sparse.executors.kernel_plan import plan
from loopwright.sparse.executors.row_blocking import unroll_and_jam_rows
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


@pytest.mark.drawn(2)
@pytest.mark.parametrize("ring", ["min_plus", "max_times", "or_and"])
@pytest.mark.parametrize("name", ["ell(column)", "sell(8,64)"])
def test_other_semirings(name, ring):
    dense = ragged(70, 9, 3).astype(np.int64)
    x = np.arange(1, 10)
    if ring == "or_and":
        dense, x = dense.astype(bool), x > 4
    expected = spmv(of_dense("csr", dense), x, semiring=ring)
    np.testing.assert_array_equal(spmv(of_dense(name, dense), x, semiring=ring), expected)


@pytest.mark.parametrize("name", ["csr", "csc", "ell(row)", "dia", "bcsr(3,3)", "lil", "coo"])
def test_rows_that_lie_along_the_memory_stay_as_they_are(name):
    assert unroll_and_jam_rows(loops(name)) == loops(name)


def fetched(nest: LoopNest) -> set[str]:
    return {stmt.buffer for stmt in statements(nest.body) if isinstance(stmt, Prefetch)}


def test_lines_that_do_not_follow_each_other_are_fetched():
    assert fetched(unroll_and_jam_rows(loops("ell(column)"))) == {"A_values", "A_ecol"}
    assert fetched(unroll_and_jam_rows(loops("sell(32,128)"))) == {"A_values", "A_scol"}
    assert fetched(unroll_and_jam_rows(loops("sell(8,64)"))) == set()


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


@pytest.mark.parametrize(
    "name", ["csr", "csc", "dcsr", "lil", "ell(row)", "ell(column)", "sell(8,64)", "csf"]
)
def test_numbers_in_their_ranges_are_used_as_they_are(name):
    assert not any(isinstance(stmt, If) for stmt in statements(loops(name).body))


def test_what_no_promise_bounds_is_tested():
    assert any(isinstance(stmt, If) for stmt in statements(loops("dia").body))


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


def test_bounds_stay_where_others_follow_from_them():
    tensor = of_dense("bcsr(3,3)", np.kron(np.eye(4), np.ones((3, 3))))
    text = compile_kernel("ij,j->i", tensor, np.ones(12)).inspect()
    assert "for A_c in range(3)" in text  # blocks cover all columns: no column is asked for
