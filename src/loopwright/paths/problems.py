"""The seven path problems by their names, each over its semiring.

    shortest (min, +)    longest (max, +)    widest (max, min)    minimax (min, max)
    most_reliable (max, x)    least_reliable (min, x)    reachability (or, and)

Five of them are bounded: no cycle is better than the empty path (a plus 1 = 1), so that best paths
exist. longest and least_reliable are not, and neither is shortest with negative weights: they have
answers on acyclic graphs, on others as long as no cycle improves, and for walks of at most `edges`
edges on all graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DType, dtype_of
from loopwright.lazy_dataclass import dataclass
from loopwright.paths.cycles import any_cycle, improving_cycle
from loopwright.paths.graph_input import (
    DenseGraph,
    SparseGraph,
    check_out,
    read_graph,
    require_room,
    to_dense,
)
from loopwright.paths.routes import (
    Routes,
    is_searched,
    routes_between,
    routes_by_search,
    routes_from,
)
from loopwright.paths.semiring_closure import bytes_needed, check_laws, close, endless, power
from loopwright.paths.sources import (
    checked_sources,
    first_values,
    is_sparse_enough,
    paths_from,
    step_of,
)
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.thread_pool import thread_count
from loopwright.semirings.distributive import ValueRange, holds_within
from loopwright.semirings.named import SEMIRINGS, Semiring

__all__ = [
    "PROBLEMS",
    "PathProblem",
    "check_weights",
    "least_reliable",
    "longest",
    "minimax",
    "most_reliable",
    "reachability",
    "shortest",
    "underflowing",
    "widest",
]


@dataclass(frozen=True, slots=True)
class PathProblem:
    """A semiring and the weights for which it answers a question about paths."""

    ring: str
    accepts: str  # what weights are, in words
    low: float = -np.inf
    high: float = np.inf
    excluded: float | None = None  # an infinity that is refused, or zero
    kinds: str = "iuf"


_SHORTEST = PathProblem("min_plus", "numbers above -inf; inf means no edge", excluded=-np.inf)
_LONGEST = PathProblem("max_plus", "numbers below inf; -inf means no edge", excluded=np.inf)
_WIDEST = PathProblem("max_min", "numbers; -inf means no edge")
_MINIMAX = PathProblem("min_max", "numbers; inf means no edge")
_MOST = PathProblem("max_times", "numbers from 0 to 1; 0 means no edge", 0.0, 1.0, kinds="f")
_LEAST = PathProblem(
    "min_times", "numbers above 0, up to 1; inf means no edge", 0.0, 1.0, 0.0, kinds="f"
)
_REACHABILITY = PathProblem("or_and", "booleans", kinds="biuf")
PROBLEMS = {
    "shortest": _SHORTEST,
    "longest": _LONGEST,
    "widest": _WIDEST,
    "minimax": _MINIMAX,
    "most_reliable": _MOST,
    "least_reliable": _LEAST,
    "reachability": _REACHABILITY,
}


def shortest(
    graph: Any,
    *,
    sources: Any = None,
    predecessors: bool = False,
    absent: Any = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array | Routes:
    """The least sum of weights over all paths from i to j; inf where there is none.

    Weights may be negative; a cycle of negative weight raises CycleError. Integers saturate: the
    largest number of the type is infinite.

    `graph` is a square array, every element but inf (or `absent`) an edge, or a sparse matrix of
    scipy, every stored entry an edge. `sources`, a vertex or several, asks for their rows only.
    With `predecessors` the result is a Routes, which has paths. `out` takes the result and may be
    the graph itself; what is allocated otherwise is told by `bytes_needed`.
    """
    return _solve(_SHORTEST, graph, sources, predecessors, absent, out, threads)


def longest(
    graph: Any,
    *,
    edges: int | None = None,
    sources: Any = None,
    predecessors: bool = False,
    absent: Any = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array | Routes:
    """The greatest sum of weights over all paths from i to j; -inf where there is none.

    For acyclic graphs, and others without a cycle of positive weight, which raises CycleError.
    With `edges` over all walks of at most so many edges, on any graph. See `shortest`.
    """
    return _solve(_LONGEST, graph, sources, predecessors, absent, out, threads, edges)


def widest(
    graph: Any,
    *,
    sources: Any = None,
    predecessors: bool = False,
    absent: Any = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array | Routes:
    """The greatest capacity of a path, that of its narrowest edge; -inf where there is none.

    From a vertex to itself it is inf. See `shortest`.
    """
    return _solve(_WIDEST, graph, sources, predecessors, absent, out, threads)


def minimax(
    graph: Any,
    *,
    sources: Any = None,
    predecessors: bool = False,
    absent: Any = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array | Routes:
    """The least height of a path, that of its highest edge; inf where there is none.

    From a vertex to itself it is -inf. See `shortest`, and `minimum_spanning_forest`.
    """
    return _solve(_MINIMAX, graph, sources, predecessors, absent, out, threads)


def most_reliable(
    graph: Any,
    *,
    sources: Any = None,
    predecessors: bool = False,
    absent: Any = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array | Routes:
    """The greatest product of weights from 0 to 1 over all paths; 0 where there is none.

    See `shortest`.
    """
    return _solve(_MOST, graph, sources, predecessors, absent, out, threads)


def least_reliable(
    graph: Any,
    *,
    edges: int | None = None,
    sources: Any = None,
    predecessors: bool = False,
    absent: Any = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array | Routes:
    """The least product of weights above 0, up to 1, over all paths; inf where there is none.

    Every cycle below 1 makes paths ever less reliable, so that it needs acyclic graphs, or walks
    of at most `edges` edges, as `longest` does. Products below the least normal number of the type
    count as that number.
    """
    return _solve(_LEAST, graph, sources, predecessors, absent, out, threads, edges)


def reachability(
    graph: Any,
    *,
    sources: Any = None,
    predecessors: bool = False,
    absent: Any = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array | Routes:
    """Whether there is a path from i to j; there is one from every vertex to itself.

    Integers other than 0 are edges, and stored entries of sparse matrices. See `shortest`.
    """
    if hasattr(graph, "tocoo"):
        graph = graph.tocoo().copy()
        stored = np.ones(len(graph.data), bool)
        if absent is not None:
            stored = np.asarray(graph.data != absent)
            absent = False
        graph.data = stored
    return _solve(_REACHABILITY, graph, sources, predecessors, absent, out, threads)


def _solve(
    problem: PathProblem,
    graph: Any,
    sources: Any,
    predecessors: bool,
    absent: Any,
    out: Array | None,
    threads: int | None,
    edges: int | None = None,
) -> Array | Routes:
    ring = SEMIRINGS[problem.ring]
    found = read_graph(graph, ring, absent)
    _check_weights(problem, found, ring)
    if problem is _LEAST:
        ring = _that_underflows(found, ring)
    else:
        check_laws(found, ring)
    team = thread_count(threads)
    n = found.size
    if edges is not None:
        if predecessors:
            hint = "without edges=, or values only"
            raise UsageError("walks of at most `edges` edges have no predecessors", hint=hint)
        return _given(_walks(found, ring, sources, edges, team), sources, out)
    if sources is not None:
        chosen = checked_sources(sources, n)
        if predecessors and is_searched(found, ring, len(chosen)):
            return routes_by_search(found, ring, chosen, team)
        values = paths_from(found, ring, chosen, team)
        if predecessors:
            return routes_from(found, ring, chosen, values)
        return _given(values, sources, out)
    if predecessors:
        if out is not None:
            raise UsageError("predecessors= and out= exclude each other")
        if is_searched(found, ring, n):
            return routes_by_search(found, ring, np.arange(n), team)
        need = bytes_needed(n, found.dtype, predecessors=True)
        require_room(need, f"paths between {n:,} vertices with predecessors")
        return routes_between(found, ring, team)
    if out is None and is_sparse_enough(found, ring, n):
        return paths_from(found, ring, np.arange(n), team)
    return close(found, ring, out, team)


def _given(values: Array, sources: Any, out: Array | None) -> Array:
    """One row for one source, and what was computed where the user wants it."""
    result = values if np.ndim(sources) or sources is None else values[0]
    if out is None:
        return result
    np.copyto(check_out(out, result.shape, result.dtype), result)
    return out


def _walks(
    graph: DenseGraph | SparseGraph, ring: Semiring, sources: Any, edges: int, threads: int
) -> Array:
    """The best walks of at most `edges` edges."""
    if type(edges) is not int or edges < 0:
        raise UsageError("edges is a number of edges", found=repr(edges), hint="0 or more")
    n = graph.size
    if sources is None:
        require_room(3 * n * n * graph.dtype.itemsize, f"walks between {n:,} vertices")
        return power(to_dense(graph, ring), ring, edges, threads)
    x = first_values(graph, ring, checked_sources(sources, n))
    step = step_of(graph, ring, threads)
    for _ in range(edges):
        after = step(x)
        if np.array_equal(after, x):
            break
        x = after
    return x


def _check_weights(problem: PathProblem, graph: DenseGraph | SparseGraph, ring: Semiring) -> None:
    """Refuse weights that the problem has no answer for, with the first one and its edge."""

    def edge_of(place: int) -> tuple[int, int]:
        if isinstance(graph, DenseGraph):
            return divmod(place, graph.size)
        return int(graph.rows[place]), int(graph.columns[place])

    values = graph.matrix if isinstance(graph, DenseGraph) else graph.weights
    check_weights(problem, values, ring, edge_of)


def check_weights(
    problem: PathProblem,
    values: Array,
    ring: Semiring,
    edge_of: Callable[[int], tuple[int, ...]],
) -> None:
    """Refuse weights that the problem has no answer for; `edge_of` gives the edge of a place."""
    if values.dtype.kind not in problem.kinds + "b" * (problem is _REACHABILITY):
        raise UsageError(
            f"weights have to be {problem.accepts}",
            found=f"dtype {values.dtype}",
            hint="float32 or float64",
        )
    if values.dtype.kind != "f" or not values.size:
        return
    absent = values.dtype.type(ring.absent(dtype_of(values.dtype)))
    least, most = float(np.min(values)), float(np.max(values))  # NaN where there is one
    lowest, highest = (problem.low, problem.high) if problem.high == 1 else (-np.inf, np.inf)
    if absent == np.inf:
        highest = np.inf
    if lowest <= least and most <= highest and problem.excluded not in (least, most):
        if problem.high != 1 or absent != np.inf:
            return
        bad = (values > 1) & (values != np.inf)
    else:
        bad = ~((values >= problem.low) & (values <= problem.high) & (values != problem.excluded))
        bad &= ~(values == absent)
    places = np.flatnonzero(bad)
    if not places.size:
        return
    place = int(places[0])
    edge = edge_of(place)
    raise UsageError(
        f"weights have to be {problem.accepts}",
        found=f"{values.flat[place]} at the edge from {edge[0]} to {edge[1]}",
        hint="absent= names another value that means no edge",
    )


def _that_underflows(graph: DenseGraph | SparseGraph, ring: Semiring) -> Semiring:
    """min_times, or where products may underflow one whose products stop at the least normal.

    A product that underflowed to 0 would meet the inf of a missing edge, and 0 times inf is no
    number.
    """
    values = graph.matrix if isinstance(graph, DenseGraph) else graph.weights
    edges = values[values != np.inf]
    low = float(edges.min(initial=1.0))
    clamped = underflowing(ring, dtype_of(graph.dtype), low, graph.size)
    if clamped is ring:
        return ring
    if any_cycle(graph, np.inf):
        cycle = improving_cycle(graph, ring)
        if cycle:
            raise endless(ring, cycle[0], cycle)
    return clamped


def underflowing(ring: Semiring, dtype: DType, low: float, n: int) -> Semiring:
    """min_times for weights from `low` on in a graph of n vertices: see `_that_underflows`."""
    if holds_within(ring, dtype, [ValueRange(low, np.inf)] * max(1, n)):
        return ring
    return _clamped(dtype.name)


@lru_cache(maxsize=2)
def _clamped(name: str) -> Semiring:
    # lazy: tracing, for products that may underflow only
    from loopwright.semirings import make_semiring, maximum

    least = float(np.finfo(name).tiny)
    made = make_semiring(
        f"min_times_{name}",
        "min",
        lambda x, y: maximum(x * y, least),
        zero=np.inf,
        one=1.0,
        check=False,
        distributes=True,
    )
    return replace(made, idempotent=True)
