"""What has to hold before a dealt matrix is closed: the laws for its elements, no cycles to count.

Each rank looks at its own elements; ranges and degrees are combined over all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.integrations.mpi.block_cyclic import BlockCyclic
from loopwright.integrations.mpi.communicator import Communicator
from loopwright.ir.dtypes import dtype_of
from loopwright.paths.graph_input import absent_value
from loopwright.paths.semiring_closure import check_range, not_idempotent, weight_range
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.distributive import Law, ValueRange, law_of
from loopwright.semirings.named import Semiring

__all__ = ["check_acyclic", "check_dealt_laws", "least_weight"]

_ROWS = 64  # that are looked at together


def check_dealt_laws(matrix: BlockCyclic, ring: Semiring, world: Communicator) -> None:
    """Refuse elements for which the laws do not hold: `paths.check_laws` for a dealt matrix."""
    dtype = dtype_of(matrix.dtype)
    ring.check_dtype(dtype)
    if law_of(ring, dtype) is not Law.RANGE or not matrix.shape[0]:
        return
    is_nan, mine = False, []
    for values in _strips(matrix.local):
        is_nan |= values.dtype.kind == "f" and bool(np.isnan(np.min(values, initial=np.inf)))
        if not is_nan:
            mine.append(weight_range(values, ring, dtype))
    ranges = world.collect((is_nan, mine))
    if any(is_nan for is_nan, _ in ranges):
        raise UsageError("a weight is not a number", hint="--absent nan where it means no edge")
    known = [part for _, parts in ranges for part in parts if part is not None]
    if known:
        # -0.0 is below 0.0 here: products with it decide what is refused.
        low = min((part.low for part in known), key=lambda x: (x, np.copysign(1.0, float(x))))
        high = max(part.high for part in known)
        check_range(ValueRange(low, high), matrix.shape[0], ring, dtype)


def least_weight(matrix: BlockCyclic, absent: float, world: Communicator) -> float:
    """The least element but for the absent value; 1 where there is none below it."""
    low = 1.0
    for part in _strips(matrix.local):
        low = min(low, float(np.min(part, where=part != absent, initial=1.0)))
    return float(world.reduce_all(np.array([low]), "min")[0])


def check_acyclic(matrix: BlockCyclic, ring: Semiring, world: Communicator) -> None:
    """Refuse a graph with a cycle, with one, for sums that count every path.

    Vertices without edges that enter them are removed as long as there are any (Kahn): one
    reduction of n numbers for each length of path there is.
    """
    n = matrix.shape[0]
    rows, columns = (_places(matrix, axis) for axis in (0, 1))
    absent = absent_value(ring, matrix.dtype)
    entering = world.reduce_all(_entering(matrix.local, absent, columns, n), "sum")
    is_left = np.ones(n, bool)
    while True:
        free = is_left & (entering == 0)
        if not free.any():
            break
        is_left &= ~free
        gone = _entering(matrix.local, absent, columns, n, free[rows])
        entering -= world.reduce_all(gone, "sum")
    if not is_left.any():
        return
    # Some vertex that is left enters each that is left: going back from one ends in a cycle.
    walk = [int(np.argmax(is_left))]
    while walk[-1] not in walk[:-1]:
        before = np.array([n], np.int64)
        here = np.flatnonzero(columns == walk[-1])
        if len(here):
            found = rows[(matrix.local[:, here[0]] != absent) & is_left[rows]]
            before[0] = found.min(initial=n)
        walk.append(int(world.reduce_all(before, "min")[0]))
    cycle = tuple(reversed(walk[walk.index(walk[-1]) :]))
    raise not_idempotent(ring, matrix.dtype, cycle)


def _entering(
    local: Array, absent: Any, columns: Array, n: int, among: Array | None = None
) -> Array:
    """How many local edges enter each vertex, from all rows or from those `among` marks."""
    found = np.zeros(n, np.int64)
    for start in range(0, len(local), _ROWS):
        part = local[start : start + _ROWS]
        if among is not None:
            part = part[among[start : start + _ROWS]]
        found[columns] += (part != absent).sum(axis=0)
    return found


def _strips(local: Array) -> Iterator[Array]:
    """The local array a few rows at a time: what is computed of all of it would take its memory."""
    for start in range(0, len(local), _ROWS):
        yield local[start : start + _ROWS]


def _places(matrix: BlockCyclic, axis: int) -> Array:
    """The numbers in the whole matrix of the local rows (0) or columns (1)."""
    dim = matrix.layout.dimensions[axis]
    place = matrix.layout.grid.place(matrix.rank)[axis]
    parts = [
        np.arange(part.start, part.start + part.length)
        for part in dim.segments(place, matrix.layout.grid.count(axis))
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
