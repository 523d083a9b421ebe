"""Minimum spanning forests of undirected graphs, from minimax paths."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.paths.graph_input import absent_value, read_graph, to_dense
from loopwright.paths.problems import minimax
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import SEMIRINGS

__all__ = ["minimum_spanning_forest"]


def minimum_spanning_forest(
    graph: Any, *, absent: Any = None, threads: int | None = None
) -> tuple[Array, Array]:
    """The edges of a minimum spanning forest, shape (m, 2) with i < j, and their weights.

    The graph is undirected: a symmetric matrix. An edge can belong to a minimum forest exactly if
    no path between its ends stays below it, that is, if its weight is the minimax value of its
    ends. Of those, edges are taken in the order of weight, i, j where they close no cycle: this is
    the rule for ties, and the order of the result.
    """
    ring = SEMIRINGS["min_max"]
    weights = to_dense(read_graph(graph, ring, absent), ring)
    n = len(weights)
    if not np.array_equal(weights, weights.T):
        x, y = (int(places[0]) for places in np.nonzero(weights != weights.T))
        raise UsageError(
            "a spanning forest is one of an undirected graph, whose matrix is symmetric",
            found=f"{weights[x, y]} from {x} to {y}, {weights[y, x]} from {y} to {x}",
            hint="np.minimum(W, W.T)",
        )
    least = np.asarray(minimax(weights, threads=threads))
    i, j = np.nonzero(np.triu(weights == least, 1))
    there = weights[i, j] != absent_value(ring, weights.dtype)
    i, j = i[there], j[there]
    order = np.lexsort((j, i, weights[i, j]))
    parent = list(range(n))

    def root(vertex: int) -> int:
        while parent[vertex] != vertex:
            parent[vertex] = parent[parent[vertex]]
            vertex = parent[vertex]
        return vertex

    taken = []
    for place in order.tolist():
        ends = root(int(i[place])), root(int(j[place]))
        if ends[0] != ends[1]:
            parent[ends[1]] = ends[0]
            taken.append(place)
    edges = np.stack([i[taken], j[taken]], axis=1) if taken else np.zeros((0, 2), np.int64)
    return edges, weights[edges[:, 0], edges[:, 1]]
