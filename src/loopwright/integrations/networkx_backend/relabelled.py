"""Graphs with other names for their nodes, which stay graphs of ours.

The dicts are written here as networkx does; nothing is faster. A converted graph need not go back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx

from loopwright.integrations.networkx_backend.graph_arrays import LoopwrightGraph

__all__ = ["convert_node_labels_to_integers", "relabel_nodes"]


def convert_node_labels_to_integers(
    G: LoopwrightGraph, first_label: Any = 0, ordering: Any = "default", label_attribute: Any = None
) -> LoopwrightGraph:
    """The graph with its nodes numbered in an order; nodes and edges stay in theirs."""
    order = _ORDERS.get(ordering)
    if order is None:
        raise nx.NetworkXError(f"Unknown node ordering: {ordering}")
    graph = G.graph_object
    number = {node: first_label + place for place, node in enumerate(order(graph))}
    made = graph.__class__()
    for node, data in graph.nodes.items():
        label = {} if label_attribute is None else {label_attribute: node}
        made.add_node(number[node])
        made.nodes[number[node]].update({**data, **label})
    keys = {"keys": True} if graph.is_multigraph() else {}
    made.add_edges_from(
        (number[u], number[v], *key, dict(data))
        for u, v, *key, data in graph.edges(data=True, **keys)
    )
    made.graph.update(graph.graph)
    return LoopwrightGraph(made)


def relabel_nodes(G: LoopwrightGraph, mapping: Any, copy: Any = True) -> LoopwrightGraph:
    """The graph with nodes named by a mapping or a function, by networkx, on the graph we keep.

    In place, our graph has other names from then on, and the one that it was made from stays.
    """
    if copy:
        return LoopwrightGraph(nx.relabel_nodes.orig_func(G.graph_object, mapping))
    G.replace(nx.relabel_nodes.orig_func(G.graph_object.copy(), mapping, copy=False))
    return G


def _by_degree(graph: Any) -> list[Any]:
    return [node for _, node in sorted((degree, node) for node, degree in graph.degree())]


_ORDERS: dict[str, Callable[[Any], Any]] = {
    "default": list,
    "sorted": sorted,
    "increasing degree": _by_degree,
    "decreasing degree": lambda graph: _by_degree(graph)[::-1],
}
