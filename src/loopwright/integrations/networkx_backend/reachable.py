"""Transitive closures as graphs of networkx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np

from loopwright.integrations.networkx_backend.graph_arrays import (
    LoopwrightGraph,
    NumberedGraph,
    refuse,
)
from loopwright.integrations.networkx_backend.rows import (
    FoundRow,
    breadth_first_rows,
    sources_of,
)
from loopwright.paths.cycles import any_cycle
from loopwright.paths.graph_input import SparseGraph
from loopwright.runtime.array_arguments import Array

__all__ = ["transitive_closure", "transitive_closure_dag"]


def transitive_closure(G: LoopwrightGraph, reflexive: Any = False) -> Any:
    closed = G.copy()
    if reflexive not in {None, True, False}:
        raise nx.NetworkXError("Incorrect value for the parameter `reflexive`")
    graph = G.numbered()
    returns = _Returns(graph) if G.is_directed() else None
    for node, row in zip(graph.nodes, breadth_first_rows(graph.adjacency, sources_of(G)),
                         strict=True):  # fmt: skip
        if reflexive is False:
            targets: Any = _reached_by_edges(graph, row, returns)
        else:
            # The set that networkx makes, for its order.
            targets = {graph.nodes[vertex] for vertex in row.order[1:]}
            if reflexive:
                targets = targets | {node}
        near = closed[node]
        _add_edges(closed, node, (target for target in targets if target not in near))
    return closed


def transitive_closure_dag(G: LoopwrightGraph, topo_order: Any = None) -> Any:
    graph = G.numbered()
    edges = graph.adjacency
    begin_of = np.repeat(np.arange(graph.size), np.diff(edges.begins))
    if topo_order is None:
        given = SparseGraph(graph.size, begin_of, edges.ends.astype(np.int64), edges.weights)
        if any_cycle(given, None):
            raise nx.NetworkXUnfeasible("Graph contains a cycle or graph changed during iteration")
    else:
        _check_order(graph, list(topo_order), begin_of)
    closed = G.copy()
    for node, row in zip(graph.nodes, breadth_first_rows(edges, sources_of(G)), strict=True):
        direct = G._adj[node]
        names = map(graph.nodes.__getitem__, row.order[1:])
        _add_edges(closed, node, (target for target in names if target not in direct))
    return closed


def _add_edges(closed: Any, node: Any, targets: Iterator[Any]) -> None:
    """New edges from a node, to others that are in the graph, of a copy that nobody has seen.

    Dicts of the usual class are written without looking whether nodes and edges are new.
    """
    if type(closed) is not nx.DiGraph:
        closed.add_edges_from((node, target) for target in targets)
        return
    near, before = closed._adj[node], closed._pred
    for target in targets:
        before[target][node] = near[target] = {}


def _check_order(graph: NumberedGraph, order: list[Any], begin_of: Array) -> None:
    """Refuse an order by which networkx would not come to the closure."""
    if len(order) != graph.size or set(order) != set(graph.nodes):
        refuse("topo_order does not hold every node once")
    place = np.empty(graph.size, np.int64)
    place[[graph.index[node] for node in order]] = np.arange(graph.size)
    if not (place[begin_of] < place[graph.adjacency.ends]).all():
        refuse("topo_order is not a topological order")


class _Returns:
    """The edges that lead back to a vertex, by which it reaches itself."""

    def __init__(self, graph: NumberedGraph) -> None:
        edges = graph.adjacency
        self.begin_of = np.repeat(np.arange(graph.size), np.diff(edges.begins))
        self.incoming = np.argsort(edges.ends, kind="stable")
        self.into = np.searchsorted(edges.ends[self.incoming], np.arange(graph.size + 1))

    def place(self, row: FoundRow) -> int | None:
        """How many vertices a search by edges finds before it comes back; None: it does not."""
        vertex = row.source
        edges = self.incoming[self.into[vertex] : self.into[vertex + 1]]
        order = np.asarray(row.order)
        rank = np.full(len(self.into) - 1, len(order))
        rank[order] = np.arange(len(order))
        ranks = rank[self.begin_of[edges]]
        if not len(edges) or ranks.min() == len(order):
            return None
        first = int(edges[np.lexsort((edges, ranks))[0]])
        found = row.edges[order[1:]]  # in the order of (rank of begin, edge)
        begin = rank[self.begin_of[found]]
        limit = rank[self.begin_of[first]]
        return int(((begin < limit) | ((begin == limit) & (found < first))).sum())


def _reached_by_edges(
    graph: NumberedGraph, row: FoundRow, returns: _Returns | None
) -> Iterator[Any]:
    """Ends of edges in the order of networkx's search by edges, the vertex itself on a cycle."""
    names = [graph.nodes[vertex] for vertex in row.order[1:]]
    place = None if returns is None else returns.place(row)
    if place is not None:
        names.insert(place, graph.nodes[row.source])
    return iter(names)
