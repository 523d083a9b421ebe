"""Interior row ranges: consecutive rows in which the same diagonals hold entries.

A diagonal d of a matrix reaches the rows low(d) <= i < high(d). Between two ends of diagonals the
set of those that reach a row stays the same, so no bounds need to be tested there. Code is
specialised for the long ones of these ranges; in all other rows each diagonal is tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.array_arguments import Array
from loopwright.sparse.uf import Term, evaluate

__all__ = ["RowBound", "RowRange", "common_range", "cut_name", "find_interior_ranges"]

_MOST = 4  # ranges that code is specialised for
_LEAST = 1 / 16  # fraction of all rows that a range must have


@dataclass(frozen=True)
class RowBound:
    """A bound that an index array sets to the outermost variable.

    is_low: v >= -rest - factor*f,   else: v <= rest + factor*f,   for every value of f
    """

    is_low: bool
    array: str
    factor: int  # 1 or -1
    rest: Term


@dataclass(frozen=True)
class RowRange:
    """Rows start <= v < stop, in which exactly the inner steps first <= d < last exist."""

    start: int
    stop: int
    first: int
    last: int


def cut_name(number: int) -> str:
    """The symbol of the row where a range begins, or the last one ends."""
    return f"CUT{number}"


def find_interior_ranges(
    row_bounds: Sequence[RowBound],
    arrays: Mapping[str, Array],
    symbols: Mapping[str, int],
    extent: int,
) -> list[RowRange]:
    """Consecutive ranges that together have the most rows.

    It is one of all steps, perhaps without a row, where that leaves few rows out or none is long.
    """
    lows, highs = _reach(row_bounds, arrays, symbols, extent)
    whole = _whole(lows, highs, extent)
    if whole.stop - whole.start >= (1 - _LEAST) * extent:
        return [whole]
    runs: list[list[RowRange]] = [[whole]]
    cuts = np.unique(np.concatenate([lows, highs, [0, extent]]))
    run: list[RowRange] = []
    for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        steps = np.flatnonzero((lows <= a) & (highs >= b))
        first, last = (int(steps[0]), int(steps[-1]) + 1) if len(steps) else (0, 0)
        if 0 < last - first == len(steps) and b - a >= _LEAST * extent:
            run.append(RowRange(a, b, first, last))
            runs.append(run[-_MOST:])
        else:
            run = []
    return max(runs, key=_rows)


def common_range(
    row_bounds: Sequence[RowBound],
    arrays: Mapping[str, Array],
    symbols: Mapping[str, int],
    extent: int,
) -> RowRange:
    """The rows that all steps reach."""
    return _whole(*_reach(row_bounds, arrays, symbols, extent), extent)


def _whole(lows: Array, highs: Array, extent: int) -> RowRange:
    start = int(lows.max(initial=0))
    return RowRange(start, max(start, int(highs.min(initial=extent))), 0, len(lows))


def _reach(
    row_bounds: Sequence[RowBound],
    arrays: Mapping[str, Array],
    symbols: Mapping[str, int],
    extent: int,
) -> tuple[Array, Array]:
    """The first row of each step, and the one after its last."""
    count = len(arrays[row_bounds[0].array])
    lows, highs = np.zeros(count, np.int64), np.full(count, extent, np.int64)
    for bound in row_bounds:
        numbers = bound.factor * arrays[bound.array].astype(np.int64)
        rest = evaluate(bound.rest, symbols, {})
        if bound.is_low:
            lows = np.maximum(lows, -rest - numbers)
        else:
            highs = np.minimum(highs, rest + numbers + 1)
    return np.minimum(lows, extent), np.maximum(highs, 0)


def _rows(run: Sequence[RowRange]) -> int:
    return sum(rows.stop - rows.start for rows in run)
