"""Paths themselves: their values, their edges, and that following predecessors ends."""

import numpy as np
import pytest

import loopwright as lw
from loopwright.paths import routes as routes_module
from loopwright.paths.rising_rows import rows_in_doubt
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


def test_cycles_of_weight_zero_do_not_trap_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """All weights zero, and pairs of vertices joined by edges of weight zero both ways."""
    monkeypatch.setattr(routes_module, "ROUTE_BLOCK", 3)
    # Rows that do not end would be made again: here none may need it.
    monkeypatch.setattr(routes_module, "_mend", lambda *_: None)
    rng = np.random.default_rng(1)
    for _ in range(30):
        n = int(rng.integers(4, 14))
        weights = np.where(rng.random((n, n)) < 0.35, rng.integers(0, 2, (n, n)) * 1.0, np.inf)
        both = rng.random((n, n)) < 0.2
        weights[both | both.T] = 0
        height = rng.integers(-9, 9, n)
        for given in (weights, weights + height[:, None] - height):
            found = lw.paths.shortest(given, predecessors=True)
            check_routes("shortest", given, found)


def test_rounding_that_breaks_predecessors_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = random_weights("shortest", 12, 0.4, 3) + 1
    right = lw.paths.shortest(weights, predecessors=True)
    damaged = right.predecessors.copy()
    damaged[4, 7], damaged[4, 8] = 8, 7
    values = right.distances.copy()
    graph = routes_module.DenseGraph(weights, is_users=True)
    routes_module._mend(graph, lw.semirings.SEMIRINGS["min_plus"], values, damaged, 1)
    check_routes("shortest", weights, lw.paths.Routes(values, damaged, right.sources))


@pytest.mark.parametrize("kind", ["float32", "float64", "int8", "uint16", "bool"])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_along_which_values_rise_or_fall_need_no_other_check(kind: str, threads: int) -> None:
    values = np.array([[3, 2, 1, 0]] * 5).astype(kind)
    before = np.array(
        [
            [-1, 0, 1, 2],  # rises
            [1, 2, 3, -1],  # falls
            [-1, 0, 3, -1],  # both
            [1, 0, -1, -1],  # a cycle
            [-1, -1, -1, -1],  # nothing
        ],
        np.int32,
    )
    equal = {0, 1} if kind == "bool" else set()  # 3, 2 and 1 are the same there
    found = set(rows_in_doubt(values, before, threads).tolist())
    assert found == {2, 3} | equal
    with_nan = values.astype(float)
    with_nan[0, 1] = np.nan
    assert 0 in rows_in_doubt(with_nan, before, threads)


def test_large_graphs_with_floats_that_round() -> None:
    rng = np.random.default_rng(8)
    n = 300
    weights = np.where(rng.random((n, n)) < 0.05, rng.random((n, n)), np.inf)
    found = lw.paths.shortest(weights, predecessors=True)
    np.testing.assert_allclose(found.distances, lw.paths.shortest(weights), rtol=1e-13)
    for i, j in rng.integers(0, n, (200, 2)).tolist():
        path = found.path(i, j)
        if path:
            value = value_of_path("shortest", weights, path)
            assert value == pytest.approx(found.distances[i, j], rel=1e-13)


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
