"""`closure`: one plus A plus A^2 plus ... over any semiring whose laws allow to compute it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loopwright.calls.einsum import einsum
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DType, dtype_of
from loopwright.paths.cycles import CycleError, any_cycle, improving_cycle
from loopwright.paths.elimination import (
    PRODUCT,
    ROUTE_BLOCK,
    add_one,
    block_size,
    eliminate,
)
from loopwright.paths.graph_input import (
    UFUNCS,
    DenseGraph,
    SparseGraph,
    absent_value,
    check_out,
    read_graph,
    require_room,
    to_dense,
)
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.thread_pool import thread_count
from loopwright.semirings.distributive import Law, ValueRange, absorbing, holds_within, law_of
from loopwright.semirings.named import Semiring
from loopwright.semirings.named import semiring as find_semiring

__all__ = [
    "better_cycles",
    "bytes_needed",
    "check_laws",
    "check_range",
    "close",
    "closure",
    "cycle_check",
    "endless",
    "not_idempotent",
    "power",
    "shown",
    "weight_range",
]

_METHODS = ("elimination", "squaring")


def closure(
    graph: Any,
    semiring: str | Semiring,
    *,
    method: str = "elimination",
    absent: Any = None,
    out: Array | None = None,
    threads: int | None = None,
) -> Array:
    """The closure D = one plus A plus A^2 plus ... of a square matrix over a semiring.

    Element (i, j) is the sum, by plus, over all paths from i to j, of the product of their edges;
    the empty path from i to i counts as one. For an idempotent plus the sum is finite unless a
    cycle is better than the empty path (CycleError). For any other, such as plus_times, which
    counts paths, the graph has to be acyclic.

    `method="squaring"` multiplies (one plus A) by itself until nothing changes: log2(n) products in
    place of one, for idempotent semirings, to check the elimination by another way. `absent` is the
    value that means "no edge", where it is not that of the semiring. `out` may be the matrix
    itself; new memory is stated by `bytes_needed`.
    """
    ring = find_semiring(semiring)
    if method not in _METHODS:
        raise UsageError("unknown method", found=repr(method), hint=", ".join(_METHODS))
    found = read_graph(graph, ring, absent)
    check_laws(found, ring)
    team = thread_count(threads)
    if method == "squaring":
        if not ring.idempotent:
            raise not_idempotent(ring, found.dtype, ())
        a = _fresh(found, ring, None, 2)
        result = power(a, ring, None, team)
        return result if out is None else _put(result, check_out(out, result.shape, result.dtype))
    if not ring.idempotent:
        cycle = any_cycle(found, absent_value(ring, found.dtype))
        if cycle:
            raise not_idempotent(ring, found.dtype, cycle)
    return close(found, ring, out, team)


def close(
    graph: DenseGraph | SparseGraph, ring: Semiring, out: Array | None, threads: int
) -> Array:
    """The closure by elimination, of a graph whose laws have been checked."""
    a = _fresh(graph, ring, out, 1)
    kept = None if isinstance(graph, DenseGraph) and a is graph.matrix else graph
    eliminate(a, ring, threads, check=cycle_check(ring, kept) if ring.idempotent else None)
    if ring.idempotent:
        np.fill_diagonal(a, ring.one(dtype_of(a.dtype)))  # no cycle is better: see the check
    else:
        add_one(a, ring)
    return a


def bytes_needed(n: int, dtype: Any, *, predecessors: bool = False) -> int:
    """Bytes that the closure of n vertices allocates, the result included, beside the graph."""
    size = int(np.dtype(dtype).itemsize)
    if not predecessors:
        block = min(n, block_size(n))
        return (n * n + 2 * n * block + 2 * block * block) * size  # with a block's rows and columns
    # Values, those before a step, the rows and columns of all steps; predecessors of edges and of
    # paths, numbers of blocks. Of a step: its columns, its rows and what they are closed from.
    block = min(n, ROUTE_BLOCK)
    return n * n * (4 * size + 4 + 4 + 2) + n * block * (4 * size + 4)


def _fresh(
    graph: DenseGraph | SparseGraph, ring: Semiring, out: Array | None, copies: int
) -> Array:
    n = graph.size
    if out is not None:
        return to_dense(graph, ring, check_out(out, (n, n), graph.dtype))
    needed = bytes_needed(n, graph.dtype) + (copies - 1) * n * n * graph.dtype.itemsize
    require_room(needed, f"the closure of {n:,} vertices")
    return to_dense(graph, ring)


def power(a: Array, ring: Semiring, edges: int | None, threads: int) -> Array:
    """(one plus a)^edges, by squaring; without `edges`, until nothing changes.

    Element (i, j) is the best walk of at most `edges` edges. `a` is overwritten.
    """
    add_one(a, ring)
    if edges is None:
        for _ in range(max(1, len(a)).bit_length() + 1):
            square = _product(a, a, ring, threads)
            if np.array_equal(square, a):
                return a
            a = square
        vertex = int(np.argmax(a.diagonal() != ring.one(dtype_of(a.dtype))))
        raise endless(ring, vertex, ())
    result = None
    while edges:
        if edges & 1:
            result = a if result is None else _product(result, a, ring, threads)
        edges >>= 1
        if edges:
            a = _product(a, a, ring, threads)
    if result is not None:
        return result
    result = np.full_like(a, absent_value(ring, a.dtype))
    np.fill_diagonal(result, ring.one(dtype_of(a.dtype)))
    return result


def _product(x: Array, y: Array, ring: Semiring, threads: int) -> Array:
    return np.asarray(einsum(PRODUCT, x, y, semiring=ring, threads=threads)).reshape(x.shape)


def _put(result: Array, out: Array) -> Array:
    np.copyto(out, result)
    return out


# -- laws -----------------------------------------------------------------------------------------


def check_laws(graph: DenseGraph | SparseGraph, ring: Semiring) -> None:
    """Refuse elements for which times does not distribute over plus, or is not associative."""
    dtype = dtype_of(graph.dtype)
    if law_of(ring, dtype) is not Law.RANGE or not graph.size:
        return
    values = graph.matrix if isinstance(graph, DenseGraph) else graph.weights
    if values.dtype.kind == "f" and np.isnan(np.min(values, initial=np.inf)):
        raise UsageError("a weight is not a number", hint="absent=np.nan where it means no edge")
    check_range(weight_range(values, ring, dtype), graph.size, ring, dtype)


def check_range(found: ValueRange | None, n: int, ring: Semiring, dtype: DType) -> None:
    """Refuse the elements of a graph of n vertices by the range they lie in: see `check_laws`."""
    if found is None or law_of(ring, dtype) is not Law.RANGE:
        return
    # A path visits each vertex once, so that it has fewer than n edges.
    edges = max(1, n - 1)
    ranges = [found] * edges
    if ring.times == "add":  # the same sums from one range
        ranges = [ValueRange(found.low * edges, found.high * edges)]
    if holds_within(ring, dtype, ranges):
        return
    if dtype.is_integer:
        raise UsageError(
            f"{ring.name} over {dtype}: times is not associative where paths of "
            f"{n - 1} edges saturate",
            found=f"weights from {found.low} to {found.high}",
            hint="weights of one sign, a wider type or float64",
        )
    raise UsageError(
        f"{ring.name} over {dtype}: times does not distribute over plus on all of these weights",
        found=f"weights from {found.low} to {found.high}",
        hint="factors that are not negative, and no infinity beside zeros",
    )


def weight_range(values: Array, ring: Semiring, dtype: DType) -> ValueRange | None:
    """The least and greatest element, but for the one that every product with it is."""
    away = absorbing(ring, dtype)
    where: Any = True if away is None else values != away
    if not np.any(where) or not values.size:
        return None
    if dtype.is_integer:
        limits = np.iinfo(values.dtype)
        least = int(np.min(values, where=where, initial=limits.max))
        return ValueRange(least, int(np.max(values, where=where, initial=limits.min)))
    low = float(np.min(values))
    if low == 0 and np.signbit(values[values == 0]).any():
        low = -0.0
    return ValueRange(low, float(np.max(values)))


def better_cycles(square: Array, ring: Semiring) -> Array:
    """For each vertex of a closed square whether a cycle through it beats the empty path."""
    one = np.asarray(ring.one(dtype_of(square.dtype)), square.dtype)
    before = square.diagonal().copy()
    plus = UFUNCS.get(ring.plus)
    if plus is not None:
        return np.asarray(plus(before, one) != one)
    # one plus (d times one) in the semiring itself, whose operators are a user's.
    after, units = np.full_like(before, one), np.full_like(before, one)
    einsum("i,i->i", before, units, semiring=ring, out=after, accumulate=True, threads=1)
    return np.asarray(after != one)


def cycle_check(
    ring: Semiring, graph: DenseGraph | SparseGraph | None
) -> Callable[[Array, int], None]:
    """What looks at each closed square for cycles that are better than the empty path.

    `graph` is the one that is closed, None where it is overwritten.
    """

    def check(square: Array, first: int) -> None:
        one = np.asarray(ring.one(dtype_of(square.dtype)), square.dtype)
        worse = better_cycles(square, ring)
        if not worse.any():
            return
        vertex = first + int(np.argmax(worse))
        cycle: tuple[int, ...] = ()
        if graph is not None and ring.times in ("add", "mul") and ring.plus in ("min", "max"):
            cycle = improving_cycle(graph, ring)
            if not cycle:  # by rounding only
                place = np.flatnonzero(worse)
                square[place, place] = one
                return
        raise endless(ring, vertex, cycle)

    return check


_WORDS = {
    ("min", "add"): "a cycle of negative weight",
    ("max", "add"): "a cycle of positive weight",
    ("min", "mul"): "a cycle of a product below 1",
    ("max", "mul"): "a cycle of a product above 1",
}


def endless(ring: Semiring, vertex: int, cycle: tuple[int, ...]) -> CycleError:
    """The refusal of a graph in which paths have no best one."""
    what = _WORDS.get((str(ring.plus), str(ring.times)), "a cycle better than the empty path")
    if cycle:
        return CycleError(
            f"{what}: paths along it have no best one",
            found=shown(cycle),
            hint="walks of at most `edges` edges (longest, least_reliable), or another graph",
            cycle=cycle,
        )
    return CycleError(
        f"{what}: paths along it have no best one",
        found=f"vertex {vertex}, which it passes",
        hint="without out= being the matrix itself the whole cycle is told",
    )


def not_idempotent(ring: Semiring, dtype: Any, cycle: tuple[int, ...]) -> UsageError:
    """The refusal of a graph whose paths are counted, and which has a cycle."""
    text = f"{ring.name}: plus is not idempotent (one plus one is not one), so that every path"
    if not cycle:
        return UsageError(f"{text} counts once only by elimination", hint="method='elimination'")
    return CycleError(
        f"{text} counts, and a cycle makes infinitely many",
        found=shown(cycle),
        hint="an acyclic graph, or an idempotent semiring such as min_plus",
        cycle=cycle,
    )


def shown(cycle: tuple[int, ...]) -> str:
    """A cycle as text, a long one cut short."""
    text = [str(v) for v in cycle]
    return " -> ".join(text if len(text) <= 12 else [*text[:8], "...", *text[-3:]])
