"""Paths from some vertices only: semiring iterations, over dense and sparse graphs.

    X <- X plus X times A           until nothing changes (Bellman and Ford over a semiring)

Sparse graphs in which no edge is better than the empty path are searched instead (`sparse_search`).

An iteration costs k n^2 pairs, or k times the edges of a sparse graph; how many are needed is the
number of edges of the longest best path, which nobody knows before. So iterations go on until they
have cost as much as the elimination would, n^3 pairs; then the subgraph that the sources reach is
closed. The whole costs at most twice the better of both ways.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import dtype_of
from loopwright.paths.cycles import CycleError
from loopwright.paths.elimination import add_product
from loopwright.paths.graph_input import (
    UFUNCS,
    DenseGraph,
    SparseGraph,
    absent_value,
    require_room,
    to_dense,
)
from loopwright.paths.semiring_closure import close, shown
from loopwright.paths.sparse_search import is_searchable, search_from, search_pairs
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import Semiring

__all__ = [
    "checked_sources",
    "first_values",
    "is_sparse_enough",
    "iterate",
    "paths_from",
    "step_of",
]

# Pairs of a product with a sparse matrix are taken to cost this many times those of a dense one:
# gathered rows of X against register tiles. An estimate, not yet measured.
SPARSE_PAIR = 16.0
_EXPECTED = 32  # iterations that a sparse graph of which nothing is known is taken to need: a guess


def checked_sources(sources: Any, n: int) -> Array:
    """The vertices named, as an array of one dimension."""
    given = np.atleast_1d(np.asarray(sources))
    if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
        raise UsageError("sources are numbers of vertices", found=repr(sources)[:60])
    given = given.astype(np.int64)
    if given.size and (given.min() < 0 or given.max() >= n):
        bad = int(given[(given < 0) | (given >= n)][0])
        raise UsageError("a source is no vertex", found=str(bad), hint=f"0 to {n - 1}")
    return given


def is_sparse_enough(graph: DenseGraph | SparseGraph, ring: Semiring, sources: int) -> bool:
    """Whether searches, or iterations over edges, are expected to be cheaper than elimination."""
    if isinstance(graph, DenseGraph):
        return False
    if is_searchable(graph, ring):
        return search_pairs(graph, sources) < float(graph.size) ** 3
    work = SPARSE_PAIR * sources * len(graph.weights) * _EXPECTED
    return work < float(graph.size) ** 3


def paths_from(
    graph: DenseGraph | SparseGraph, ring: Semiring, sources: Array, threads: int
) -> Array:
    """The rows of the closure that belong to the sources."""
    n, k = graph.size, len(sources)
    room = 4 * k * n * graph.dtype.itemsize
    require_room(room, f"paths from {k:,} of {n:,} vertices")
    x = first_values(graph, ring, sources)
    if not k or not n:
        return x
    if isinstance(graph, SparseGraph) and is_searchable(graph, ring):
        if search_pairs(graph, k) < float(n) ** 3:
            return search_from(graph, ring, sources, threads)[0]
        return _by_elimination(graph, ring, sources, threads)
    found = iterate(graph, ring, x, _most_iterations(graph, k), threads)
    return found if found is not None else _by_elimination(graph, ring, sources, threads)


def _most_iterations(graph: DenseGraph | SparseGraph, k: int) -> int:
    """After how many iterations the elimination would have been as cheap."""
    n = graph.size
    edges = n * n if isinstance(graph, DenseGraph) else SPARSE_PAIR * len(graph.weights)
    return int(n**3 / (k * max(edges, 1))) + 1


def first_values(graph: DenseGraph | SparseGraph, ring: Semiring, sources: Array) -> Array:
    """The empty paths: one at each source, no path elsewhere."""
    x = np.full((len(sources), graph.size), absent_value(ring, graph.dtype), graph.dtype)
    x[np.arange(len(sources)), sources] = ring.one(dtype_of(graph.dtype))
    return x


def iterate(
    graph: DenseGraph | SparseGraph, ring: Semiring, x: Array, most: int, threads: int
) -> Array | None:
    """x, x plus x times A, ... until nothing changes; None where that takes too many iterations.

    After n iterations without an end there is a cycle that improves, which is for the elimination
    to report.
    """
    step = step_of(graph, ring, threads)
    for _ in range(min(most, graph.size + 1)):
        after = step(x)
        if np.array_equal(after, x):
            return after
        x = after
    return None


def step_of(
    graph: DenseGraph | SparseGraph, ring: Semiring, threads: int
) -> Callable[[Array], Array]:
    """The function from x to x plus x times A."""
    if isinstance(graph, SparseGraph):
        return _sparse_step(graph, ring, threads)
    matrix = graph.matrix

    def step(x: Array) -> Array:
        after = x.copy()
        add_product(after, x, matrix, ring, threads)
        return after

    return step


def _sparse_step(graph: SparseGraph, ring: Semiring, threads: int) -> Callable[[Array], Array]:
    """The same by products with a sparse matrix."""
    # lazy: the sparse road, for sparse graphs only
    from loopwright.sparse.executors.sparse_einsum import spmm
    from loopwright.sparse.tensor import sparse_tensor  # lazy: likewise

    n = graph.size
    plus = UFUNCS[ring.plus]
    order = np.lexsort((graph.rows, graph.columns))  # of the transposed matrix
    begins = np.searchsorted(graph.columns[order], np.arange(n + 1))
    arrays = {"rowptr": begins, "col": graph.rows[order]}
    entries = sparse_tensor("csr", (n, n), arrays, graph.weights[order])

    def step(x: Array) -> Array:
        moved = spmm(entries, np.ascontiguousarray(x.T), semiring=ring, threads=threads)
        return np.asarray(plus(x, moved.T))

    return step


def _by_elimination(
    graph: DenseGraph | SparseGraph, ring: Semiring, sources: Array, threads: int
) -> Array:
    """The same by closing what the sources reach: cycles elsewhere are nobody's concern."""
    absent = absent_value(ring, graph.dtype)
    if isinstance(graph, DenseGraph):
        rows, columns = np.nonzero(graph.matrix != absent)
    else:
        rows, columns = graph.rows, graph.columns
    reached = np.zeros(graph.size, bool)
    reached[sources] = True
    while True:
        more = columns[reached[rows] & ~reached[columns]]
        if not more.size:
            break
        reached[more] = True
    inside = np.flatnonzero(reached)
    number = np.cumsum(reached) - 1
    kept = reached[rows] & reached[columns]
    if isinstance(graph, DenseGraph):
        part: DenseGraph | SparseGraph = DenseGraph(graph.matrix[np.ix_(inside, inside)], False)
    else:
        places = number[rows[kept]], number[columns[kept]]
        part = SparseGraph(len(inside), *places, graph.weights[kept])
    require_room(2 * len(inside) ** 2 * graph.dtype.itemsize, f"{len(inside):,} vertices")
    a = to_dense(part, ring)
    try:
        closed = close(DenseGraph(a, False), ring, None, threads)
    except CycleError as error:
        raise _renumbered(error, inside) from None
    result = np.full((len(sources), graph.size), absent, graph.dtype)
    result[:, inside] = closed[number[sources]]
    return result


def _renumbered(error: CycleError, inside: Array) -> CycleError:
    """The same cycle in the numbers of the whole graph."""
    cycle = tuple(inside[list(error.cycle)].tolist())
    return CycleError(error.message, shown(cycle), error.hint, cycle)
