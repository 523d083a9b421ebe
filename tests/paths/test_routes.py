"""Paths themselves, and searches of sparse graphs, against plain Python."""

import heapq
import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import loopwright as lw
from drawn import combined
from loopwright.paths import routes as routes_module
from loopwright.paths.graph_input import read_graph
from loopwright.paths.graph_search import Adjacency, best_first
from loopwright.paths.sparse_search import is_searchable, search_from
from loopwright.semirings import SEMIRINGS
from paths.graphs import PROBLEMS, brute_force, random_weights, value_of_path


def check_routes(problem: str, weights: np.ndarray, found: lw.paths.Routes) -> None:
    """Every path has edges of the graph and the value of its element."""
    _, _, absent, _ = PROBLEMS[problem]
    n = found.distances.shape[1]
    for row, i in enumerate(found.sources.tolist()):
        for j in range(n):
            path = found.path(i, j)
            if not path:
                assert found.distances[row, j] == absent
                assert found.predecessors[row, j] == -1
                continue
            assert (path[0], path[-1]) == (i, j)
            assert len(set(path)) == len(path)
            value = value_of_path(problem, weights, path)
            assert value == pytest.approx(float(found.distances[row, j]), rel=1e-12)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_paths_of_random_graphs(problem: str) -> None:
    for seed, n in enumerate((0, 1, 2, 8, 25)):
        weights = random_weights(problem, n, 0.25, seed)
        found = getattr(lw.paths, problem)(weights, predecessors=True)
        np.testing.assert_array_equal(found.distances, brute_force(problem, weights))
        check_routes(problem, weights, found)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("problem", ["shortest", "widest", "most_reliable"])
def test_paths_over_several_blocks(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_module, "ROUTE_BLOCK", 4)
    for seed in range(6):
        n = 11 + 3 * seed
        weights = random_weights(problem, n, 0.2, seed)
        if problem == "shortest":
            weights = np.where(np.isinf(weights), weights, np.maximum(weights - 4, 0))
        found = getattr(lw.paths, problem)(weights, predecessors=True)
        np.testing.assert_array_equal(found.distances, brute_force(problem, weights))
        check_routes(problem, weights, found)


def test_rounding_that_breaks_predecessors_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = random_weights("shortest", 12, 0.4, 3) + 1
    right = lw.paths.shortest(weights, predecessors=True)
    damaged = right.predecessors.copy()
    damaged[4, 7], damaged[4, 8] = 8, 7
    values = right.distances.copy()
    graph = routes_module.DenseGraph(weights, is_users=True)
    routes_module._mend(graph, lw.semirings.SEMIRINGS["min_plus"], values, damaged, 1)
    check_routes("shortest", weights, lw.paths.Routes(values, damaged, right.sources))


def test_paths_from_sources() -> None:
    weights = random_weights("shortest", 30, 0.1, 2)
    found = lw.paths.shortest(weights, sources=[5, 0], predecessors=True)
    assert found.distances.shape == (2, 30)
    check_routes("shortest", weights, found)
    with pytest.raises(lw.UsageError) as refused:
        found.path(1, 2)
    assert str(refused.value) == "paths from vertex 1 were not asked for\ntry: sources="
    with pytest.raises(lw.UsageError) as refused:
        found.path(5, 30)
    assert str(refused.value) == "no such vertex\nnote: found 30\ntry: 0 to 29"


def test_reachability_has_paths() -> None:
    edges = np.zeros((5, 5), bool)
    edges[[0, 1, 3], [1, 2, 0]] = True
    found = lw.paths.reachability(edges, predecessors=True)
    assert found.path(3, 2) == [3, 0, 1, 2]
    assert found.path(2, 3) == []
    assert found.path(4, 4) == [4]


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
