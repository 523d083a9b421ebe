"""Which calls of networkx can be answered, and which are faster here, conversion included.

`should_run` compares two models of time (Neoverse N1, two threads, Python 3.11): what networkx
takes for each edge that it visits in a search from one vertex, and what we take for a call, for
each edge that is converted and for each number of the result. The time inside the kernels is small
beside these. Constants of seven functions are measured, those of others taken from their kind.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from loopwright.integrations.networkx_backend import eliminations, lengths, measures, reachable
from loopwright.integrations.networkx_backend.graph_arrays import NAME, LoopwrightGraph
from loopwright.lazy_dataclass import dataclass
from loopwright.paths.graph_input import available_bytes
from loopwright.paths.semiring_closure import bytes_needed

__all__ = ["can_run", "should_run"]

_CALL = 0.3e-3  # seconds of a call that finds nothing to do
_CONVERTED = 0.25e-6  # for each entry of an adjacency
_MARGIN = 1.2  # how much longer networkx has to take: what models are wrong by
_MOST_EDGES = 2**31 - 1  # edges are numbered by int32


@dataclass(frozen=True, slots=True)
class CallCost:
    """Seconds of a function: of networkx for each visit, and ours for each number of the result."""

    visit: float
    result: float
    visits: str = "edges"  # "edges": n (n + m); "vertices": n^2; "cubes": n^3


_BREADTH, _BEST = 0.5e-6, 0.35e-6
_COSTS = {
    "all_pairs_bellman_ford_path_length": CallCost(0.8e-6, 0.35e-6),
    "all_pairs_dijkstra": CallCost(_BEST, 1.2e-6),
    "all_pairs_dijkstra_path": CallCost(_BEST, 1.0e-6),
    "all_pairs_dijkstra_path_length": CallCost(_BEST, 0.35e-6),
    # Breadth first: a search ends when all vertices are seen, on dense graphs after a few.
    "all_pairs_shortest_path_length": CallCost(_BREADTH, 0.22e-6, "vertices"),
    "average_shortest_path_length": CallCost(_BREADTH, 0.15e-6, "vertices"),
    "center": CallCost(_BREADTH, 0.15e-6, "vertices"),
    "closeness_centrality": CallCost(_BREADTH, 0.15e-6, "vertices"),
    "diameter": CallCost(_BREADTH, 0.15e-6, "vertices"),
    "eccentricity": CallCost(_BREADTH, 0.15e-6, "vertices"),
    "floyd_warshall": CallCost(0.14e-6, 0.4e-6, "cubes"),
    "floyd_warshall_numpy": CallCost(2.3e-9, 0.1e-6, "cubes"),
    "floyd_warshall_predecessor_and_distance": CallCost(0.14e-6, 1.0e-6, "cubes"),
    "global_efficiency": CallCost(_BREADTH, 0.15e-6, "vertices"),
    "harmonic_centrality": CallCost(_BREADTH, 0.2e-6, "vertices"),
    "johnson": CallCost(0.6e-6, 1.0e-6),
    "periphery": CallCost(_BREADTH, 0.15e-6, "vertices"),
    "radius": CallCost(_BREADTH, 0.15e-6, "vertices"),
    "transitive_closure": CallCost(1.5e-6, 2.0e-6),
    "transitive_closure_dag": CallCost(0.1e-6, 0.5e-6),
    "wiener_index": CallCost(_BREADTH, 0.15e-6, "vertices"),
}
_ONE_SOURCE = frozenset({
    "single_source_bellman_ford_path_length",
    "single_source_dijkstra_path_length",
    "single_source_shortest_path_length",
})  # fmt: skip
_DENSE = frozenset(name for name in _COSTS if name.startswith("floyd"))
_WEIGHTS = ("weight", "distance")


def can_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Whether a call can be answered, or why not.

    Weights are looked at when they are converted: those that are neither int nor float, are not
    numbers, or are integers whose sums may pass 2**53 raise NotImplementedError, upon which
    networkx tries the next backend.
    """
    given = _bound(name, args, kwargs)
    if given is None:
        return True  # a wrong call, which the function itself refuses
    graph: Any = given["G"]
    if not hasattr(graph, "_adj"):
        return "the graph has no adjacencies of networkx"
    for key in _WEIGHTS:
        if isinstance(given.get(key), bool):
            return f"{key} is {given[key]}, which names no attribute"
    n = len(graph)
    if name in _DENSE:
        needed = bytes_needed(n, "float64", predecessors="predecessor" in name) + 8 * n * n
        free = available_bytes() if n > 1000 else None
        if free is not None and needed > free:
            return f"dense matrices take {needed:,} bytes, and {free:,} are free"
    if n > 1000 and _entries(graph) > _MOST_EDGES:
        return f"more than {_MOST_EDGES:,} edges"
    return True


def should_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Whether a call is expected to be faster here than by networkx, or why not."""
    given = _bound(name, args, kwargs)
    if given is None:
        return True
    graph = given["G"]
    is_converted = isinstance(graph, LoopwrightGraph) or _is_cached(graph)
    n, m = len(graph), _entries(graph)
    if name in _ONE_SOURCE:
        if not is_converted:
            return "one search takes less time than the conversion of the graph"
        return _verdict(_BEST * (n + m), _CALL + 0.35e-6 * n)
    cost = _COSTS[name]
    if name == "eccentricity" and given.get("sp") is not None:
        return "nothing but maxima are left to compute where sp is given"
    if given.get("e") is not None:
        return "nothing but extremes are left to compute where e is given"
    sources = _sources(given, n)
    visits = {"edges": n + m, "vertices": n, "cubes": n * n}[cost.visits]
    is_weighted = name in _WITH_WEIGHTS and _weight_of(given) is not None
    theirs = sources * ((n + m) * _BEST if is_weighted else visits * cost.visit)
    ours = _CALL + sources * n * cost.result + (0 if is_converted else _CONVERTED * (n + m))
    return _verdict(theirs, ours)


def _verdict(theirs: float, ours: float) -> bool | str:
    if theirs > _MARGIN * ours:
        return True
    told = f"networkx is expected to take {theirs * 1e3:.2f} ms, we {ours * 1e3:.2f} ms"
    return f"{told} with the conversion"


def _sources(given: dict[str, Any], n: int) -> int:
    """From how many vertices searches start."""
    if given.get("u") is not None:
        return 1
    chosen = given.get("v", given.get("nbunch"))
    if chosen is None:
        return n
    return len(chosen) if hasattr(chosen, "__len__") and not isinstance(chosen, str | tuple) else 1


def _weight_of(given: dict[str, Any]) -> Any:
    return given.get("weight", given.get("distance"))


def _entries(graph: Any) -> int:
    """Entries of all adjacencies: edges of directed graphs, twice those of others."""
    edges = int(graph.number_of_edges())
    return edges if graph.is_directed() else 2 * edges


def _is_cached(graph: Any) -> bool:
    cache = getattr(graph, "__networkx_cache__", None) or {}
    return bool(cache.get("backends", {}).get(NAME))


_MODULES = (eliminations, lengths, measures, reachable)
_FUNCTIONS = {name: getattr(module, name) for module in _MODULES for name in module.__all__}
_SIGNATURES = {name: signature(function) for name, function in _FUNCTIONS.items()}
# Functions that search breadth first without weights, and by Dijkstra's search with them.
_WITH_WEIGHTS = frozenset(measures.__all__) - {"global_efficiency"}


def _bound(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments by name; None where they are not those of the function."""
    try:
        found = _SIGNATURES[name].bind(*args, **kwargs)
    except TypeError:
        return None
    found.apply_defaults()
    return dict(found.arguments)
