"""The smallest skew that lets several iterations of a loop run together, from the dependences.

With row r(S) of an instance and time t(S), part x of the body runs in wave

    w(S) = r(S) + slope * t(S) + shift_x

and a dependence S -> T from part x to part y is kept when w(T) >= w(S): at equal waves the order of
the source decides. So for the smallest distance d = r(T) - r(S) at each distance in time dt

    shift_y - shift_x >= need - slope * dt - d                      (need = 0)

which has a solution where the graph of these bounds has no cycle of positive weight. Asking for
need = W where dt > 0 makes the iterations of t inside a wave of W rows independent of each other.
"""

from __future__ import annotations

from collections.abc import Iterable

import islpy as isl

from loopwright.ir.islkit import context
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, Filter, bands, read_tree
from loopwright.transform.facts import fact
from loopwright.transform.legal import relaxed_order
from loopwright.transform.skew import Skew, parts_of

__all__ = ["smallest_skew"]

_MOST_SLOPE = 6
_MOST_PARTS = 16
_FARTHEST = 16  # rows that a neighbourhood may span

# From part, to part, distance in time (2 stands for two and more), smallest distance in rows.
_Distance = tuple[int, int, int, int]


def smallest_skew(
    schedule: Schedule, loop: str, block: int, *, apart: bool, width: int = 1
) -> Skew | None:
    """The skew of `loop` with the least slope; None when its rows depend on more than neighbours.

    `apart` asks for waves in which the iterations of `loop` are independent. Parts with fewer loops
    than the others, such as borders, belong to row 0.
    """
    band = next((b for b in bands(read_tree(schedule.tree)) if b.loop == loop), None)
    if band is None:
        return None
    parts = parts_of(band)
    depths = [sum(1 for _ in bands(part.child)) for part in parts]
    rows = tuple(
        int(isinstance(p.child, Band) and d == max(depths))
        for p, d in zip(parts, depths, strict=True)
    )
    if not any(rows) or len(parts) > _MOST_PARTS:
        return None
    distances = _distances(schedule, band, parts, rows)
    if distances is None:
        return None
    for slope in range(_MOST_SLOPE + 1):
        shifts = _shifts(distances, len(parts), slope, width if apart else 0)
        if shifts is not None:
            return Skew(loop, slope, shifts, rows, block, width)
    return None


def _distances(
    schedule: Schedule, band: Band, parts: tuple[Filter, ...], rows: tuple[int, ...]
) -> list[_Distance] | None:
    """The bounds between all parts; None when rows far from each other depend on each other."""
    pairs = fact(relaxed_order, schedule.program).all_
    time = isl.UnionMap.from_union_pw_aff(band.partial.get_union_pw_aff(0))
    places = [
        _rows(part, is_row).intersect_domain(part.instances.universe())
        for part, is_row in zip(parts, rows, strict=True)
    ]
    found: list[_Distance] = []
    for x, source in enumerate(parts):
        leaving = pairs.intersect_domain(source.instances)
        for y, target in enumerate(parts):
            between = leaving.intersect_range(target.instances)
            if between.is_empty():
                continue
            start = time.flat_range_product(places[x])
            end = time.flat_range_product(places[y])
            steps = between.apply_domain(start).apply_range(end).deltas()
            for apart, part in _by_time(steps):
                least, most = part.dim_min_val(1), part.dim_max_val(1)
                if not (least.is_int() and most.is_int()):
                    return None
                if max(abs(least.to_python()), abs(most.to_python())) > _FARTHEST:
                    return None
                found.append((x, y, apart, least.to_python()))
    return found


def _rows(part: Filter, is_row: int) -> isl.UnionMap:
    if is_row:
        assert isinstance(part.child, Band)
        return isl.UnionMap.from_union_pw_aff(part.child.partial.get_union_pw_aff(0))
    zero = isl.UnionPwAff.val_on_domain(part.instances.universe(), isl.Val.zero(context()))
    return isl.UnionMap.from_union_pw_aff(zero)


def _by_time(steps: isl.UnionSet) -> Iterable[tuple[int, isl.Set]]:
    """The distances [dt, dr] parted by dt: 0, 1, and 2 for all beyond."""
    if steps.is_empty():
        return
    whole = isl.Set.from_union_set(steps)
    zero = whole.fix_val(isl.dim_type.set, 0, isl.Val.zero(context()))
    one = whole.fix_val(isl.dim_type.set, 0, isl.Val.one(context()))
    more = whole.lower_bound_val(isl.dim_type.set, 0, isl.Val.int_from_si(context(), 2))
    for apart, part in ((0, zero), (1, one), (2, more)):
        if not part.is_empty():
            yield apart, part


def _shifts(
    distances: list[_Distance], count: int, slope: int, need: int
) -> tuple[int, ...] | None:
    """The smallest shifts that keep all bounds, the longest paths of their graph."""
    bounds = [(x, y, (need if dt else 0) - slope * dt - least) for x, y, dt, least in distances]
    shifts = [0] * count
    for _ in range(count + 1):
        before = list(shifts)
        for x, y, bound in bounds:
            shifts[y] = max(shifts[y], shifts[x] + bound)
        if shifts == before:
            return tuple(shifts)
    return None
