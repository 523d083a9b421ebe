"""Searches of sparse graphs against plain Python: values, order, ties, limits, cycles."""

import heapq
import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import loopwright as lw
from drawn import combined
from loopwright.paths.graph_input import read_graph
from loopwright.paths.graph_search import Adjacency, best_first, breadth_first
from loopwright.paths.queue_search import queue_search
from loopwright.paths.sparse_search import is_searchable, search_from
from loopwright.semirings import SEMIRINGS

MIN_PLUS = SEMIRINGS["min_plus"]
RINGS = {
    "shortest": "min_plus",
    "longest": "max_plus",
    "widest": "max_min",
    "minimax": "min_max",
    "most_reliable": "max_times",
}


def drawn_graph(seed: int, low: int) -> Adjacency:
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 30))
    m = int(random.integers(0, 4 * n + 1))
    rows = np.sort(random.integers(0, n, m))
    ends = random.integers(0, n, m).astype(np.int32)
    begins = np.searchsorted(rows, np.arange(n + 1)).astype(np.int64)
    return Adjacency(begins, ends, random.integers(low, 4, m).astype(np.float64))


def search(graph: Adjacency, source: int, limit: float | None) -> tuple[dict[int, float], bool]:
    """Dijkstra's search with a heap of (value, number of the push); whether it met a worse end."""
    done: dict[int, float] = {}
    seen = {source: 0.0}
    number = itertools.count()
    heap = [(0.0, next(number), source)]
    while heap:
        value, _, v = heapq.heappop(heap)
        if v in done:
            continue
        done[v] = value
        for e in range(graph.begins[v], graph.begins[v + 1]):
            u, found = int(graph.ends[e]), value + graph.weights[e]
            if limit is not None and found > limit:
                continue
            if u in done:
                if found < done[u]:
                    return done, True
            elif u not in seen or found < seen[u]:
                seen[u] = found
                heapq.heappush(heap, (found, next(number), u))
    return done, False


@pytest.mark.drawn(2)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("limit", [None, 3.0, 0.0])
def test_best_first(limit: float | None, threads: int) -> None:
    for seed in range(25):
        graph = drawn_graph(seed, -1 if seed % 5 == 0 else 0)
        every = np.arange(graph.size)
        found = best_first(graph, MIN_PLUS, every, threads, limit, is_ordered=True)
        plain = best_first(graph, MIN_PLUS, every, threads, limit)
        for source in range(graph.size):
            wanted, has_failed = search(graph, source, limit)
            assert bool(found.failed[source]) is has_failed
            if has_failed:
                continue
            order = found.order[source, : found.count[source]].tolist()
            assert order == list(wanted)
            assert found.values[source, order].tolist() == list(wanted.values())
            np.testing.assert_array_equal(found.values[source], plain.values[source])


def test_breadth_first() -> None:
    for seed in range(20):
        graph = drawn_graph(seed, 0)
        ones = Adjacency(graph.begins, graph.ends, np.ones(len(graph.ends)))
        for limit in (None, 0, 2):
            found = breadth_first(graph, np.arange(graph.size), 2, limit)
            for source in range(graph.size):
                wanted, _ = search(ones, source, limit)
                order = found.order[source, : found.count[source]].tolist()
                assert order == list(wanted)
                assert found.values[source, order].tolist() == list(wanted.values())
                assert (np.delete(found.values[source], order) == -1).all()


def test_queue_search_takes_negative_weights_and_tells_cycles() -> None:
    begins, ends = np.array([0, 1, 2, 3], np.int64), np.array([1, 2, 1], np.int32)
    chain = Adjacency(begins, ends, np.array([4.0, -3.0, 3.0]))
    found = queue_search(chain, np.arange(3)[:, None], 1)
    assert found.values[0].tolist() == [0, 4, 1]
    assert found.failed.tolist() == [0, 0, 0]
    worse = Adjacency(begins, ends, np.array([4.0, -3.0, 2.0]))
    assert queue_search(worse, np.arange(3)[:, None], 2).failed.tolist() == [1, 1, 1]
    assert queue_search(worse, np.arange(3)[None, :], 1).failed.tolist() == [1]


@pytest.mark.drawn(8)
@pytest.mark.parametrize(
    ("name", "dtype"), combined(RINGS, ["float32", "float64", "int32", "uint8"], one_in=2)
)
def test_searches_equal_the_elimination(name: str, dtype: str) -> None:
    kind = np.dtype(dtype)
    if (name == "most_reliable" and kind.kind != "f") or (name == "longest" and kind.kind == "u"):
        pytest.skip("no weights of this type")
    random = np.random.default_rng(7)
    graph = sp.random_array((70, 70), density=0.05, rng=random, format="coo")
    graph.data = np.round(graph.data * 8)
    if name == "longest":
        graph.data = -graph.data
    if name == "most_reliable":
        graph.data = graph.data / 8
    graph = graph.astype(kind)
    ring = SEMIRINGS[RINGS[name]]
    found = read_graph(graph, ring)
    assert is_searchable(found, ring)
    values, before = search_from(found, ring, np.arange(70), 2)
    solve = getattr(lw.paths, name)
    routes = solve(graph, predecessors=True)
    np.testing.assert_array_equal(values, solve(graph))
    np.testing.assert_array_equal(routes.distances, values)
    for i in range(0, 70, 13):
        for j in range(70):
            assert bool(routes.path(i, j)) == (i == j or before[i, j] >= 0)


def test_only_weights_that_are_no_better_than_one_are_searched() -> None:
    graph = sp.coo_array(([1.0, -1.0], ([0, 1], [1, 2])), shape=(3, 3))
    assert not is_searchable(read_graph(graph, MIN_PLUS), MIN_PLUS)
    assert lw.paths.shortest(graph, sources=0).tolist() == [0, 1, 0]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("predecessors", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_memory_is_as_stated(dtype: str, predecessors: bool) -> None:
    n = 600
    graph = np.random.default_rng(0).random((n, n)).astype(dtype)
    lw.paths.shortest(graph, predecessors=predecessors, threads=1)
    tracemalloc.start()
    lw.paths.shortest(graph, predecessors=predecessors, threads=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    needed = lw.paths.bytes_needed(n, dtype, predecessors=predecessors)
    assert 0.7 * needed < peak <= 1.02 * needed
