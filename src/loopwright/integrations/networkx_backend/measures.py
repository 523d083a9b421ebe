"""Distance measures and centralities: sums and extremes over searches from all vertices.

Sums are taken over the same numbers in the same order as networkx does, for the same rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import networkx as nx
import numpy as np

from loopwright.integrations.networkx_backend.eliminations import (
    floyd_warshall,
    floyd_warshall_numpy,
)
from loopwright.integrations.networkx_backend.graph_arrays import (
    REVERSED_COPY,
    LoopwrightGraph,
    NumberedGraph,
)
from loopwright.integrations.networkx_backend.lengths import (
    all_pairs_bellman_ford_path_length,
    checked,
)
from loopwright.integrations.networkx_backend.rows import (
    FoundRow,
    breadth_first_rows,
    dijkstra_rows,
    sources_of,
)
from loopwright.paths.graph_search import Adjacency

__all__ = [
    "average_shortest_path_length",
    "center",
    "closeness_centrality",
    "diameter",
    "eccentricity",
    "global_efficiency",
    "harmonic_centrality",
    "periphery",
    "radius",
    "wiener_index",
]


def _rows(
    G: LoopwrightGraph, weight: Any, sources: Sequence[int], direction: str = "_adj"
) -> Iterator[FoundRow]:
    """Breadth first without weights, by Dijkstra's search with them."""
    if weight is None:
        return breadth_first_rows(G.numbered(direction).adjacency, sources)
    edges = G.weighted(weight, direction, hides=True)
    return map(checked, dijkstra_rows(edges, sources))


def _is_connected(G: LoopwrightGraph) -> bool:
    """Whether all vertices are reached from the first one, and it from all of them."""
    n = len(G)
    directions = ("_adj", "_pred") if G.is_directed() else ("_adj",)
    for direction in directions:
        (row,) = breadth_first_rows(G.numbered(direction).adjacency, [0])
        if len(row.order) != n:
            return False
    return True


def average_shortest_path_length(G: LoopwrightGraph, weight: Any = None, method: Any = None) -> Any:
    supported = ["unweighted", "dijkstra", "bellman-ford", "floyd-warshall", "floyd-warshall-numpy"]
    if method is None:
        method = "unweighted" if weight is None else "dijkstra"
    if method not in supported:
        raise ValueError(f"method not supported: {method}")
    n = len(G)
    if n == 0:
        msg = "the null graph has no paths, thus there is no average shortest path length"
        raise nx.NetworkXPointlessConcept(msg)
    if n == 1:
        return 0
    if not _is_connected(G):
        what = "Graph is not strongly connected." if G.is_directed() else "Graph is not connected."
        raise nx.NetworkXError(what)
    total: Any
    if method == "floyd-warshall":
        total = sum(sum(t.values()) for t in floyd_warshall(G, weight=weight).values())
    elif method == "floyd-warshall-numpy":
        total = float(floyd_warshall_numpy(G, weight=weight).sum())
    elif method == "bellman-ford":
        every = all_pairs_bellman_ford_path_length(G, weight)
        total = sum(chain.from_iterable(near.values() for _, near in every))
    elif method == "unweighted":
        total = sum(int(row.lengths.sum()) for row in _rows(G, None, sources_of(G)))
    else:
        # Missing weights are those of attribute None as well, each of them 1.
        edges = G.weighted(weight, hides=True)
        rows = map(checked, dijkstra_rows(edges, sources_of(G)))
        total = sum(chain.from_iterable(row.numbers() for row in rows))
    return total / (n * (n - 1))


def wiener_index(G: LoopwrightGraph, weight: Any = None) -> Any:
    if not len(G):
        raise nx.NetworkXPointlessConcept("Connectivity is undefined for the null graph.")
    if not _is_connected(G):
        return float("inf")
    rows = _rows(G, weight, sources_of(G))
    if weight is None:
        total: Any = sum(int(row.lengths.sum()) for row in rows)
    else:
        total = sum(chain.from_iterable(row.numbers() for row in rows))
    return total if G.is_directed() else total / 2


def eccentricity(G: LoopwrightGraph, v: Any = None, sp: Any = None, weight: Any = None) -> Any:
    graph = G.numbered()
    nodes = list(G.nbunch_iter(v))
    found: dict[Any, Any] = {}
    if sp is not None:
        for node in nodes:
            try:
                length = sp[node]
                reached = len(length)
            except TypeError as err:
                raise nx.NetworkXError('Format of "sp" is invalid.') from err
            found[node] = max(length.values()) if reached == len(G) else _unreached(G)
    else:
        for node, row in zip(nodes, _rows(G, weight, _numbers(graph, nodes)), strict=True):
            if len(row.order) != len(G):
                _unreached(G)
            # Without weights the last vertex of the search is the farthest.
            found[node] = int(row.lengths[-1]) if weight is None else max(row.numbers())
    if v in G:
        return found[v]
    return found


def _unreached(G: LoopwrightGraph) -> Any:
    if G.is_directed():
        msg = "Found infinite path length because the digraph is not strongly connected"
    else:
        msg = "Found infinite path length because the graph is not connected"
    raise nx.NetworkXError(msg)


def _numbers(graph: NumberedGraph, nodes: Sequence[Any]) -> list[int]:
    return [graph.index[node] for node in nodes]


def _eccentricities(G: LoopwrightGraph, e: Any, usebounds: Any, weight: Any) -> dict[Any, Any]:
    """All of them: networkx's bounds leave out searches, and tell the same extremes."""
    if e is not None:
        given: dict[Any, Any] = e
        return given
    if usebounds is True and not G.is_directed() and len(G) and not _is_connected(G):
        raise nx.NetworkXError("Cannot compute metric because graph is not connected.")
    found: dict[Any, Any] = eccentricity(G, weight=weight)
    return found


def diameter(G: LoopwrightGraph, e: Any = None, usebounds: Any = False, weight: Any = None) -> Any:
    return max(_eccentricities(G, e, usebounds, weight).values())


def radius(G: LoopwrightGraph, e: Any = None, usebounds: Any = False, weight: Any = None) -> Any:
    return min(_eccentricities(G, e, usebounds, weight).values())


def periphery(
    G: LoopwrightGraph, e: Any = None, usebounds: Any = False, weight: Any = None
) -> list[Any]:
    found = _eccentricities(G, e, usebounds, weight)
    most = max(found.values())
    return [node for node in found if found[node] == most]


def center(
    G: LoopwrightGraph, e: Any = None, usebounds: Any = False, weight: Any = None
) -> list[Any]:
    is_tree_asked = usebounds is not True and e is None and weight is None and not G.is_directed()
    if is_tree_asked and not len(G) and hasattr(nx.tree, "center"):
        # Releases that treat trees apart ask whether the graph is one.
        raise nx.NetworkXPointlessConcept("G has no nodes.")
    found = _eccentricities(G, e, usebounds, weight)
    least = min(found.values())
    return [node for node in found if found[node] == least]


def closeness_centrality(
    G: LoopwrightGraph, u: Any = None, distance: Any = None, wf_improved: Any = True
) -> Any:
    graph = G.numbered("_pred")
    if u is not None and u not in G:
        where = f"Source {u} is not in G" if distance is None else f"Node {u} not found in graph"
        raise nx.NodeNotFound(where)
    nodes = graph.nodes if u is None else [u]
    n = len(G)
    found = {}
    # Levels are the same in any order of neighbours; sums of floats are not.
    direction = "_pred" if distance is None else REVERSED_COPY
    rows = _rows(G, distance, _numbers(graph, nodes), direction)
    for node, row in zip(nodes, rows, strict=True):
        total: Any = int(row.lengths.sum()) if distance is None else sum(row.numbers())
        value = 0.0
        if total > 0.0 and n > 1:
            value = (len(row.order) - 1.0) / total
            if wf_improved:
                value *= (len(row.order) - 1.0) / (n - 1)
        found[node] = value
    return found if u is None else found[u]


def harmonic_centrality(
    G: LoopwrightGraph, nbunch: Any = None, distance: Any = None, sources: Any = None
) -> dict[Any, Any]:
    graph = G.numbered()
    wanted = set(G.nbunch_iter(nbunch) if nbunch is not None else G.nodes)
    given = set(G.nbunch_iter(sources) if sources is not None else G.nodes)
    centrality: dict[Any, Any] = dict.fromkeys(wanted, 0)
    transposed = len(wanted) < len(given)
    if transposed:
        wanted, given = given, wanted
    is_wanted = np.zeros(len(G), bool)
    is_wanted[_numbers(graph, list(wanted))] = True
    starts = list(given)
    direction = "_pred" if transposed else "_adj"
    sums, has_any = np.zeros(len(G)), np.zeros(len(G), bool)
    for node, row in zip(
        starts, _rows(G, distance, _numbers(graph, starts), direction), strict=True
    ):
        order = np.asarray(row.order)
        counts = (row.lengths != 0) & is_wanted[order]
        near, terms = order[counts], 1 / row.lengths[counts].astype(np.float64)
        if not transposed:
            sums[near] += terms
            has_any[near] = True
        elif len(terms):
            centrality[node] = float(np.cumsum(terms)[-1])  # one after the other
    if not transposed:
        for number in np.flatnonzero(has_any).tolist():
            centrality[graph.nodes[number]] = float(sums[number])
    return centrality


def global_efficiency(G: LoopwrightGraph) -> Any:
    n = len(G)
    pairs = n * (n - 1)
    if not pairs:
        return 0
    total: Any = 0
    edges: Adjacency = G.numbered().adjacency
    for row in breadth_first_rows(edges, sources_of(G)):
        terms = 1 / row.lengths[1:].astype(np.float64)
        if len(terms):
            total = float(np.cumsum(np.concatenate([[total], terms]))[-1])
    return total / pairs
