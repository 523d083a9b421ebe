"""Best paths themselves: predecessors at the speed of products, and a vertex list on request.

The elimination runs as without predecessors, but for two things. A product writes to memory of its
own, and where it improves the matrix the number of its block is kept, one pass over the elements.
The rows of a block are closed step by step with the predecessor of every element beside it: they
are b n^2 of the n^3 pairs. Before that, and for all rows at the end, the vertex k over which the
last block improved an element is searched for (`mediators`), and the predecessor of (i, j) is what
row k had for j when its block was closed. So each one is the last vertex but one of the walk whose
value the elimination computed.

Why paths end, in exact arithmetic. Let t(i, x) be the block after which the value of (i, x) was
final; elements are replaced by better ones only, so it is the least over all best paths of the last
block that they enter. If following predecessors from x runs into a cycle, each of its edges y -> x
gives t(i, y) <= t(i, x), since the part of the path before x is a best path to y; so all are equal
to one block K. The vertex of K through which (i, x) was improved could improve (i, y) as well, and
the least one is always taken: so it is one and the same m for all of the cycle, and the cycle
stands in the predecessors that row m had when K was closed. There the same holds with single
vertices in the place of blocks, and so on with earlier and earlier steps: no cycle is there at all.
Cycles of weight zero are included. Sums and products that are rounded may break this: all rows are
tested, and a row that does not end is made again by iterations from its vertex, whose predecessors
are a tree by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from loopwright.calls.einsum import einsum
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import dtype_of
from loopwright.lazy_dataclass import dataclass
from loopwright.paths.elimination import ROUTE_BLOCK, add_product
from loopwright.paths.graph_input import (
    DenseGraph,
    SparseGraph,
    absent_value,
    require_room,
    to_dense,
)
from loopwright.paths.improvements import BLOCK_NUMBER, mark_improved
from loopwright.paths.mediators import resolve
from loopwright.paths.rising_rows import rows_in_doubt
from loopwright.paths.semiring_closure import cycle_check
from loopwright.paths.sources import first_values, iterate
from loopwright.paths.sparse_search import is_searchable, search_from, search_pairs
from loopwright.paths.step_kernels import PREDECESSOR, close_panel_with_predecessors
from loopwright.paths.step_order import do_at_once
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import Semiring

__all__ = ["Routes", "is_searched", "routes_between", "routes_by_search", "routes_from"]

NOTHING = -1


@dataclass(frozen=True, slots=True)
class Routes:
    """Values of best paths, and the paths.

    `predecessors[r, j]` is the last vertex but one of the path to j; -1 where j is the source or is
    not reached. Row r belongs to vertex `sources[r]`.
    """

    distances: Array
    predecessors: Array
    sources: Array

    def path(self, i: int, j: int) -> list[int]:
        """The vertices of a best path from i to j, both included; [] where there is none."""
        rows = np.flatnonzero(self.sources == i)
        n = self.distances.shape[1]
        if not rows.size:
            raise UsageError(f"paths from vertex {i} were not asked for", hint="sources=")
        if not 0 <= j < n:
            raise UsageError("no such vertex", found=str(j), hint=f"0 to {n - 1}")
        before = self.predecessors[rows[0]]
        path = [int(j)]
        while path[-1] != i:
            last = int(before[path[-1]])
            if last == NOTHING:
                return []
            path.append(last)
        return path[::-1]


def routes_between(graph: DenseGraph | SparseGraph, ring: Semiring, threads: int) -> Routes:
    """Best paths between all vertices."""
    n = graph.size
    a = to_dense(graph, ring)
    kept = DenseGraph(a.copy(), False) if isinstance(graph, SparseGraph) else graph
    check = cycle_check(ring, kept)
    check(a, 0)
    np.fill_diagonal(a, ring.one(dtype_of(a.dtype)))
    begins = np.arange(n, dtype=PREDECESSOR.numpy)[:, None]
    nothing = PREDECESSOR.numpy.type(NOTHING)
    before = np.where(a != absent_value(ring, a.dtype), begins, nothing)
    np.fill_diagonal(before, NOTHING)
    if 0 < n <= 2 * ROUTE_BLOCK:
        close_panel_with_predecessors(a.copy(), before.copy(), a, before, ring)
        check(a, 0)
    elif n:
        before = _by_blocks(a, before, ring, threads, check)
    np.fill_diagonal(a, ring.one(dtype_of(a.dtype)))
    np.fill_diagonal(before, NOTHING)
    _mend(kept, ring, a, before, threads)
    return Routes(a, before, np.arange(n))


def _by_blocks(
    a: Array, before: Array, ring: Semiring, threads: int, check: Callable[[Array, int], None]
) -> Array:
    """Close `a`; return the predecessors. `before` holds those of edges at first."""
    n = len(a)
    improved = np.zeros((n, n), BLOCK_NUMBER.numpy)
    columns, rows = np.empty_like(a), np.empty_like(a)
    result = np.empty_like(before)
    old = a.copy()
    for number, first in enumerate(range(0, n, ROUTE_BLOCK)):
        end = min(n, first + ROUTE_BLOCK)
        if number:
            given = a, improved, columns, rows, before, result
            resolve(ring, (first, end), ROUTE_BLOCK, given, threads)
            before[first:end] = result[first:end]
        _close_rows(a, before, (first, end), ring, threads)
        square = a[first:end, first:end].copy()
        check(square, first)
        a[first:end, first:end] = square
        improved[first:end] = 0
        left = columns[:, first:end]
        left[...] = a[:, first:end]
        panel = a[first:end].copy()
        rows[:, first:end] = panel.T
        old[first:end] = panel
        left = np.ascontiguousarray(left)
        for part in (slice(0, first), slice(end, n)):
            add_product(a[part], left[part], panel, ring, threads)
        mark_improved(a, old, improved, number + 1, threads)
    resolve(ring, (0, n), ROUTE_BLOCK, (a, improved, columns, rows, before, result), threads)
    return result


def _close_rows(
    a: Array,
    before: Array,
    block: tuple[int, int],
    ring: Semiring,
    threads: int,
) -> None:
    """The rows of a block, the columns shared out: each thread closes the square for itself."""
    first, end = block
    square = a[first:end, first:end].copy(), before[first:end, first:end].copy()

    def close(piece: slice) -> None:
        own = square[0].copy(), square[1].copy()
        part = a[first:end, piece].copy(), before[first:end, piece].copy()
        close_panel_with_predecessors(*own, *part, ring)
        a[first:end, piece], before[first:end, piece] = part

    do_at_once(close, _pieces(len(a), threads), threads)


def _pieces(n: int, threads: int) -> list[slice]:
    ends = [n * part // threads for part in range(threads + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


_CHUNK = 1 << 16  # elements that are compared at a time: they stay in the caches


def _mend(graph: DenseGraph, ring: Semiring, values: Array, before: Array, threads: int) -> None:
    """Make rows whose predecessors do not lead back to their vertex again."""
    wrong = _rows_that_do_not_end(values, before, threads)
    if wrong.size:
        found = routes_from(graph, ring, wrong, _from(graph, ring, wrong, threads))
        values[wrong], before[wrong] = found.distances, found.predecessors


def _from(graph: DenseGraph, ring: Semiring, sources: Array, threads: int) -> Array:
    x = first_values(graph, ring, sources)
    found = iterate(graph, ring, x, graph.size + 1, threads)
    if found is None:
        raise UsageError(
            "rounding makes a cycle better than the empty path again and again",
            hint="float64, or weights without cycles of weight zero",
        )
    return found


def _rows_that_do_not_end(values: Array, before: Array, threads: int) -> Array:
    """Rows in which following predecessors from some vertex never comes to -1."""
    left = rows_in_doubt(values, before, threads)
    step = max(1, _CHUNK // max(before.shape[1], 1))
    chunks = (left[k : k + step] for k in range(0, len(left), step))
    found = [_endless_rows(before[rows], rows) for rows in chunks]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _endless_rows(before: Array, rows: Array) -> Array:
    """Those of `rows` that do not end, by following 1, 2, 4, ... predecessors at once."""
    n = before.shape[1]
    # Column n stands for the end, and links to itself.
    links = np.full((len(rows), n + 1), n, np.int64)
    links[:, :n] = np.where(before == NOTHING, n, before)
    for _ in range(n.bit_length() + 1):
        if not rows.size:
            break
        links = np.take_along_axis(links, links, axis=1)
        going = (links != n).any(axis=1)
        rows, links = rows[going], links[going]
    return rows


def is_searched(graph: DenseGraph | SparseGraph, ring: Semiring, sources: int) -> bool:
    """Whether paths with predecessors are found by searches from the sources."""
    if isinstance(graph, DenseGraph) or not is_searchable(graph, ring):
        return False
    return search_pairs(graph, sources) < float(graph.size) ** 3


def routes_by_search(
    graph: DenseGraph | SparseGraph, ring: Semiring, sources: Array, threads: int
) -> Routes:
    """Best paths from some vertices of a sparse graph; edges of a search are a tree."""
    assert isinstance(graph, SparseGraph), "dense graphs are not searched"
    size = graph.dtype.itemsize + 2 * PREDECESSOR.numpy.itemsize
    require_room(len(sources) * graph.size * size, f"paths from {len(sources):,} vertices")
    return Routes(*search_from(graph, ring, sources, threads), sources)


def routes_from(
    graph: DenseGraph | SparseGraph, ring: Semiring, sources: Array, values: Array
) -> Routes:
    """Best paths from some vertices, whose values no further iteration improves.

    Among the edges that are tight, value[p] times weight equal to value[j], a search from the
    source in breadth gives each vertex its predecessor.
    """
    before = np.full(values.shape, NOTHING, PREDECESSOR.numpy)
    for number, source in enumerate(sources.tolist()):
        _grow_tree(graph, ring, int(source), values[number], before[number])
    return Routes(values, before, sources)


def _grow_tree(
    graph: DenseGraph | SparseGraph, ring: Semiring, source: int, value: Array, before: Array
) -> None:
    done = np.zeros(len(value), bool)
    done[source] = True
    front = np.array([source])
    absent = absent_value(ring, value.dtype)
    reached = value != absent
    while front.size:
        if isinstance(graph, DenseGraph):
            places, ends = np.nonzero(_tight(ring, value[front, None], graph.matrix[front], value))
            begins = front[places]
        else:
            edges = np.flatnonzero(np.isin(graph.rows, front))
            begins, ends = graph.rows[edges], graph.columns[edges]
            fits = _tight(ring, value[begins], graph.weights[edges], value[ends])
            begins, ends = begins[fits], ends[fits]
        new = ~done[ends] & reached[ends]
        begins, ends = begins[new], ends[new]
        before[ends[::-1]] = begins[::-1]  # of several the first one
        front = np.unique(ends)
        done[front] = True


def _tight(ring: Semiring, value: Array, weight: Array, end: Array) -> Array:
    """Where a path over an edge has the value of its end, by the arithmetic of the kernels."""
    shape = np.broadcast_shapes(value.shape, weight.shape)
    x = np.ascontiguousarray(np.broadcast_to(value, shape)).reshape(-1)
    y = np.ascontiguousarray(weight).reshape(-1)
    found = np.asarray(einsum("i,i->i", x, y, semiring=ring, threads=1)).reshape(shape)
    return np.asarray(found == end)
