"""`shortest_path_length`: of all pairs, from one node, to one, or of a pair, by a chosen search."""

from __future__ import annotations

from typing import Any

import networkx as nx

from loopwright.integrations.networkx_backend.graph_arrays import LoopwrightGraph, refuse
from loopwright.integrations.networkx_backend.lengths import (
    all_pairs_bellman_ford_path_length,
    all_pairs_dijkstra_path_length,
    all_pairs_shortest_path_length,
    bellman_ford_from_one,
    breadth_first_from_one,
    dijkstra_from_one,
)

__all__ = ["shortest_path_length"]


def shortest_path_length(
    G: LoopwrightGraph,
    source: Any = None,
    target: Any = None,
    weight: Any = None,
    method: Any = "dijkstra",
) -> Any:
    if method not in ("dijkstra", "bellman-ford"):
        raise ValueError(f"method not supported: {method}")
    method = "unweighted" if weight is None else method
    if source is None and target is None:
        if method == "unweighted":
            return all_pairs_shortest_path_length(G)
        if method == "dijkstra":
            return all_pairs_dijkstra_path_length(G, weight=weight)
        return all_pairs_bellman_ford_path_length(G, weight=weight)
    if source is None:
        return _from_one(G, target, weight, method, "_pred")
    if target is None:
        return _from_one(G, source, weight, method, "_adj")
    return _of_pair(G, source, target, weight, method)


def _from_one(G: LoopwrightGraph, node: Any, weight: Any, method: str, direction: str) -> Any:
    if method == "unweighted":
        return breadth_first_from_one(G, node, None, direction)
    if method == "dijkstra":
        return dijkstra_from_one(G, node, None, weight, direction)
    return bellman_ford_from_one(G, node, weight, direction)


def _of_pair(G: LoopwrightGraph, source: Any, target: Any, weight: Any, method: str) -> Any:
    if method == "unweighted":
        for what, node in (("Source", source), ("Target", target)):
            if node not in G:
                raise nx.NodeNotFound(f"{what} {node} is not in G")
    elif source not in G and (method == "dijkstra" or source == target):
        raise nx.NodeNotFound(f"Node {source} not found in graph")
    if source == target:
        return 0
    try:
        found = _from_one(G, source, weight, method, "_adj")
    except ValueError:
        # networkx ends at the target, perhaps before it comes to the negative weight.
        refuse("a negative weight on some path from the source")
    if target in found:
        return found[target]
    if method == "unweighted":
        raise nx.NetworkXNoPath(f"No path between {source} and {target}.")
    node = "Node" if method == "dijkstra" else "node"
    raise nx.NetworkXNoPath(f"{node} {target} not reachable from {source}")
