"""Closures on grids of ranks against one machine: the same bits, and the same refusals."""

import itertools

import numpy as np
import pytest

from drawn import combined
from integrations.thread_ranks import run_ranks
from loopwright import paths as on_one
from loopwright.diagnostics import RoomError, UsageError
from loopwright.integrations.mpi import (
    ArraySource,
    CallbackSource,
    GridOptions,
    closure,
    gather,
    paths,
)
from loopwright.ir.dtypes import dtype_of
from loopwright.paths.cycles import CycleError
from loopwright.paths.elimination import add_one, eliminate
from loopwright.semirings import semiring

INF = np.inf
CASES = [
    ("min_plus", "float64"),
    ("min_plus", "int16"),
    ("max_min", "float32"),
    ("or_and", "bool"),
]
# Sizes with blocks: none, one, one element, an uneven end, fewer blocks than ranks.
SIZES = [(0, 4), (1, 1), (9, 16), (17, 4), (40, 7), (23, 1)]
GRIDS = ["1x1", "2x2", "1x3", "3x2"]


def graph(n: int, dtype: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.random((n, n)) < 2 / max(n, 1)
    return (random.random((n, n)) * 90 + 1).astype(dtype)


def solve(call, source, ranks: str, *given, **options):
    size = int(np.prod([int(x) for x in ranks.split("x")]))

    def work(world):
        made = GridOptions(grid=ranks, **options)
        return gather(call(*given, source, world, made), world)

    return run_ranks(size, work)[0]


def closed(source, ring, ranks: str, **options):
    def call(source, world, made):
        return closure(source, ring, world, made)

    return solve(call, source, ranks, **options)


def expected(a: np.ndarray, ring, block: int) -> np.ndarray:
    made = a.copy()
    eliminate(made, ring, 1, block)
    if ring.idempotent:
        np.fill_diagonal(made, ring.one(dtype_of(a.dtype)))
    elif a.size:
        add_one(made, ring)
    return made


@pytest.mark.parametrize(("case", "size", "grid"), combined(CASES, SIZES, GRIDS, one_in=17))
def test_closures_are_bit_equal_to_one_machine(case, size, grid) -> None:
    (name, dtype), (n, block) = case, size
    a = graph(n, dtype, n)
    ring = semiring(name)
    for lookahead in (True, False):
        found = closed(ArraySource(a), ring, grid, block=block, lookahead=lookahead)
        assert np.array_equal(found, expected(a, ring, block)), lookahead


@pytest.mark.drawn(2)
@pytest.mark.parametrize("grid", ["2x2", "2x3"])
def test_paths_are_counted_in_acyclic_graphs(grid) -> None:
    random = np.random.default_rng(5)
    a = np.triu(random.integers(0, 3, (21, 21)), 1)
    order = random.permutation(21)
    a = a[np.ix_(order, order)]
    found = closed(ArraySource(a), "plus_times", grid, block=4)
    exact = np.linalg.matrix_power(np.eye(21, dtype=int) + a, 0)
    step = exact
    while step.any():
        step = step @ a
        exact = exact + step
    assert np.array_equal(found, exact)


def test_a_cycle_is_told_where_paths_are_counted() -> None:
    a = np.zeros((9, 9), int)
    a[2, 5] = a[5, 7] = a[7, 2] = a[0, 2] = a[7, 8] = 1
    with pytest.raises(CycleError) as caught:
        closed(ArraySource(a), "plus_times", "2x2", block=2)
    cycle = caught.value.cycle
    assert cycle[0] == cycle[-1]
    assert sorted(cycle[1:]) == [2, 5, 7]
    assert all(a[i, j] for i, j in itertools.pairwise(cycle))
    assert str(caught.value).startswith("plus_times: plus is not idempotent")


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("problem", "low", "high", "absent"),
    [
        ("shortest", 1, 50, INF),
        ("longest", 1, 50, -INF),
        ("widest", 1, 50, -INF),
        ("minimax", 1, 50, INF),
        ("most_reliable", 0.1, 1, 0.0),
        ("least_reliable", 0.1, 1, INF),
        ("reachability", 0, 1, None),
    ],
)
def test_path_problems_are_those_of_paths(problem, low, high, absent) -> None:
    random = np.random.default_rng(11)
    n = 19
    a = low + (high - low) * random.random((n, n))
    if absent is None:
        a = a < 0.1
    else:
        keep = random.random((n, n)) < 0.3
        if problem in ("longest", "least_reliable"):
            keep = np.triu(keep, 1)
        # Whole numbers and powers of two round nothing, whatever the order of operations.
        a = np.where(keep, np.exp2(np.round(np.log2(a))) if high == 1 else np.round(a), absent)
    found = solve(paths, ArraySource(a), "2x2", problem, block=4)
    assert np.array_equal(found, getattr(on_one, problem)(a))


def test_weights_are_refused_with_their_edge() -> None:
    a = np.full((9, 9), 0.5)
    a[7, 3] = 1.5
    with pytest.raises(UsageError) as caught:
        solve(paths, ArraySource(a), "2x2", "most_reliable", block=2)
    assert str(caught.value) == (
        "weights have to be numbers from 0 to 1; 0 means no edge\n"
        "note: found 1.5 at the edge from 7 to 3\n"
        "try: absent= names another value that means no edge"
    )
    a[...] = 1.0
    a[3, 3] = np.nan
    with pytest.raises(UsageError, match="a weight is not a number"):
        closed(ArraySource(a), "min_plus", "2x2", block=2)
    mixed = np.ones((3, 3), np.int16)
    mixed[0, 1], mixed[1, 2] = -30000, 20000
    with pytest.raises(UsageError, match="times is not associative where paths"):
        closed(ArraySource(mixed), "min_plus", "1x2", block=1)


def test_what_is_no_problem_is_refused() -> None:
    with pytest.raises(UsageError, match="a graph is a square matrix of weights"):
        closed(ArraySource(np.ones((2, 3))), "min_plus", "1x1")
    with pytest.raises(UsageError, match="unknown path problem\nnote: found 'short'"):
        solve(paths, ArraySource(np.ones((2, 2))), "1x1", "short")


def test_what_does_not_fit_a_machine_is_refused_before_it_is_read(monkeypatch) -> None:
    monkeypatch.setattr("loopwright.paths.graph_input.available_bytes", lambda: 10**6)
    monkeypatch.setattr("socket.gethostname", lambda: "here")

    def never(box):
        raise AssertionError("read before it was refused")

    with pytest.raises(RoomError) as caught:
        closed(CallbackSource((2000, 2000), np.float64, never), "min_plus", "2x2")
    assert str(caught.value).startswith(
        "the part of here, 4 of 4 ranks, takes 32,000,000 bytes\n"
        "note: found 1,000,000 bytes of free memory"
    )
