"""Cycles that make path problems meaningless: found, checked by exact arithmetic, and reported."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.paths.graph_input import UFUNCS, DenseGraph, SparseGraph, absent_value
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import Semiring

__all__ = ["CycleError", "any_cycle", "improves", "improving_cycle"]

_ROWS = 256  # of a matrix that are relaxed at a time


class CycleError(UsageError):
    """Paths get better and better along a cycle, or there are infinitely many.

    `cycle` holds its vertices in order, the first one again at the end. It is empty where the
    matrix was overwritten and only `vertex`, one that the cycle passes, is known.
    """

    def __init__(
        self, message: str, found: str = "", hint: str = "", cycle: Sequence[int] = ()
    ) -> None:
        super().__init__(message, found, hint)
        self.args = (message, found, hint, tuple(cycle))
        self.cycle = tuple(cycle)


def improves(ring: Semiring) -> Callable[[Array, Array], Array]:
    """The comparison by which an element replaces another one."""
    return np.less if ring.plus == "min" else np.greater


def improving_cycle(graph: DenseGraph | SparseGraph, ring: Semiring) -> tuple[int, ...]:
    """A cycle better than the empty path, its first vertex at both ends; () where there is none.

    Edges are relaxed from all vertices at once, and the edge that improved a vertex last is kept.
    As soon as these edges form a cycle, it is one that improves: each of its vertices is at least
    as good as its edge makes it, and one of them became better after its successor was last
    improved (Bellman and Ford; Tarjan's way to stop early). Its weight is taken exactly: a cycle
    that improves by rounding alone does not count.
    """
    n = graph.size
    times, better = UFUNCS[ring.times], improves(ring)
    one = {"add": 0, "mul": 1}[str(ring.times)]
    kind = graph.dtype if graph.dtype.kind == "f" else np.dtype(np.float64)
    value, parent = np.full(n, one, kind), np.full(n, -1, np.int64)
    for _ in range(n + 1):
        if isinstance(graph, DenseGraph):
            changed = _relax_rows(graph.matrix, ring, value, parent)
        else:
            changed = _relax_edges(graph, times, better, value, parent)
        found = _parent_cycle(parent)
        if found:
            return found if _is_improving(graph, found, ring) else ()
        if not changed:
            return ()
    return ()


def _relax_rows(matrix: Array, ring: Semiring, value: Array, parent: Array) -> bool:
    times, better = UFUNCS[ring.times], improves(ring)
    best = np.argmin if ring.plus == "min" else np.argmax
    absent = absent_value(ring, matrix.dtype)
    nothing = np.inf if ring.plus == "min" else -np.inf
    changed = False
    for first in range(0, len(matrix), _ROWS):
        part = matrix[first : first + _ROWS]
        with np.errstate(all="ignore"):
            sums = times(value[first : first + len(part), None], part)
        sums[part == absent] = nothing
        chosen = best(sums, axis=0)
        found = sums[chosen, np.arange(len(value))]
        place = better(found, value)
        if place.any():
            value[place], parent[place] = found[place], chosen[place] + first
            changed = True
    return changed


def _relax_edges(
    graph: SparseGraph,
    times: Callable[[Array, Array], Array],
    better: Callable[[Array, Array], Array],
    value: Array,
    parent: Array,
) -> bool:
    with np.errstate(all="ignore"):
        sums = times(value[graph.rows], graph.weights)
    place = np.flatnonzero(better(sums, value[graph.columns]))
    if not place.size:
        return False
    order = np.argsort(sums[place], kind="stable")
    if better is np.less:
        order = order[::-1]  # the best one is written last
    place = place[order]
    value[graph.columns[place]] = sums[place]
    parent[graph.columns[place]] = graph.rows[place]
    return True


def _parent_cycle(parent: Array) -> tuple[int, ...]:
    """A cycle of the edges parent[v] -> v, in the direction of the edges; () where none is."""
    links = parent.tolist()
    seen = [0] * len(links)
    for number, start in enumerate(range(len(links)), 1):
        at = start
        while at >= 0 and not seen[at]:
            seen[at] = number
            at = links[at]
        if at >= 0 and seen[at] == number:
            cycle = [at]
            while links[cycle[-1]] != at:
                cycle.append(links[cycle[-1]])
            cycle.append(at)
            return tuple(reversed(cycle))
    return ()


def _is_improving(graph: DenseGraph | SparseGraph, cycle: tuple[int, ...], ring: Semiring) -> bool:
    weights = [edge_weight(graph, ring, *edge) for edge in pairwise(cycle)]
    if ring.times == "add":
        total = math.fsum(weights) if graph.dtype.kind == "f" else sum(weights)
        return bool(total < 0 if ring.plus == "min" else total > 0)
    product = math.prod(map(Fraction, weights))
    return bool(product < 1 if ring.plus == "min" else product > 1)


def edge_weight(graph: DenseGraph | SparseGraph, ring: Semiring, i: int, j: int) -> float:
    """The weight of the best edge from i to j, as a number of Python."""
    if isinstance(graph, DenseGraph):
        return graph.matrix[i, j].item()  # type: ignore[no-any-return]
    found = graph.weights[(graph.rows == i) & (graph.columns == j)]
    return (found.min() if ring.plus == "min" else found.max()).item()  # type: ignore[no-any-return]


def any_cycle(graph: DenseGraph | SparseGraph, absent: object) -> tuple[int, ...]:
    """Any cycle of a graph, its first vertex at both ends; () where it is acyclic.

    Vertices without predecessors are taken away until none is left (Kahn); of what stays, every
    vertex has a predecessor that stays, and going back along them ends in a cycle.
    """
    n = graph.size
    if isinstance(graph, DenseGraph):
        rows, columns = np.nonzero(graph.matrix != absent)
    else:
        rows, columns = graph.rows, graph.columns
    order = np.argsort(rows, kind="stable")
    begins = np.searchsorted(rows[order], np.arange(n + 1))
    ends = columns[order]
    left = np.bincount(columns, minlength=n)
    waiting = np.flatnonzero(left == 0).tolist()
    removed = np.zeros(n, bool)
    while waiting:
        vertex = waiting.pop()
        removed[vertex] = True
        after = ends[begins[vertex] : begins[vertex + 1]]
        np.subtract.at(left, after, 1)
        waiting += np.unique(after[left[after] == 0]).tolist()
    if removed.all():
        return ()
    stays = ~removed[rows] & ~removed[columns]
    parent = np.full(n, -1, np.int64)
    parent[columns[stays]] = rows[stays]
    return _parent_cycle(parent)
