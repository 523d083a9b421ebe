"""The path problems and closures over any semiring, against brute force; how refusals read."""

import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, dijkstra

import loopwright as lw
from loopwright.paths import graph_input
from loopwright.paths.elimination import add_one, eliminate
from loopwright.semirings import SEMIRINGS
from paths.graphs import PROBLEMS, brute_force, random_weights

SIZES = (0, 1, 2, 3, 7, 18, 40)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_random_graphs_against_brute_force(problem: str, dtype: str) -> None:
    for seed, n in enumerate(SIZES):
        for density in (0.05, 0.3, 1.0)[: 1 + n]:
            weights = random_weights(problem, n, density, seed)
            found = getattr(lw.paths, problem)(weights.astype(dtype))
            right = brute_force(problem, weights).astype(dtype)
            np.testing.assert_array_equal(found, right)
            assert found.dtype == dtype


@pytest.mark.drawn(2)
@pytest.mark.parametrize("problem", ["longest", "least_reliable"])
def test_walks_of_at_most_some_edges_on_any_graph(problem: str) -> None:
    rng = np.random.default_rng(11)
    for n, edges in ((1, 0), (5, 4), (12, 11), (12, 3), (9, 20)):
        absent = PROBLEMS[problem][2]
        drawn = rng.choice([0.5, 1.0, 0.25], (n, n))
        weights = np.where(rng.random((n, n)) < 0.4, drawn, absent)
        right = brute_force(problem, weights, edges)
        np.testing.assert_array_equal(getattr(lw.paths, problem)(weights, edges=edges), right)
        rows = getattr(lw.paths, problem)(weights, edges=edges, sources=[n - 1])
        np.testing.assert_array_equal(rows, right[[n - 1]])


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    ("ring", "threads"), [("min_plus", 1), ("min_plus", 2), ("max_min", 1), ("max_times", 1)]
)
def test_blocks_of_any_size_give_the_same(ring: str, threads: int) -> None:
    rng = np.random.default_rng(7)
    for n, block in ((33, 8), (260, 0)):
        given = rng.integers(0, 2, (n, n)) * 0.5 + 0.5
        whole, cut = given.copy(), given.copy()
        for k in range(n):
            product = {
                "min_plus": np.add, "max_min": np.minimum, "min_max": np.maximum,
                "max_times": np.multiply,
            }[ring](whole[:, k : k + 1], whole[k])  # fmt: skip
            plus = np.minimum if ring.startswith("min") else np.maximum
            whole = plus(whole, product)
        eliminate(cut, SEMIRINGS[ring], threads, block)
        add_one(whole, SEMIRINGS[ring])
        add_one(cut, SEMIRINGS[ring])
        np.testing.assert_array_equal(cut, whole)


def test_spanning_forest() -> None:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import minimum_spanning_tree

    rng = np.random.default_rng(9)
    for n in (0, 1, 2, 12, 40):
        weights = np.where(rng.random((n, n)) < 0.15, rng.integers(1, 6, (n, n)), np.inf)
        weights = np.minimum(weights, weights.T)
        edges, chosen = lw.paths.minimum_spanning_forest(weights)
        sparse = csr_matrix(np.where(np.isinf(weights), 0, weights))
        assert chosen.sum() == minimum_spanning_tree(sparse).sum()
        assert (edges[:, 0] < edges[:, 1]).all()
        parts = connected_components(np.isfinite(weights))[0] if n else 0
        assert len(edges) == n - parts
    square = np.ones((4, 4))
    assert lw.paths.minimum_spanning_forest(square)[0].tolist() == [[0, 1], [0, 2], [0, 3]]


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


def test_stored_zeros_are_edges_and_the_best_of_several_counts() -> None:
    rows, columns = [0, 0, 1, 1, 2], [1, 1, 2, 2, 2]
    graph = sp.coo_array(([5.0, 3.0, 0.0, 9.0, 4.0], (rows, columns)), shape=(4, 4))
    found = lw.paths.shortest(graph)
    inf = np.inf
    wanted = [[0, 3, 3, inf], [inf, 0, 0, inf], [inf, inf, 0, inf], [inf, inf, inf, 0]]
    assert found.tolist() == wanted
    assert lw.paths.shortest(graph, sources=[0, 3]).tolist() == [wanted[0], wanted[3]]
    width = lw.paths.widest(graph)
    assert width[0, 2] == 5  # over 5 and 9, not over 3 and 0


@pytest.mark.parametrize("form", ["csr_array", "csc_array", "coo_array", "csr_matrix"])
def test_formats_of_scipy(form: str) -> None:
    drawn = sp.random_array((60, 60), density=0.05, rng=np.random.default_rng(1), format="coo")
    drawn.data = np.ceil(drawn.data * 9)
    graph = getattr(sp, form)(drawn)
    right = dijkstra(drawn.tocsr())
    np.testing.assert_array_equal(lw.paths.shortest(graph), right)
    np.testing.assert_array_equal(lw.paths.shortest(graph, sources=[7, 2, 2]), right[[7, 2, 2]])
    np.testing.assert_array_equal(lw.paths.shortest(graph, sources=9), right[9])
    np.testing.assert_array_equal(lw.paths.reachability(graph), np.isfinite(right))


def test_paths_from_sources_of_sparse_graphs() -> None:
    drawn = sp.random_array((80, 80), density=0.04, rng=np.random.default_rng(3), format="csr")
    found = lw.paths.shortest(drawn, sources=[3, 40], predecessors=True)
    dense = np.full((80, 80), np.inf)
    entries = drawn.tocoo()
    dense[entries.row, entries.col] = entries.data
    for row, i in enumerate((3, 40)):
        for j in range(80):
            path = found.path(i, j)
            assert bool(path) == np.isfinite(found.distances[row, j])
            value = sum(dense[a, b] for a, b in pairwise(path))
            assert not path or value == pytest.approx(found.distances[row, j])


def test_cycles_that_sources_do_not_reach_do_not_matter() -> None:
    weights = np.full((5, 5), np.inf)
    weights[0, 1], weights[2, 3], weights[3, 2] = 1, -2, 1
    assert lw.paths.shortest(weights, sources=0).tolist() == [0, 1, np.inf, np.inf, np.inf]
    for graph in (weights, sp.coo_array(([1.0, -2, 1], ([0, 2, 3], [1, 3, 2])), shape=(5, 5))):
        with pytest.raises(lw.paths.CycleError) as refused:
            lw.paths.shortest(graph, sources=[2])
        assert sorted(refused.value.cycle[1:]) == [2, 3]


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


def test_products_that_underflow_stop_at_the_least_normal_number() -> None:
    n = 60
    weights = np.full((n, n), np.inf, np.float32)
    weights[np.arange(n - 1), np.arange(1, n)] = 0.01
    found = lw.paths.least_reliable(weights)
    assert found[0, n - 1] == np.finfo(np.float32).tiny
    assert found[0, 3] == pytest.approx(1e-6)
    assert found[3, 0] == np.inf
    assert not np.isnan(found).any()
