"""Lengths and paths from all vertices, and from one: dicts in the order of networkx's searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import numpy as np

from loopwright.integrations.networkx_backend.graph_arrays import LoopwrightGraph, WeightedEdges
from loopwright.integrations.networkx_backend.rows import (
    FoundRow,
    bellman_ford_rows,
    breadth_first_rows,
    dijkstra_rows,
    sources_of,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.paths.graph_search import Adjacency
from loopwright.paths.queue_search import queue_search
from loopwright.runtime.array_arguments import Array

__all__ = [
    "all_pairs_bellman_ford_path_length",
    "all_pairs_dijkstra",
    "all_pairs_dijkstra_path",
    "all_pairs_dijkstra_path_length",
    "all_pairs_shortest_path_length",
    "johnson",
    "single_source_bellman_ford_path_length",
    "single_source_dijkstra_path_length",
    "single_source_shortest_path_length",
]


@dataclass(frozen=True, slots=True)
class RowReader:
    """What rows of a search are in terms of the graph's nodes."""

    nodes: list[Any]
    begin_of: Array  # the vertex that an edge begins at

    def named(self, row: FoundRow) -> Iterator[Any]:
        return map(self.nodes.__getitem__, row.order)

    def lengths(self, row: FoundRow) -> dict[Any, Any]:
        return dict(zip(self.named(row), row.numbers(), strict=True))

    def paths(self, row: FoundRow) -> dict[Any, list[Any]]:
        """Each path is that of its last vertex but one, which comes before it in the order."""
        found: dict[int, list[Any]] = {row.source: [self.nodes[row.source]]}
        last = row.edges[row.order[1:]]
        for vertex, before in zip(row.order[1:], self.begin_of[last].tolist(), strict=True):
            found[vertex] = [*found[before], self.nodes[vertex]]
        return {self.nodes[vertex]: path for vertex, path in found.items()}


def reader(graph: LoopwrightGraph, adjacency: Adjacency) -> RowReader:
    """The reader of searches along the edges of `adjacency`."""
    begin_of = np.repeat(np.arange(adjacency.size), np.diff(adjacency.begins))
    return RowReader(graph.numbered().nodes, begin_of)


def checked(row: FoundRow) -> FoundRow:
    """A row of Dijkstra's search, or its refusal of negative weights."""
    if row.has_failed:
        raise ValueError("Contradictory paths found:", "negative weights?")
    return row


def _bounded(row: FoundRow) -> FoundRow:
    if row.has_failed:
        raise nx.NetworkXUnbounded("Negative cycle detected.")
    return row


def _each(
    read: RowReader, rows: Iterator[FoundRow], make: Callable[[FoundRow], Any]
) -> Iterator[tuple[Any, Any]]:
    return ((read.nodes[row.source], make(row)) for row in rows)


def all_pairs_shortest_path_length(
    G: LoopwrightGraph, cutoff: Any = None
) -> Iterator[tuple[Any, Any]]:
    edges = G.numbered().adjacency
    read = reader(G, edges)
    return _each(read, breadth_first_rows(edges, sources_of(G), cutoff), read.lengths)


def _dijkstra(G: LoopwrightGraph, cutoff: Any, weight: Any) -> tuple[Any, Any]:
    """The reader of a graph, and the rows of searches from all of its vertices."""
    edges = G.weighted(weight, hides=True)
    read = reader(G, edges.adjacency)
    rows = dijkstra_rows(edges, sources_of(G), cutoff)
    return read, rows


def all_pairs_dijkstra_path_length(
    G: LoopwrightGraph, cutoff: Any = None, weight: Any = "weight"
) -> Iterator[tuple[Any, Any]]:
    read, rows = _dijkstra(G, cutoff, weight)
    return _each(read, rows, lambda row: read.lengths(checked(row)))


def all_pairs_dijkstra_path(
    G: LoopwrightGraph, cutoff: Any = None, weight: Any = "weight"
) -> Iterator[tuple[Any, Any]]:
    read, rows = _dijkstra(G, cutoff, weight)
    return _each(read, rows, lambda row: read.paths(checked(row)))


def all_pairs_dijkstra(
    G: LoopwrightGraph, cutoff: Any = None, weight: Any = "weight"
) -> Iterator[tuple[Any, Any]]:
    read, rows = _dijkstra(G, cutoff, weight)
    return _each(read, rows, lambda row: (read.lengths(checked(row)), read.paths(row)))


def all_pairs_bellman_ford_path_length(
    G: LoopwrightGraph, weight: Any = "weight"
) -> Iterator[tuple[Any, Any]]:
    edges = G.weighted(weight)
    read = reader(G, edges.adjacency)
    rows = bellman_ford_rows(edges, sources_of(G))
    return _each(read, rows, lambda row: read.lengths(_bounded(row)))


def single_source_shortest_path_length(
    G: LoopwrightGraph, source: Any, cutoff: Any = None
) -> dict[Any, Any]:
    return breadth_first_from_one(G, source, cutoff)


def breadth_first_from_one(
    G: LoopwrightGraph, source: Any, cutoff: Any, direction: str = "_adj"
) -> dict[Any, Any]:
    """Numbers of edges from a node; to it where the direction is `_pred`."""
    if source not in G:
        raise nx.NodeNotFound(f"Source {source} is not in G")
    graph = G.numbered(direction)
    (row,) = breadth_first_rows(graph.adjacency, [graph.index[source]], cutoff)
    return reader(G, graph.adjacency).lengths(row)


def single_source_dijkstra_path_length(
    G: LoopwrightGraph, source: Any, cutoff: Any = None, weight: Any = "weight"
) -> dict[Any, Any]:
    return dijkstra_from_one(G, source, cutoff, weight)


def dijkstra_from_one(
    G: LoopwrightGraph, source: Any, cutoff: Any, weight: Any, direction: str = "_adj"
) -> dict[Any, Any]:
    """Sums of weights that are not negative from a node, or to it."""
    hash(source)  # as the set of sources that networkx makes
    if source not in G:
        raise nx.NodeNotFound(f"Node {source} not found in graph")
    edges = G.weighted(weight, direction, hides=True)
    (row,) = dijkstra_rows(edges, [G.numbered().index[source]], cutoff)
    return reader(G, edges.adjacency).lengths(checked(row))


def single_source_bellman_ford_path_length(
    G: LoopwrightGraph, source: Any, weight: Any = "weight"
) -> dict[Any, Any]:
    return bellman_ford_from_one(G, source, weight)


def bellman_ford_from_one(
    G: LoopwrightGraph, source: Any, weight: Any, direction: str = "_adj"
) -> dict[Any, Any]:
    """Sums of weights from a node, or to it."""
    hash(source)
    if source not in G:
        raise nx.NodeNotFound(f"Source {source} not in G")
    edges = G.weighted(weight, direction)
    (row,) = bellman_ford_rows(edges, [G.numbered().index[source]])
    return reader(G, edges.adjacency).lengths(_bounded(row))


def johnson(G: LoopwrightGraph, weight: Any = "weight") -> dict[Any, dict[Any, list[Any]]]:
    edges = G.weighted(weight)
    n = len(G)
    if not n:
        return {}
    found = queue_search(edges.adjacency, np.arange(n)[None, :], 1)
    if found.failed[0]:
        raise nx.NetworkXUnbounded("Negative cycle detected.")
    read = reader(G, edges.adjacency)
    start = edges.adjacency
    # In the order of networkx, for the same rounding: weight + potential of begin - that of end.
    potential = found.values[0]
    lifted = start.weights + potential[read.begin_of] - potential[start.ends]
    moved = WeightedEdges(Adjacency(start.begins, start.ends, lifted), None, float)
    rows = dijkstra_rows(moved, sources_of(G))
    return dict(_each(read, rows, lambda row: read.paths(checked(row))))
