"""Ranges of loops inside of another one that are alike in nearly all of its iterations.

    for i: for k in [max(0, i - m), min(n, i)]: ...

Iterations of i run through the same distances of k from i, wherever the array does not end: ranges
that differ by lane then cost vectors along i nothing (lower/values/moving_windows).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from loopwright.analysis.size_estimates import at_middle, at_sizes
from loopwright.ir.islkit import context, isl
from loopwright.ir.program import Program, Statement
from loopwright.ir.schedule_tree import Band, bands, moved_by

__all__ = ["has_windows"]

_SLOPES = (0, 1, -1)
_BORDERS = 4  # times the length of a window: the iterations that move it, at least


def has_windows(
    program: Program,
    band: Band,
    sizes: Mapping[str, int],
    trips: Mapping[str, Mapping[str, float]],
) -> bool:
    """Whether every loop inside of one has windows that its iterations move or let stay.

    The window of a loop holds the values that its variable has, or their distances from the
    variable of the loop around; at the middle of all loops it is full, and it is short beside the
    iterations of that loop. `trips` are those of the loops of every statement.
    """
    around = moved_by(band, program)
    for inner in bands(band.child):
        for name, iterator in moved_by(inner, program).items():
            statement, outer = program.statement(name), around.get(name)
            if outer is None or iterator not in statement.iterators:
                return False
            widths = [_width(statement, outer, iterator, slope, sizes) for slope in _SLOPES]
            window = min((width for width in widths if width is not None), default=math.inf)
            if trips[name][iterator] < window or trips[name][outer] < _BORDERS * window:
                return False
    return True


def _width(
    statement: Statement, outer: str, inner: str, slope: int, sizes: Mapping[str, int]
) -> int | None:
    """Distances of one iterator from `slope` times another, from the least to the greatest.

    Iterators of loops around both have their middle values, as in `average_trips`.
    """
    names = list(statement.iterators)
    space = ", ".join(f"i{k}" for k in range(len(names)))
    one, other = names.index(inner), names.index(outer)
    text = f"{{ [{space}] -> [i{one} - {slope} * i{other}] }}"
    domain = at_sizes(statement.domain, sizes).reset_tuple_id()
    for at in range(other):
        domain = at_middle(domain, at)
    found = domain.apply(isl.Map.read_from_str(context(), text))
    low, high = found.dim_min_val(0), found.dim_max_val(0)
    if not (low.is_int() and high.is_int()):
        return None
    return int(high.to_python()) - int(low.to_python()) + 1
