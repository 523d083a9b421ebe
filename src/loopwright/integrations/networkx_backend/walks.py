"""Walks over one graph in the order of networkx: edges by breadth, layers, topological orders.

One walk takes less time than the conversion of a graph, and what it tells is made by Python. So
these are no faster than networkx's: they are for graphs that are converted already, which would
have to go back to networkx without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np

from loopwright.integrations.networkx_backend.graph_arrays import LoopwrightGraph
from loopwright.integrations.networkx_backend.rows import breadth_first_rows
from loopwright.paths.graph_search import Adjacency

__all__ = [
    "descendants_at_distance",
    "edge_bfs",
    "topological_generations",
    "topological_sort",
]

_CHANGED = "Graph changed during iteration"


def descendants_at_distance(G: LoopwrightGraph, source: Any, distance: Any) -> set[Any]:
    if source not in G:
        raise nx.NetworkXError(f"The node {source} is not in the graph.")
    graph = G.numbered()
    if distance not in range(graph.size):
        return set()
    (row,) = breadth_first_rows(graph.adjacency, [graph.index[source]], int(distance))
    first = int(np.searchsorted(row.lengths, distance))  # levels never fall along a search
    return {graph.nodes[vertex] for vertex in row.order[first:]}


def edge_bfs(G: LoopwrightGraph, source: Any = None, orientation: Any = None) -> Iterator[Any]:
    """Edges in the order in which a search by breadth comes to them, each of them once.

    With r the place of a vertex in the search, an edge that can be met from both of its ends is
    told by the end with the smaller r, and a loop by its forward direction.
    """
    sources = list(dict.fromkeys(G.nbunch_iter(source)))
    if not sources:
        return
    is_directed = G.is_directed()
    if not is_directed and orientation is not None:
        orientation = "original"  # whatever it is, as in networkx
    if orientation not in (None, "original", "reverse", "ignore"):
        raise nx.NetworkXError("invalid orientation argument.")
    graph = G.numbered()
    adjacency = _from_all(_adjacency(G, orientation), [graph.index[node] for node in sources])
    (row,) = breadth_first_rows(adjacency, [graph.size])
    place = {graph.nodes[vertex]: number for number, vertex in enumerate(row.order[1:])}
    is_either = orientation == "ignore" or not is_directed
    mark = () if orientation is None else ("forward",)
    for node, at in place.items():
        if orientation != "reverse":
            for end, keys in _near(G, "_adj", node):
                if not is_either or place[end] >= at:
                    yield from ((node, end, *key, *mark) for key in keys)
        if orientation in ("reverse", "ignore"):
            for begin, keys in _near(G, "_pred", node):
                if not is_either or place[begin] > at:
                    yield from ((begin, node, *key, "reverse") for key in keys)


def _near(G: LoopwrightGraph, direction: str, node: Any) -> Iterator[tuple[Any, Any]]:
    """The neighbours of a node, and the keys of the edges to each; () is the only one's."""
    near = getattr(G.graph_object, direction)[node]
    if not G.is_multigraph():
        return ((other, ((),)) for other in near)
    return ((other, [(key,) for key in keys]) for other, keys in near.items())


def _adjacency(G: LoopwrightGraph, orientation: Any) -> Adjacency:
    """The neighbours that edges of an orientation lead to: ends, begins, or ends before begins."""
    if orientation != "ignore":
        return G.numbered("_pred" if orientation == "reverse" else "_adj").adjacency
    ways = [G.numbered(direction).adjacency for direction in ("_adj", "_pred")]
    vertex = np.concatenate([np.repeat(np.arange(x.size), np.diff(x.begins)) for x in ways])
    order = np.argsort(vertex, kind="stable")
    ends = np.concatenate([x.ends for x in ways])[order]
    return Adjacency(ways[0].begins + ways[1].begins, ends, np.ones(len(ends)))


def _from_all(adjacency: Adjacency, sources: list[int]) -> Adjacency:
    """The graph with one more vertex, from which an edge leads to each of the sources."""
    ends = np.concatenate([adjacency.ends, np.asarray(sources, np.int32)])
    begins = np.append(adjacency.begins, len(ends))
    return Adjacency(begins, ends, np.ones(len(ends)))


def topological_generations(G: LoopwrightGraph) -> Iterator[list[Any]]:
    """Kahn's generations; within one, nodes in the order in which their last edges are removed.

    Edges are read from the graph itself while it is walked, so that a caller who changes it
    meanwhile is told so. Parallel edges are one: a node is free when all of its begins are gone.
    """
    if not G.is_directed():
        raise nx.NetworkXError("Topological sort not defined on undirected graphs.")
    graph, near = G.numbered(), G.graph_object._adj
    counts = np.bincount(graph.adjacency.ends, minlength=graph.size).tolist()
    entering = {node: count for node, count in zip(graph.nodes, counts, strict=True) if count}
    free = [node for node in graph.nodes if node not in entering]
    while free:
        following = []
        for node in free:
            if node not in near:
                raise RuntimeError(_CHANGED)
            for end in near[node]:
                if end not in entering:
                    raise RuntimeError(_CHANGED)
                entering[end] -= 1
                if not entering[end]:
                    del entering[end]
                    following.append(end)
        yield free
        free = following
    if entering:
        raise nx.NetworkXUnfeasible("Graph contains a cycle or graph changed during iteration")


def topological_sort(G: LoopwrightGraph) -> Iterator[Any]:
    for generation in topological_generations(G):
        yield from generation
