"""Computations in chunks: the same results for any number of them, or a refusal with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.ir.dtypes import DTYPES, FLOAT64, INT32, INT64
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var
from loopwright.ir.program import Role
from loopwright.sparse.spf.chunk_loops import chunk_computation
from loopwright.sparse.spf.chunk_plan import (
    ChunkContext,
    ChunkedComputation,
    allocate_rows,
    chunk_bounds,
)
from loopwright.sparse.spf.compile_computation import compile_computation
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.uf import Facts

ALL = "{[e] : 0 <= e < N}"
IN, INOUT, LOCAL = Role.IN, Role.INOUT, Role.LOCAL
e = Var("e")
at_e = Load("key", (e,), INT32)
where = Cast(at_e, INT64)


def _spaces(*given: tuple[str, Any, tuple[Any, ...], Role]) -> tuple[DataSpace, ...]:
    own = (("key", INT32, ("N",), IN), *given)
    return tuple(DataSpace.of(*space) for space in own)


def _made(
    spaces: tuple[DataSpace, ...], *stmts: Stmt, symbols: tuple[str, ...] = ("N", "M")
) -> Any:
    return Computation("test", spaces, stmts, symbols, Facts(()))


def _plus(x: Expr, y: int) -> Expr:
    return Binary("add", x, Const(y, x.dtype))


HISTOGRAM = _made(
    _spaces(("count", INT32, ("M",), INOUT)),
    Stmt.of("more", ALL, ("e",), "count(key(e))", _plus(Load("count", (where,), INT32), 1)),
)
SEEN = _made(
    _spaces(("seen", INT64, ("M",), INOUT)),
    Stmt.of("mark", ALL, ("e",), "seen(key(e))", Const(7, INT64)),
)
HIGH = _made(
    _spaces(("out", INT32, (2,), INOUT)),
    Stmt.of("max", ALL, ("e",), "out(1)", Binary("max", Load("out", (Const(1),), INT32), at_e)),
)
PLACES = _made(
    _spaces(
        ("cursor", INT32, ("M",), INOUT), ("at", INT32, (), LOCAL), ("put", INT64, ("N",), INOUT)
    ),
    Stmt.of("take", ALL, ("e", 0), "at()", Load("cursor", (where,), INT32)),
    Stmt.of("move", ALL, ("e", 1), "cursor(key(e))", _plus(Load("at", (), INT32), 1)),
    Stmt.of("put", ALL, ("e", 2), "put(at())", e),
)
RUNNING = _made(
    _spaces(("sum", INT32, ("M+1",), INOUT), ("copy", INT32, ("M",), INOUT)),
    Stmt.of("copy", "{[x] : 0 <= x < M}", ("x", 0), "copy(x)", Load("sum", (Var("x"),), INT32)),
    Stmt.of(
        "add",
        "{[x] : 0 <= x < M}",
        ("x", 1),
        "sum(x+1)",
        Binary("add", Load("sum", (Var("x") + 1,), INT32), Load("sum", (Var("x"),), INT32)),
    ),
)
HIGHEST = _made(
    _spaces(("sum", INT32, ("M+1",), INOUT)),
    Stmt.of(
        "max",
        "{[x] : 0 <= x < M}",
        ("x",),
        "sum(x+1)",
        Binary("max", Load("sum", (Var("x"),), INT32), Load("sum", (Var("x") + 1,), INT32)),
    ),
)
RUNS = _made(
    _spaces(
        ("last", INT64, (), LOCAL),
        ("new", INT32, (), LOCAL),
        ("at", INT32, (), LOCAL),
        ("first", INT64, ("N",), INOUT),
        ("number", INT32, ("N",), INOUT),
    ),
    Stmt.of("none", "{[]}", (0,), "last()", Const(-1, INT64)),
    Stmt.of("start", "{[]}", (0,), "at()", Const(-1, INT32)),
    Stmt.of(
        "new", ALL, (1, "e", 0), "new()", Cast(Binary("ne", where, Load("last", (), INT64)), INT32)
    ),
    Stmt.of("last", ALL, (1, "e", 1), "last()", where),
    Stmt.of(
        "move",
        ALL,
        (1, "e", 2),
        "at()",
        Binary("add", Load("at", (), INT32), Load("new", (), INT32)),
    ),
    Stmt.of("number", ALL, (1, "e", 3), "number(e)", Load("at", (), INT32)),
    Stmt.of(
        "first",
        ALL,
        (1, "e", 4),
        "first(at())",
        e,
        Binary("ne", Load("new", (), INT32), Const(0, INT32)),
    ),
)
SUMS = _made(
    _spaces(("value", FLOAT64, ("N",), IN), ("sum", FLOAT64, ("M",), INOUT)),
    Stmt.of(
        "add",
        ALL,
        ("e",),
        "sum(key(e))",
        Binary("add", Load("sum", (where,), FLOAT64), Load("value", (e,), FLOAT64)),
    ),
)
APART = ChunkContext(disjoint_writes=frozenset({"put", "first"}))
CASES = {
    "histogram": HISTOGRAM,
    "seen": SEEN,
    "high": HIGH,
    "places": PLACES,
    "running": RUNNING,
    "highest": HIGHEST,
    "runs": RUNS,
    "sums": SUMS,
}


def _arrays(computation: Computation, keys: list[int], most: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for space in computation.spaces:
        if space.role is LOCAL:
            continue
        extent = space.shape[0]
        size = {"N": len(keys), "M": most, "M+1": most + 1, "2": 2}[str(extent)]
        values = rng.integers(0, 5, size).astype(space.dtype.numpy)
        if space.dtype == FLOAT64:
            values = rng.random(size) * 10.0 ** rng.integers(-9, 9, size)
        found[space.name] = values
    found["key"] = np.array(keys, np.int32)
    if "cursor" in found:
        counts = np.bincount(keys, minlength=most) if keys else np.zeros(most, np.int64)
        found["cursor"] = (np.cumsum(counts) - counts).astype(np.int32)
        found["put"][:] = -1
    return found


def _run(
    chunked: ChunkedComputation, arrays: Mapping[str, Any], symbols: dict[str, int], chunks: int
) -> None:
    values = {**symbols, chunked.chunks: chunks}
    rows = allocate_rows(chunked, values) | {
        chunked.cut: chunk_bounds(chunked, arrays, symbols, chunks)
    }
    found = {**arrays, **rows}
    names = [space.name for space in chunked.computation.spaces if space.role is not LOCAL]
    compile_computation(chunked.computation)({n: found[n] for n in names}, values, chunks)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", CASES)
@given(st.lists(st.integers(0, 4), max_size=40), st.sampled_from((1, 2, 3, 8)), st.integers(0, 99))
@settings(max_examples=some(30))
def test_any_number_of_shares_gives_the_same(
    name: str, keys: list[int], chunks: int, seed: int
) -> None:
    computation = CASES[name]
    keys = sorted(keys) if name == "runs" else keys
    chunked = chunk_computation(computation, APART)
    assert isinstance(chunked, ChunkedComputation), chunked
    symbols = {"N": len(keys), "M": 5}
    one, several = (_arrays(computation, keys, 5, seed) for _ in range(2))
    compile_computation(computation)(one, symbols)
    _run(chunked, several, symbols, chunks)
    for array in one:
        assert one[array].tobytes() == several[array].tobytes(), array


def test_a_place_that_nothing_keeps_apart_is_refused() -> None:
    reason = chunk_computation(PLACES)
    assert isinstance(reason, str)
    assert "through put" in reason


def test_a_value_that_goes_on_is_refused() -> None:
    """x = 2*x + key: neither a sum nor a last value."""
    twice = Binary("add", Binary("mul", Load("x", (), INT32), Const(2, INT32)), at_e)
    computation = _made(
        _spaces(("x", INT32, (), LOCAL), ("out", INT32, ("N",), INOUT)),
        Stmt.of("none", "{[]}", (0,), "x()", Const(0, INT32)),
        Stmt.of("next", ALL, (1, "e", 0), "x()", twice),
        Stmt.of("keep", ALL, (1, "e", 1), "out(e)", Load("x", (), INT32)),
    )
    assert chunk_computation(computation) == "x goes from iteration to iteration"


def test_a_counter_that_is_read_as_it_moves_is_no_histogram() -> None:
    """The second statement sees how far the count has come."""
    computation = _made(
        _spaces(("count", INT32, ("M",), INOUT), ("out", INT32, ("N",), INOUT)),
        HISTOGRAM.statements[0],
        Stmt.of("see", ALL, ("e", 1), "out(e)", Load("count", (where,), INT32)),
    )
    assert isinstance(chunk_computation(computation), str)


def test_floating_sums_keep_their_order() -> None:
    """Each share owns places and goes over all entries: nothing is added out of turn."""
    chunked = chunk_computation(SUMS)
    assert isinstance(chunked, ChunkedComputation)
    keys = np.zeros(4, np.int32)
    values = np.array([1e16, 1.0, 1.0, -1e16])
    total = np.zeros(2)
    _run(chunked, {"key": keys, "value": values, "sum": total}, {"N": 4, "M": 2}, 2)
    assert total[0] == 0.0


def test_shares_of_rows_hold_as_many_entries() -> None:
    """Rows of a matrix are cut by the entries in them, and an empty range by itself."""
    domain = "{[i,k] : 0 <= i < N && ptr(i) <= k < ptr(i+1)}"
    computation = _made(
        (
            DataSpace.of("ptr", INT32, ("N+1",), IN),
            DataSpace.of("out", DTYPES["uint8"], ("M",), INOUT),
        ),
        Stmt.of("set", domain, ("i", "k"), "out(k)", Const(1, DTYPES["uint8"])),
    )
    chunked = chunk_computation(computation, ChunkContext(disjoint_writes=frozenset({"out"})))
    assert isinstance(chunked, ChunkedComputation)
    assert chunked.range_.pointers == ("ptr",)
    ptr = np.array([0, 0, 90, 95, 100, 100], np.int32)
    assert chunk_bounds(chunked, {"ptr": ptr}, {"N": 5, "M": 100}, 2).tolist() == [0, 2, 5]
    assert chunk_bounds(chunked, {"ptr": ptr[:1]}, {"N": 0, "M": 0}, 3).tolist() == [0, 0, 0, 0]


def test_what_belongs_together_is_not_cut() -> None:
    chunked = chunk_computation(HISTOGRAM, ChunkContext(atomic_group=("key",)))
    assert isinstance(chunked, ChunkedComputation)
    keys = np.array([0, 1, 1, 1, 1, 1, 2, 2], np.int32)
    symbols = {"N": 8, "M": 3}
    assert chunk_bounds(chunked, {"key": keys}, symbols, 2).tolist() == [0, 6, 8]
    assert chunk_bounds(
        chunked, {"key": np.zeros(300, np.int32)}, symbols | {"N": 300}, 3
    ).tolist() == [
        0,
        300,
        300,
        300,
    ]
