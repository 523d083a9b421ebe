"""How many tiles cover a domain of two loops: all of a rectangle, about half of them of a triangle.

Tiles begin at multiples of their sizes. Cores of a mesh that go from turn to turn together take the
time of a whole tile in each turn in which any of them has work, so what counts is the number of
turns, tiles of tiles, that are not empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from loopwright.ir.islkit import isl, isl_integer
from loopwright.ir.program import Statement
from loopwright.lazy_dataclass import dataclass

__all__ = ["TileCover", "tile_cover"]

_SET, _PARAM, _DIV = isl.dim_type.set, isl.dim_type.param, isl.dim_type.div
_MOST_ROWS = 1 << 14
_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TileCover:
    """The columns of each row of a convex domain."""

    start: int  # the first row
    first: Any  # columns, a vector of NumPy: of each row the first one
    last: Any  # and the last one
    known: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows up to the last one."""
        return self.start + len(self.first)

    @property
    def columns(self) -> int:
        """Columns up to the last one of any row."""
        return int(self.last.max()) + 1

    def tiles(self, heights: _Numbers, widths: _Numbers) -> _Numbers:
        """Tiles of so many rows and columns that are not empty."""
        # Few are different: one number for each pair is sorted faster than pairs are.
        different, place = np.unique(heights * _MOST_ROWS + widths, return_inverse=True)
        counts = [self._count(*divmod(int(pair), _MOST_ROWS)) for pair in different]
        found: _Numbers = np.array(counts)[place.ravel()]
        return found

    def _count(self, height: int, width: int) -> int:
        if (height, width) not in self.known:
            ends = np.arange(self.start // height + 1, -(-self.rows // height)) * height
            begins = np.concatenate([[0], ends - self.start])
            first = np.minimum.reduceat(self.first, begins)
            last = np.maximum.reduceat(self.last, begins)
            self.known[height, width] = int((last // width - first // width + 1).sum())
        return self.known[height, width]


def tile_cover(
    statement: Statement, row: str, column: str, sizes: Mapping[str, int]
) -> TileCover | None:
    """What two iterators of a statement run through, at given sizes; None where it is not known."""
    domain = statement.domain
    for at in range(domain.dim(_PARAM)):
        value = isl_integer(sizes.get(domain.get_dim_name(_PARAM, at) or "", 1))
        domain = domain.fix_val(_PARAM, at, value)
    domain = domain.project_out(_PARAM, 0, domain.dim(_PARAM))
    for at in reversed(range(len(statement.iterators))):
        if statement.iterators[at] not in (row, column):
            domain = domain.project_out(_SET, at, 1)
    pieces: list[isl.BasicSet] = []
    domain.coalesce().foreach_basic_set(pieces.append)
    if len(pieces) != 1 or pieces[0].dim(_DIV):
        return None
    order = [name for name in statement.iterators if name in (row, column)]
    down, across = order.index(row), order.index(column)
    low, high = domain.dim_min_val(down), domain.dim_max_val(down)
    if domain.is_empty() or not (low.is_int() and high.is_int()):
        return None
    start, end = low.to_python(), high.to_python()
    if start < 0 or end - start >= _MOST_ROWS:
        return None
    rows = np.arange(start, end + 1)
    first, last = np.zeros(len(rows), np.int64), np.full(len(rows), 1 << 40)
    for constraint in pieces[0].get_constraints():
        a, b = (constraint.get_coefficient_val(_SET, at).to_python() for at in (down, across))
        rest = a * rows + constraint.get_constant_val().to_python()  # rest + b * column >= 0
        if constraint.is_equality():
            return None
        if b > 0:
            first = np.maximum(first, -(rest // b))
        elif b < 0:
            last = np.minimum(last, rest // -b)
    if (first > last).any() or (last >= 1 << 40).any():
        return None
    return TileCover(start, first, last)
