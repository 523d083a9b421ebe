"""Closures over any semiring: laws, cycles, memory, and how refusals read."""

import math
import pickle

import numpy as np
import pytest

import loopwright as lw
from loopwright.paths import graph_input
from loopwright.semirings import make_semiring, maximum, minimum


def test_squaring_gives_the_same() -> None:
    rng = np.random.default_rng(1)
    given = rng.integers(0, 9, (30, 30)).astype(float)
    for ring in ("min_plus", "max_min"):
        whole = lw.paths.closure(given, ring)
        out = np.empty_like(given)
        assert lw.paths.closure(given, ring, method="squaring", out=out) is out
        np.testing.assert_array_equal(out, whole)


def test_paths_of_acyclic_graphs_are_counted() -> None:
    n = 150  # more than one block; steps of one or two: Fibonacci's numbers, modulo 2^64
    given = np.zeros((n, n), np.uint64)
    for step in (1, 2):
        given[np.arange(n - step), np.arange(step, n)] = 1
    order = np.random.default_rng(2).permutation(n)
    place = np.argsort(order)
    counts = lw.paths.closure(given[np.ix_(order, order)], "plus_times")
    numbers = [1, 1]
    while len(numbers) < n:
        numbers.append((numbers[-1] + numbers[-2]) % 2**64)
    assert counts[place[0]][place].tolist() == numbers


def test_cycles_are_refused_for_sums_that_count() -> None:
    ring_of_three = np.zeros((4, 4))
    ring_of_three[[0, 1, 2], [1, 2, 0]] = 1
    with pytest.raises(lw.paths.CycleError) as refused:
        lw.paths.closure(ring_of_three, "plus_times")
    cycle = refused.value.cycle
    assert cycle[0] == cycle[-1]
    assert sorted(cycle[1:]) == [0, 1, 2]
    assert str(refused.value) == (
        "plus_times: plus is not idempotent (one plus one is not one), so that every path counts,"
        f" and a cycle makes infinitely many\nnote: found {' -> '.join(map(str, cycle))}\n"
        "try: an acyclic graph, or an idempotent semiring such as min_plus"
    )
    again = pickle.loads(pickle.dumps(refused.value))
    assert (again.cycle, str(again)) == (cycle, str(refused.value))


def test_a_users_semiring() -> None:
    """Capacities that lose one at every edge, by functions."""
    ring = make_semiring(
        "worn", lambda x, y: maximum(x, y), lambda x, y: minimum(x, y), zero=-np.inf, one=np.inf
    )
    rng = np.random.default_rng(3)
    given = rng.integers(0, 50, (140, 140)).astype(float)
    np.testing.assert_array_equal(lw.paths.closure(given, ring), lw.paths.widest(given))


@pytest.mark.parametrize("size", [6, 90])
def test_negative_cycles_are_named(size: int) -> None:
    rng = np.random.default_rng(size)
    weights = np.where(rng.random((size, size)) < 0.3, rng.integers(5, 9, (size, size)), np.inf)
    ends = rng.permutation(size)[:4]
    weights[ends, np.roll(ends, -1)] = [-3, 1, -2, 3]
    finite = np.where(np.isinf(weights), 0, weights).astype(np.int32)
    whole = np.where(np.isinf(weights), np.iinfo("int32").max, finite)
    for given in (weights, whole)[: 2 if size < 10 else 1]:
        with pytest.raises(lw.paths.CycleError) as refused:
            lw.paths.shortest(given)
        cycle = list(refused.value.cycle)
        assert cycle[0] == cycle[-1]
        assert weights[cycle[:-1], cycle[1:]].sum() < 0
        with pytest.raises(lw.paths.CycleError, match="negative"):
            lw.paths.shortest(given, predecessors=True)
        with pytest.raises(lw.paths.CycleError, match="positive"):
            lw.paths.longest(-weights, absent=-np.inf)


def test_texts_of_cycles() -> None:
    weights = np.array([[np.inf, 1.0], [-2.0, np.inf]])
    with pytest.raises(lw.paths.CycleError) as refused:
        lw.paths.shortest(weights)
    assert str(refused.value) in {
        "a cycle of negative weight: paths along it have no best one\n"
        f"note: found {cycle}\n"
        "try: walks of at most `edges` edges (longest, least_reliable), or another graph"
        for cycle in ("0 -> 1 -> 0", "1 -> 0 -> 1")
    }
    with pytest.raises(lw.paths.CycleError) as refused:
        lw.paths.shortest(weights, out=weights)
    assert str(refused.value) == (
        "a cycle of negative weight: paths along it have no best one\n"
        "note: found vertex 0, which it passes\n"
        "try: without out= being the matrix itself the whole cycle is told"
    )
    with pytest.raises(lw.paths.CycleError, match="a cycle of a product below 1"):
        lw.paths.least_reliable(np.full((2, 2), 0.5))


def test_a_cycle_that_only_rounds_below_zero_is_none() -> None:
    rng = np.random.default_rng(1)
    x, y, u = rng.random((3, 10_000))
    z = np.nextafter(-(x + y + u), 0)
    # As the elimination adds them, over vertices 0, 1 and 2, and exactly.
    rounded = ((z + x) + y) + u
    edges = np.stack([x, y, u, z], axis=1)
    place = next(k for k in np.flatnonzero(rounded < 0) if math.fsum(edges[k]) >= 0)
    weights = np.full((4, 4), np.inf)
    weights[[0, 1, 2, 3], [1, 2, 3, 0]] = edges[place]
    found = lw.paths.shortest(weights)
    assert found.diagonal().tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: lw.paths.shortest(np.zeros((2, 3))),
            "a graph is a square matrix of weights\nnote: found shape (2, 3)\n"
            "try: element (i, j) is the weight of the edge from i to j",
        ),
        (
            lambda: lw.paths.shortest(np.array([[0, -np.inf], [1, 0]])),
            "weights have to be numbers above -inf; inf means no edge\n"
            "note: found -inf at the edge from 0 to 1\n"
            "try: absent= names another value that means no edge",
        ),
        (
            lambda: lw.paths.widest(np.array([[0, np.nan], [1, 0]])),
            "weights have to be numbers; -inf means no edge\n"
            "note: found nan at the edge from 0 to 1\n"
            "try: absent= names another value that means no edge",
        ),
        (
            lambda: lw.paths.most_reliable(np.array([[0, 0.5], [1.5, 0]])),
            "weights have to be numbers from 0 to 1; 0 means no edge\n"
            "note: found 1.5 at the edge from 1 to 0\n"
            "try: absent= names another value that means no edge",
        ),
        (
            lambda: lw.paths.least_reliable(np.array([[np.inf, 0.0], [0.5, np.inf]])),
            "weights have to be numbers above 0, up to 1; inf means no edge\n"
            "note: found 0.0 at the edge from 0 to 1\n"
            "try: absent= names another value that means no edge",
        ),
        (
            lambda: lw.paths.most_reliable(np.eye(2, dtype=int)),
            "weights have to be numbers from 0 to 1; 0 means no edge\n"
            "note: found dtype int64\ntry: float32 or float64",
        ),
        (
            lambda: lw.paths.reachability(np.zeros((2, 2))),
            "which numbers are edges is not known\nnote: found dtype float64\n"
            "try: absent=, the value that means no edge, or an array of booleans such as W < inf",
        ),
        (
            lambda: lw.paths.shortest(np.zeros((2, 2), complex)),
            "weights are numbers of 8 to 64 bits\nnote: found dtype complex128\n"
            "try: float32, float64 or an integer type",
        ),
        (
            lambda: lw.paths.shortest(np.zeros((2, 2)), sources=2),
            "a source is no vertex\nnote: found 2\ntry: 0 to 1",
        ),
        (
            lambda: lw.paths.shortest(np.zeros((2, 2)), out=np.zeros((2, 2), np.float32)),
            "out has to have shape (2, 2) and dtype float64\n"
            "note: found shape (2, 2) and dtype float32",
        ),
        (
            lambda: lw.paths.longest(np.zeros((2, 2)), edges=-1),
            "edges is a number of edges\nnote: found -1\ntry: 0 or more",
        ),
        (
            lambda: lw.paths.longest(np.zeros((2, 2)), edges=1, predecessors=True),
            "walks of at most `edges` edges have no predecessors\n"
            "try: without edges=, or values only",
        ),
        (
            lambda: lw.paths.closure(np.zeros((2, 2)), "min_plus", method="guess"),
            "unknown method\nnote: found 'guess'\ntry: elimination, squaring",
        ),
        (
            lambda: lw.paths.closure(np.array([[0, 100], [-100, 0]] , np.int8).repeat(2, 0)
                                     .repeat(2, 1), "min_plus"),
            "min_plus over int8: times is not associative where paths of 3 edges saturate\n"
            "note: found weights from -100 to 100\n"
            "try: weights of one sign, a wider type or float64",
        ),
        (
            lambda: lw.paths.closure(np.array([[0.5, -1], [1, 1]]), "max_times"),
            "max_times over float64: times does not distribute over plus on all of these weights\n"
            "note: found weights from -1.0 to 1.0\n"
            "try: factors that are not negative, and no infinity beside zeros",
        ),
        (
            lambda: lw.paths.minimum_spanning_forest(np.array([[0, 1.0], [2.0, 0]])),
            "a spanning forest is one of an undirected graph, whose matrix is symmetric\n"
            "note: found 1.0 from 0 to 1, 2.0 from 1 to 0\ntry: np.minimum(W, W.T)",
        ),
    ],
)  # fmt: skip
def test_refusals(call: object, text: str) -> None:
    with pytest.raises(lw.UsageError) as refused:
        call()  # type: ignore[operator]
    assert str(refused.value) == text


def test_memory_is_stated_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = lw.paths.bytes_needed(100, "float64")
    assert needed >= 100 * 100 * 8
    assert lw.paths.bytes_needed(100, "float64", predecessors=True) > needed + 100 * 100 * 4
    monkeypatch.setattr(graph_input, "_UNASKED", 0)
    monkeypatch.setattr(graph_input, "available_bytes", lambda: needed - 1)
    weights = np.zeros((100, 100))
    with pytest.raises(MemoryError) as refused:
        lw.paths.shortest(weights)
    assert str(refused.value) == (
        f"the closure of 100 vertices takes {needed:,} bytes\n"
        f"note: found {needed - 1:,} bytes of free memory\n"
        "try: sources=, a smaller element type, or out= with the matrix itself"
    )
    assert lw.paths.shortest(weights, out=weights) is weights
