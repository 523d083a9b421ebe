"""Which calls of networkx can be answered, and which are faster here, conversion included.

`should_run` compares two models of time (`call_costs`): what networkx takes for each node and edge
of each search, and what we take for a call, for what is converted and for what is found.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from loopwright.integrations.networkx_backend import (
    chosen_lengths,
    eliminations,
    lengths,
    measures,
    reachable,
    relabelled,
    walks,
)
from loopwright.integrations.networkx_backend.call_costs import COSTS
from loopwright.integrations.networkx_backend.graph_arrays import NAME, LoopwrightGraph
from loopwright.paths.graph_input import available_bytes
from loopwright.paths.semiring_closure import bytes_needed

__all__ = ["can_run", "should_run"]

_MARGIN = 1.2  # how much longer networkx has to take: what models are wrong by
_MOST_EDGES = 2**31 - 1  # edges are numbered by int32
# Searches from one node: of all work the conversion would take most.
_FROM_ONE = frozenset({
    "single_source_bellman_ford_path_length",
    "single_source_dijkstra_path_length",
    "single_source_shortest_path_length",
})  # fmt: skip
_FOR_OURS = frozenset((*relabelled.__all__, *walks.__all__))  # no faster than networkx's
_DENSE = frozenset(eliminations.__all__)


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
    if name in chosen_lengths.__all__:
        name = _searched(given)
    graph = given["G"]
    is_ours = isinstance(graph, LoopwrightGraph)
    if name in _FOR_OURS:
        return is_ours or "networkx is as fast, and it is no graph of ours"
    is_converted = is_ours or _is_cached(graph)
    n, m = len(graph), _entries(graph)
    if name in _FROM_ONE and not is_converted:
        return "one search takes less time than the conversion of the graph"
    if name == "eccentricity" and given.get("sp") is not None:
        return "nothing but maxima are left to compute where sp is given"
    if given.get("e") is not None:
        return "nothing but extremes are left to compute where e is given"
    cost, searches = COSTS[name], 1 if name in _FROM_ONE else _sources(given, n)
    theirs = cost.theirs(n, m, searches)
    ours = cost.ours(n, m, searches, is_converted=is_converted)
    if name in _WITH_WEIGHTS and _weight_of(given) is not None:
        # Dijkstra's search in the place of breadth first; what is made of its rows stays.
        theirs, ours = (
            max(usual, weighted)
            for usual, weighted in (
                (theirs, _WEIGHTED.theirs(n, m, searches)),
                (ours, _WEIGHTED.ours(n, m, searches, is_converted=is_converted)),
            )
        )
    return _verdict(theirs, ours)


def _searched(given: dict[str, Any]) -> str:
    """The function that `shortest_path_length` is with these arguments."""
    searches = (
        "all_pairs" if given["source"] is None and given["target"] is None else "single_source"
    )
    if given["weight"] is None:
        return f"{searches}_shortest_path_length"
    return (
        f"{searches}_{'dijkstra' if given['method'] == 'dijkstra' else 'bellman_ford'}_path_length"
    )


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


_MODULES = (chosen_lengths, eliminations, lengths, measures, reachable, relabelled, walks)
_FUNCTIONS = {name: getattr(module, name) for module in _MODULES for name in module.__all__}
_SIGNATURES = {name: signature(function) for name, function in _FUNCTIONS.items()}
# Functions that search breadth first without weights, and by Dijkstra's search with them.
_WITH_WEIGHTS = frozenset(measures.__all__) - {"global_efficiency"}
_WEIGHTED = COSTS["all_pairs_dijkstra_path_length"]


def _bound(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments by name; None where they are not those of the function."""
    try:
        found = _SIGNATURES[name].bind(*args, **kwargs)
    except TypeError:
        return None
    found.apply_defaults()
    return dict(found.arguments)
