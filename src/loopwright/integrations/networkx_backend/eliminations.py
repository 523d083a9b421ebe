"""Floyd and Warshall's functions of networkx, by blocked elimination over (min, +)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np

from loopwright.integrations.networkx_backend.graph_arrays import (
    LoopwrightGraph,
    NumberedGraph,
    WeightedEdges,
    refuse,
)
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Binary, Load, Select, Var
from loopwright.ir.loops import LoopNest, Store
from loopwright.kernels import ENTRY
from loopwright.lower.build import lets, loop, seq
from loopwright.paths.cycles import CycleError
from loopwright.paths.graph_search import VERTEX, row_buffer, run_square
from loopwright.paths.problems import shortest
from loopwright.paths.routes import Routes
from loopwright.paths.step_kernels import close_square
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import SEMIRINGS

__all__ = ["floyd_warshall", "floyd_warshall_numpy", "floyd_warshall_predecessor_and_distance"]

_EXACT_SINGLE = 2**24  # integers up to this are float32 without rounding
FLOAT = DTYPES["float64"]


def _infinity() -> float:
    return float("inf")


def floyd_warshall(G: LoopwrightGraph, weight: Any = "weight") -> dict[Any, dict[Any, Any]]:
    graph, edges = G.numbered(), G.weighted(weight, default=1.0, is_key=True)
    matrix = _matrix(graph, edges)
    try:
        found = np.asarray(shortest(matrix))
    except CycleError:
        found, _ = _step_by_step(_matrix(graph, edges, np.float64), graph)
    return _distances(G, graph, edges, found)


def floyd_warshall_predecessor_and_distance(
    G: LoopwrightGraph, weight: Any = "weight"
) -> tuple[dict[Any, dict[Any, Any]], dict[Any, dict[Any, Any]]]:
    graph, edges = G.numbered(), G.weighted(weight, default=1.0, is_key=True)
    matrix = _matrix(graph, edges)
    try:
        routes = shortest(matrix, predecessors=True)
        assert isinstance(routes, Routes)
        found, before = routes.distances, routes.predecessors
        before = before.copy()
        # Edges that no path improves are told with theirs: loops, and edges of infinite weight.
        begin_of, ends = _begins(graph), graph.adjacency.ends
        bare = before[begin_of, ends] < 0
        before[begin_of[bare], ends[bare]] = begin_of[bare]
    except CycleError:
        found, before = _step_by_step(_matrix(graph, edges, np.float64), graph)
    return _predecessors(G, graph, before), _distances(G, graph, edges, found)


def floyd_warshall_numpy(G: LoopwrightGraph, nodelist: Any = None, weight: Any = "weight") -> Array:
    graph = G.numbered()
    if nodelist is not None:
        _check_nodes(G, nodelist)
    edges = G.weighted(weight, default=1.0, is_key=True)
    matrix = _matrix(graph, edges)
    np.fill_diagonal(matrix, 0)
    try:
        found = np.asarray(shortest(matrix)).astype(np.float64, copy=False)
    except CycleError:
        # The same sums and minima, in the same order, without blocks.
        found = np.ascontiguousarray(matrix, np.float64)
        close_square(found, SEMIRINGS["min_plus"])
    if nodelist is None:
        return found
    order = [graph.index[node] for node in nodelist]
    return np.ascontiguousarray(found[np.ix_(order, order)])


def _check_nodes(G: LoopwrightGraph, nodelist: Sequence[Any]) -> None:
    given = set(nodelist)
    if not (len(nodelist) == len(G) == len(given)):
        raise nx.NetworkXError(
            "nodelist must contain every node in G with no repeats."
            "If you wanted a subgraph of G use G.subgraph(nodelist)"
        )
    if given - set(G):
        raise nx.NetworkXError(f"Nodes {given - set(G)} in nodelist is not in G")


def _matrix(graph: NumberedGraph, edges: WeightedEdges, kind: Any = None) -> Array:
    """The weights as a dense matrix; where float32 holds all sums exactly, in half the memory."""
    weights = edges.adjacency.weights
    if np.isneginf(weights).any():
        refuse("a weight is -inf")
    if kind is None:
        most = float(np.abs(weights).max(initial=0)) * max(graph.size, 1)
        is_whole = edges.kind is int or bool((weights == np.floor(weights)).all())
        kind = np.float32 if is_whole and most <= _EXACT_SINGLE else np.float64
    matrix = np.full((graph.size, graph.size), np.inf, kind)
    matrix[_begins(graph), edges.adjacency.ends] = weights
    return matrix


def _step_by_step(matrix: Array, graph: NumberedGraph) -> tuple[Array, Array]:
    """Floyd and Warshall's loops as they stand: what graphs with negative cycles get."""
    n = graph.size
    before = np.full((n, n), -1, np.int32)
    before[_begins(graph), graph.adjacency.ends] = _begins(graph)
    diagonal = np.arange(n)
    matrix[diagonal, diagonal] = np.minimum(matrix[diagonal, diagonal], 0)
    run_square("floyd and warshall ", _steps_nest, (matrix, before))
    return matrix, before


def _steps_nest() -> LoopNest:
    w, u, v, n = (Var(name) for name in ("w", "u", "v", "n"))

    def value(x: Var, y: Var) -> Load:
        return Load("values", (x, y), FLOAT)

    total = Var("total", FLOAT)
    gains = Binary("gt", value(u, v), total)
    before = Load("before", (u, v), VERTEX), Load("before", (w, v), VERTEX)
    update = seq(
        Store("before", (u, v), Select(gains, before[1], before[0])),
        Store("values", (u, v), Select(gains, total, value(u, v))),
    )
    body = lets([(total, Binary("add", value(u, w), value(w, v)))], update)
    whole = loop(w, 0, n, loop(u, 0, n, loop(v, 0, n, body)))
    buffers = row_buffer("values", FLOAT), row_buffer("before", VERTEX)
    return LoopNest(ENTRY, buffers, ("n",), whole, leave_to_llvm=True, fuses=False)


# -- dicts ----------------------------------------------------------------------------------------


def _neighbours(G: LoopwrightGraph, graph: NumberedGraph, u: int) -> Array:
    """The neighbours of a vertex in the order in which `G.edges` comes to these edges."""
    begins = graph.adjacency.begins
    near = graph.adjacency.ends[begins[u] : begins[u + 1]]
    if G.is_directed():
        return np.asarray(near)
    return np.concatenate([np.sort(near[near < u]), near[near >= u]])


def _begins(graph: NumberedGraph) -> Array:
    """The vertices that edges begin at."""
    return np.repeat(np.arange(graph.size), np.diff(graph.adjacency.begins))


def _row_order(G: LoopwrightGraph, graph: NumberedGraph, u: int) -> tuple[Array, int]:
    """The vertices of a row: itself, its neighbours, the others; and how many others there are."""
    near = _neighbours(G, graph, u)
    rest = np.ones(graph.size, bool)
    rest[near] = False
    rest[u] = False
    others = np.flatnonzero(rest)
    return np.concatenate([[u], near[near != u], others]).astype(np.int64), len(others)


def _distances(
    G: LoopwrightGraph, graph: NumberedGraph, edges: WeightedEdges, found: Array
) -> dict[Any, dict[Any, Any]]:
    result: dict[Any, dict[Any, Any]] = {}
    name = graph.nodes.__getitem__
    for u, node in enumerate(graph.nodes):
        order, _ = _row_order(G, graph, u)
        values = _numbers(found[u, order], edges)
        row = defaultdict(_infinity, zip(map(name, order.tolist()), values, strict=True))
        result[node] = row
    return result


def _numbers(values: Array, edges: WeightedEdges) -> list[Any]:
    """Lengths of Python: integers where all weights are, and inf; 0 is that of the vertex."""
    if edges.kind is int:
        if np.isinf(values).any():
            return [int(x) if x != np.inf else x for x in values.tolist()]
        return values.astype(np.int64).tolist()  # type: ignore[no-any-return]
    found: list[Any] = values.astype(np.float64, copy=False).tolist()
    if found[0] == 0:
        found[0] = 0
    return found


def _predecessors(
    G: LoopwrightGraph, graph: NumberedGraph, before: Array
) -> dict[Any, dict[Any, Any]]:
    result: dict[Any, dict[Any, Any]] = {}
    name = graph.nodes.__getitem__
    for u in _edge_begins(G, graph):
        order, _ = _row_order(G, graph, u)
        reached = order[before[u, order] >= 0]
        row = zip(map(name, reached.tolist()), map(name, before[u, reached].tolist()), strict=True)
        result[graph.nodes[u]] = dict(row)
    return result


def _edge_begins(G: LoopwrightGraph, graph: NumberedGraph) -> list[int]:
    """Vertices with edges, as `G.edges` comes to them, the other end of an undirected one too."""
    begins = graph.adjacency.begins
    if G.is_directed():
        return np.flatnonzero(np.diff(begins)).tolist()
    found: dict[int, None] = {}
    for u in range(graph.size):
        later = [v for v in graph.adjacency.ends[begins[u] : begins[u + 1]].tolist() if v >= u]
        if later:
            found[u] = None
            found.update(dict.fromkeys(later))
    return list(found)
