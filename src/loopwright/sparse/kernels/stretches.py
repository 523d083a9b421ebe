"""Stretches of rows in which the same diagonals hold entries.

A diagonal d of a matrix reaches the rows low(d) <= i < high(d). Between two ends of diagonals the
set of those that reach a row stays the same, so nothing has to be asked in there. Code is written
for the long ones of these stretches; in all other rows each diagonal is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loopwright.runtime.array_arguments import Array
from loopwright.sparse.uf import Linear, evaluate

__all__ = ["Edge", "Stretch", "cut_name", "find_stretches", "whole_stretch"]

_MOST = 4  # stretches that code is written for
_LEAST = 1 / 16  # of all rows that a stretch must have


@dataclass(frozen=True)
class Edge:
    """A bound that an index array sets to the outermost variable.

    is_low: v >= -rest - factor*f,   else: v <= rest + factor*f,   for every value of f
    """

    is_low: bool
    array: str
    factor: int  # 1 or -1
    rest: Linear


@dataclass(frozen=True)
class Stretch:
    """Rows start <= v < stop, in which exactly the inner steps first <= d < last exist."""

    start: int
    stop: int
    first: int
    last: int


def cut_name(number: int) -> str:
    """The symbol of the row where a stretch begins, or the last one ends."""
    return f"CUT{number}"


def find_stretches(
    edges: Sequence[Edge], arrays: Mapping[str, Array], symbols: Mapping[str, int], extent: int
) -> list[Stretch]:
    """Neighbouring stretches that together have the most rows.

    It is one of all steps, perhaps without a row, where that leaves few rows out or none is long.
    """
    lows, highs = _reach(edges, arrays, symbols, extent)
    whole = _whole(lows, highs, extent)
    if whole.stop - whole.start >= (1 - _LEAST) * extent:
        return [whole]
    runs: list[list[Stretch]] = [[whole]]
    cuts = np.unique(np.concatenate([lows, highs, [0, extent]]))
    run: list[Stretch] = []
    for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        steps = np.flatnonzero((lows <= a) & (highs >= b))
        first, last = (int(steps[0]), int(steps[-1]) + 1) if len(steps) else (0, 0)
        if 0 < last - first == len(steps) and b - a >= _LEAST * extent:
            run.append(Stretch(a, b, first, last))
            runs.append(run[-_MOST:])
        else:
            run = []
    return max(runs, key=_rows)


def whole_stretch(
    edges: Sequence[Edge], arrays: Mapping[str, Array], symbols: Mapping[str, int], extent: int
) -> Stretch:
    """The rows that all steps reach."""
    return _whole(*_reach(edges, arrays, symbols, extent), extent)


def _whole(lows: Array, highs: Array, extent: int) -> Stretch:
    start = int(lows.max(initial=0))
    return Stretch(start, max(start, int(highs.min(initial=extent))), 0, len(lows))


def _reach(
    edges: Sequence[Edge], arrays: Mapping[str, Array], symbols: Mapping[str, int], extent: int
) -> tuple[Array, Array]:
    """The first row of each step, and the one after its last."""
    count = len(arrays[edges[0].array])
    lows, highs = np.zeros(count, np.int64), np.full(count, extent, np.int64)
    for edge in edges:
        numbers = edge.factor * arrays[edge.array].astype(np.int64)
        rest = evaluate(edge.rest, symbols, {})
        if edge.is_low:
            lows = np.maximum(lows, -rest - numbers)
        else:
            highs = np.minimum(highs, rest + numbers + 1)
    return np.minimum(lows, extent), np.maximum(highs, 0)


def _rows(run: Sequence[Stretch]) -> int:
    return sum(stretch.stop - stretch.start for stretch in run)
