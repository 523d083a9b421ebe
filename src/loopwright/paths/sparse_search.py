"""Paths over sparse graphs by search: where no edge is better than the empty path.

A search from one vertex takes as long as some hundred pairs of the elimination for each vertex, and
some ten for each edge (figures: `docs/paths.md`), which is less than n^2 pairs on sparse graphs.
"""

from __future__ import annotations

import numpy as np

from loopwright.ir.dtypes import dtype_of
from loopwright.paths.graph_input import UFUNCS, SparseGraph, absent_value
from loopwright.paths.graph_search import Adjacency, best_first, breadth_first
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import Semiring

__all__ = ["is_searchable", "search_from", "search_pairs"]

# Pairs of an elimination that take as long as a vertex, and as an edge, of a search.
VERTEX_PAIRS, EDGE_PAIRS = 300.0, 28.0
_ELEMENTS = 1 << 21  # of the rows that are searched at a time: their order is not kept


def is_searchable(graph: SparseGraph, ring: Semiring) -> bool:
    """Whether vertices are final in the order of their values: no weight is better than one."""
    if ring.plus == "or":
        return True
    if ring.plus not in ("min", "max") or ring.times not in ("add", "mul", "min", "max"):
        return False
    one = np.asarray(ring.one(dtype_of(graph.dtype)), graph.dtype)
    return bool((UFUNCS[ring.plus](graph.weights, one) == one).all())


def search_pairs(graph: SparseGraph, sources: int) -> float:
    """Pairs of the elimination that take as long as searches from so many vertices."""
    return sources * (VERTEX_PAIRS * graph.size + EDGE_PAIRS * len(graph.weights))


def search_from(
    graph: SparseGraph, ring: Semiring, sources: Array, threads: int
) -> tuple[Array, Array]:
    """Values of best paths from the sources, and the predecessors of all vertices."""
    adjacency, begin_of = _adjacency(graph, ring)
    n = graph.size
    values = np.empty((len(sources), n), graph.dtype)
    before = np.empty((len(sources), n), np.int32)
    step = max(threads, _ELEMENTS // max(n, 1))
    # Edge -1, of vertices that are not reached, has predecessor -1.
    begin_of = np.append(begin_of, np.int32(-1))
    for first in range(0, len(sources), step):
        here = slice(first, first + step)
        if ring.plus == "or":
            found = breadth_first(adjacency, sources[here], threads)
            values[here] = found.values >= 0
        else:
            found = best_first(adjacency, ring, sources[here], threads)
            values[here] = found.values
        np.take(begin_of, found.edges, out=before[here], mode="wrap")
    return values, before


def _adjacency(graph: SparseGraph, ring: Semiring) -> tuple[Adjacency, Array]:
    """The edges that are there, and the vertices they begin at."""
    kept = graph.weights != absent_value(ring, graph.dtype)
    rows, columns, weights = graph.rows, graph.columns, graph.weights
    if not kept.all():
        rows, columns, weights = rows[kept], columns[kept], weights[kept]
    begins = np.searchsorted(rows, np.arange(graph.size + 1)).astype(np.int64)
    ends = np.ascontiguousarray(columns, np.int32)
    return Adjacency(begins, ends, np.ascontiguousarray(weights)), rows.astype(np.int32)
