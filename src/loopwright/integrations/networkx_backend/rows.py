"""Searches from many vertices as networkx tells them: dicts in the order of the search."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from loopwright.integrations.networkx_backend.graph_arrays import (
    LoopwrightGraph,
    WeightedEdges,
    refuse,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.paths.graph_search import Adjacency, SearchResult, best_first, breadth_first
from loopwright.paths.queue_search import queue_search
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.thread_pool import thread_count
from loopwright.semirings.named import SEMIRINGS

__all__ = ["FoundRow", "bellman_ford_rows", "breadth_first_rows", "dijkstra_rows"]

_ELEMENTS = 1 << 21  # of the arrays of results that are held at a time


@dataclass(frozen=True, slots=True)
class FoundRow:
    """What was found from one vertex."""

    source: int
    order: list[int]  # the vertices that were reached, in the order of the search
    lengths: Array  # of these, int32 or float64
    edges: Array  # the last edge to each vertex of the graph, -1 for none
    numbers: Callable[[], list[int | float]]  # lengths as networkx has them, in order
    has_failed: bool


def breadth_first_rows(
    graph: Adjacency, sources: Sequence[int], cutoff: Any = None
) -> Iterator[FoundRow]:
    """Levels of all vertices within `cutoff` edges."""
    limit = None
    if cutoff is not None and cutoff != math.inf:
        limit = max(0, math.ceil(checked_number(cutoff)))

    def search(chunk: Array, threads: int) -> SearchResult:
        return breadth_first(graph, chunk, threads, limit)

    def numbers(row: Array, order: Array, edges: Array) -> list[int | float]:
        found: list[int | float] = row[order].tolist()
        return found

    return _rows(graph.size, sources, search, numbers)


def dijkstra_rows(
    weighted: WeightedEdges, sources: Sequence[int], cutoff: Any = None
) -> Iterator[FoundRow]:
    """Least sums of weights that are not negative, up to `cutoff`."""
    limit = None if cutoff is None else checked_number(cutoff)
    ring = SEMIRINGS["min_plus"]

    def search(chunk: Array, threads: int) -> SearchResult:
        return best_first(weighted.adjacency, ring, chunk, threads, limit, is_ordered=True)

    return _rows(weighted.adjacency.size, sources, search, _typed(weighted))


def bellman_ford_rows(weighted: WeightedEdges, sources: Sequence[int]) -> Iterator[FoundRow]:
    """Least sums of weights of any sign; rows that meet a negative cycle have failed."""

    def search(chunk: Array, threads: int) -> SearchResult:
        return queue_search(weighted.adjacency, chunk[:, None], threads)

    return _rows(weighted.adjacency.size, sources, search, _typed(weighted))


def checked_number(cutoff: Any) -> float:
    if not isinstance(cutoff, int | float) or cutoff != cutoff:
        refuse(f"cutoff is {cutoff!r}, not a number")
    return float(cutoff)


def _rows(
    n: int,
    sources: Sequence[int],
    search: Callable[[Array, int], SearchResult],
    numbers: Callable[[Array, Array, Array], list[int | float]],
) -> Iterator[FoundRow]:
    threads = thread_count(None)
    size = max(threads, _ELEMENTS // max(n, 1))
    for first in range(0, len(sources), size):
        chunk = np.asarray(sources[first : first + size], np.int32)
        found = search(chunk, threads)
        for row, source in enumerate(chunk.tolist()):
            order = found.order[row, : int(found.count[row])]
            values, edges = found.values[row], found.edges[row]
            yield FoundRow(
                source,
                order.tolist(),
                values[order],
                edges,
                partial(numbers, values, order, edges),
                bool(found.failed[row]),
            )


def _typed(weighted: WeightedEdges) -> Callable[[Array, Array, Array], list[int | float]]:
    """Lengths as int or float: those of networkx are sums, begun with the integer 0."""
    begin_of = (
        np.repeat(np.arange(weighted.adjacency.size), np.diff(weighted.adjacency.begins))
        if weighted.is_float is not None
        else None
    )

    def numbers(row: Array, order: Array, edges: Array) -> list[int | float]:
        values = row[order]
        if weighted.kind is int:
            return values.astype(np.int64).tolist()  # type: ignore[no-any-return]
        found: list[int | float] = values.tolist()
        if weighted.is_float is None or begin_of is None:
            found[:1] = [0]
            return found
        floats = _passes_float(weighted.is_float, begin_of, edges)
        return [
            value if is_float else int(value)
            for value, is_float in zip(found, floats[order].tolist(), strict=True)
        ]

    return numbers


def _passes_float(is_float: Array, begin_of: Array, edges: Array) -> Array:
    """Of each vertex, whether its path has an edge whose weight is a float, by pointer jumping."""
    has_edge = edges >= 0
    found = np.zeros(len(edges), bool)
    found[has_edge] = is_float[edges[has_edge]]
    link = np.arange(len(edges))
    link[has_edge] = begin_of[edges[has_edge]]
    for _ in range(len(edges).bit_length()):
        found |= found[link]
        link = link[link]
    return found


def sources_of(graph: LoopwrightGraph) -> range:
    return range(len(graph))
