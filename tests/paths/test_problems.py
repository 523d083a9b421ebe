"""The seven path problems against brute force and scipy."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components, floyd_warshall

import loopwright as lw
from loopwright.paths.elimination import add_one, block_size, eliminate
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


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
def test_integers_saturate(dtype: str) -> None:
    top = np.iinfo(dtype).max
    for seed, n in enumerate(SIZES):
        weights = random_weights("shortest", n, 0.2, seed)
        right = brute_force("shortest", weights)
        given, wanted = (
            np.where(np.isinf(x), top, np.where(np.isinf(x), 0, x).astype(dtype))
            for x in (weights, right)
        )
        found = lw.paths.shortest(given)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)
    far = np.full((3, 3), top, dtype)
    far[0, 1] = far[1, 2] = top - 1
    assert lw.paths.shortest(far)[0].tolist() == [0, top - 1, top]


def test_unsigned_capacities_and_heights() -> None:
    rng = np.random.default_rng(5)
    given = rng.integers(0, 200, (23, 23)).astype(np.uint8)
    widest, minimax = lw.paths.widest(given), lw.paths.minimax(given)
    right = given.astype(int).copy()
    low = right.copy()
    for k in range(23):
        right = np.maximum(right, np.minimum(right[:, k : k + 1], right[k]))
        low = np.minimum(low, np.maximum(low[:, k : k + 1], low[k]))
    np.fill_diagonal(right, 255)
    np.fill_diagonal(low, 0)
    np.testing.assert_array_equal(widest, right)
    np.testing.assert_array_equal(minimax, low)


def test_negative_edges_without_negative_cycles() -> None:
    rng = np.random.default_rng(3)
    for n in (2, 9, 40):
        weights = random_weights("shortest", n, 0.3, n)
        height = rng.integers(-20, 20, n)
        moved = weights + height[:, None] - height
        np.testing.assert_array_equal(lw.paths.shortest(moved), brute_force("shortest", moved))


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


def test_products_that_underflow_stop_at_the_least_normal_number() -> None:
    n = 60
    weights = np.full((n, n), np.inf, np.float32)
    weights[np.arange(n - 1), np.arange(1, n)] = 0.01
    found = lw.paths.least_reliable(weights)
    assert found[0, n - 1] == np.finfo(np.float32).tiny
    assert found[0, 3] == pytest.approx(1e-6)
    assert found[3, 0] == np.inf
    assert not np.isnan(found).any()


def test_reachability_of_booleans_and_integers() -> None:
    rng = np.random.default_rng(2)
    for n in SIZES:
        edges = rng.random((n, n)) < 1.5 / max(n, 1)
        right = edges | np.eye(n, dtype=bool)
        for k in range(n):
            right |= right[:, k : k + 1] & right[k]
        np.testing.assert_array_equal(lw.paths.reachability(edges), right)
        np.testing.assert_array_equal(lw.paths.reachability(edges * 3), right)
        weights = np.where(edges, 0.0, np.inf)
        np.testing.assert_array_equal(lw.paths.reachability(weights, absent=np.inf), right)


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


def larger_graph() -> np.ndarray:
    rng = np.random.default_rng(4)
    n = 300
    return np.where(rng.random((n, n)) < 0.03, rng.integers(1, 50, (n, n)), np.inf)


def test_shortest_paths_of_a_larger_graph_against_scipy() -> None:
    weights = larger_graph()
    np.testing.assert_array_equal(lw.paths.shortest(weights), floyd_warshall(weights))


@pytest.mark.only_in_all("a dozen kernels of another semiring")
def test_reachability_in_a_larger_graph_against_scipy() -> None:
    weights = larger_graph()
    both = np.minimum(weights, weights.T)
    _, label = connected_components(np.isfinite(both))
    joined = lw.paths.reachability(np.isfinite(both))
    np.testing.assert_array_equal(joined, label[:, None] == label)


def test_the_block_grows_with_the_matrix_and_shrinks_with_threads() -> None:
    sizes = [block_size(n) for n in (200, 500, 1000, 2000, 4096, 10**6)]
    assert sizes == sorted(sizes)
    assert block_size(128) == 128
    assert block_size(2048, 2) < block_size(2048, 1) <= 256


def test_no_block_is_much_smaller_than_the_others() -> None:
    for threads in (1, 2, 3, 16):
        for n in (*range(129, 700, 7), 2000, 2048, 4096):
            block = block_size(n, threads)
            blocks = -(-n // block)
            assert n - (blocks - 1) * block > block - 4 * blocks


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


def test_the_graph_itself_may_take_the_result() -> None:
    weights = random_weights("shortest", 30, 0.2, 1)
    right = lw.paths.shortest(weights)
    before = weights.copy()
    assert lw.paths.shortest(weights, out=weights) is weights
    np.testing.assert_array_equal(weights, right)
    other = np.empty_like(before)
    assert lw.paths.shortest(before, out=other) is other
    np.testing.assert_array_equal(other, right)
    rows = np.empty((2, 30))
    assert lw.paths.shortest(before, sources=[3, 4], out=rows) is rows
    np.testing.assert_array_equal(rows, right[[3, 4]])


def test_absent_names_another_value() -> None:
    given = np.array([[0, 3, -1], [-1, 0, 4], [-1, -1, 0]])
    found = lw.paths.shortest(given, absent=-1)
    top = np.iinfo(given.dtype).max
    assert found.tolist() == [[0, 3, 7], [top, 0, 4], [top, top, 0]]
    holes = np.array([[np.nan, 2.0], [np.nan, np.nan]])
    assert lw.paths.shortest(holes, absent=np.nan).tolist() == [[0, 2], [np.inf, 0]]
