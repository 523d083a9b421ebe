"""Sparse matrices of scipy, several edges at one place, and rows of some sources."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

import loopwright as lw
from loopwright.paths.graph_input import read_graph
from loopwright.paths.sources import is_sparse_enough
from loopwright.semirings import SEMIRINGS


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


def test_sparse_graphs_by_iterations_and_by_elimination() -> None:
    """A ring needs as many iterations as it has vertices: more than the elimination costs."""
    n = 200
    chain = sp.coo_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    steps = (np.arange(n) - np.arange(n)[:, None]) % n
    np.testing.assert_array_equal(lw.paths.shortest(chain, sources=np.arange(n)), steps)
    np.testing.assert_array_equal(lw.paths.shortest(chain), steps)
    few = read_graph(chain, SEMIRINGS["min_plus"])
    ring = SEMIRINGS["min_plus"]
    assert is_sparse_enough(few, ring, 1)
    assert not is_sparse_enough(read_graph(np.ones((9, 9)), ring), ring, 1)


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
