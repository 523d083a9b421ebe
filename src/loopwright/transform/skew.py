"""Skew: run several iterations of a loop together as a wavefront over the rows of its body.

`smallest_skew` derives the step from the dependences. With row r(S) of an instance and time t(S),
part x of the body runs in wavefront

    w(S) = r(S) + slope * t(S) + shift_x

and a dependence S -> T from part x to part y is kept when w(T) >= w(S): within a wavefront the
source order decides. So for the smallest distance d = r(T) - r(S) at each distance in time dt

    shift_y - shift_x >= need - slope * dt - d                      (need = 0)

which has a solution where the graph of these bounds has no cycle of positive weight. With need = W
where dt > 0 the iterations of t inside a wavefront of W rows are independent of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.longest_paths import longest_paths
from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import context, isl, isl_integer
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Node,
    Sequence,
    bands,
    map_bands,
    nodes_of,
    path_to,
    rename_band,
    sequence,
)
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import (
    find_band,
    open_bands,
    privatized_dependences,
    reordered,
    require_unmarked,
    validity_dependences,
)
from loopwright.transform.step import Step, refuse
from loopwright.transform.tiling import strips_of
from loopwright.transform.unroll_and_jam import sink_loop

__all__ = [
    "MOST_SIDE_BY_SIDE",
    "Skew",
    "parts_of",
    "smallest_skew",
]

MOST_SIDE_BY_SIDE = 8  # rows of a wavefront that are unrolled; more stay a loop


@dataclass(frozen=True, slots=True)
class Skew(Step):
    """Run `block` iterations of a loop together, in wavefronts over the rows of its body.

    rewrite:  for t: (for i: S(t, i)); (for j: T(t, j))
              ->  for t_t step block: for t_w: for t in [t_t, t_t + block):
                    S(t, t_w - slope * t - shifts[0]); T(t, t_w - slope * t - shifts[1])
              with a width W: t_w in steps of W, and the W rows from there on side by side in the
              innermost loops of each part; more than 8 of them stay a loop, where they were
    needs:    the loop's body is a row of loops, or of parts that belong to row 0
    refuses:  IllegalStep with the reversed dependence

    What a wavefront writes is in cache when the next iterations of t read it, so that memory is
    traversed once for `block` iterations. Wide wavefronts are the tiles of loops whose rows are
    single elements.
    """

    kind: ClassVar[str] = "skew"

    loop: str
    slope: int  # rows by which each iteration of the loop lags behind the previous one
    shifts: tuple[int, ...]  # rows by which each part of the body lags behind
    rows: tuple[int, ...]  # for each part: 1 when its outermost loop counts rows, 0 for row 0
    block: int  # iterations of the loop that run together
    width: int = 1  # rows of a wavefront

    def __post_init__(self) -> None:
        if min(self.block, self.width) < 1 or self.slope < 0 or len(self.shifts) != len(self.rows):
            raise UsageError(
                "skew takes a slope, a block, a width and two numbers for each part", str(self)
            )
        if not set(self.rows) <= {0, 1}:
            raise UsageError("skew takes rows of 0 and 1", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        band = find_band(self, schedule, root, self.loop)
        parts = parts_of(band)
        counted = [p.child for p, is_row in zip(parts, self.rows, strict=False) if is_row]
        if len(parts) != len(self.rows) or not all(isinstance(c, Band) for c in counted):
            refuse(self, f"the body of loop '{self.loop}' has other parts")
        gone = [child.loop for child in counted if isinstance(child, Band)]
        require_unmarked(self, schedule, [self.loop, *gone])
        for array, loop in schedule.private:
            if loop in gone:
                refuse(self, f"loop '{loop}' has its own copies of '{array}'")
        taken = {other.loop for other in bands(root)}
        changed, copies = self._skewed(band, parts, taken)
        root = map_bands(root, lambda b: changed if b.loop == self.loop else b)
        after = reordered(self, schedule, root)
        marks = tuple((name, Mark.UNROLL) for name in copies)
        factors = tuple((name, self.width) for name in copies)
        return replace(after, marks=(*after.marks, *marks), factors=(*after.factors, *factors))

    def _skewed(
        self, band: Band, parts: tuple[Filter, ...], taken: set[str]
    ) -> tuple[Node, tuple[str, ...]]:
        """The wavefront loops that replace `band`, and the loops over the rows of one wavefront."""
        name = fresh_name(f"{self.loop}_w", taken)
        slope = isl_integer(self.slope)
        time = band.partial.get_union_pw_aff(0).scale_val(slope)
        wave: isl.UnionPwAff | None = None
        bodies: list[Filter] = []
        copies: tuple[str, ...] = ()
        for part, is_row, shift in zip(parts, self.rows, self.shifts, strict=True):
            here = part.instances.universe()
            row = _constant(here, shift)
            body = part.child
            if is_row:
                assert isinstance(body, Band)
                row = row.add(body.partial.get_union_pw_aff(0))
                if self.width > MOST_SIDE_BY_SIDE:
                    pass
                elif self.width > 1:
                    body, own = sink_loop(body, body.child, here, taken | {name, *copies})
                    copies += own
                else:
                    body = body.child
            row = row.add(time.intersect_domain(here))
            wave = row if wave is None else wave.union_add(row)
            bodies.append(replace(part, child=body))
        assert wave is not None
        partial = isl.MultiUnionPwAff.from_union_pw_aff(wave)
        partial = partial.set_tuple_name(isl.dim_type.set, name)
        inner = replace(band, child=sequence(bodies))
        strips = strips_of(band, self.block, taken | {name, *copies})
        waves = Band(name, partial, inner)
        if self.width > 1:
            waves = rename_band(strips_of(waves, self.width, taken), name)
        return replace(strips, child=waves), copies

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Skew]:
        for band in open_bands(schedule):
            parts = parts_of(band)
            rows = tuple(int(isinstance(part.child, Band)) for part in parts)
            if any(rows):
                steps = tuple(range(len(parts)))
                yield cls(band.loop, 1, (0,) * len(parts), rows, 4)
                yield cls(band.loop, 2, steps, rows, 3)
                yield cls(band.loop, len(parts), steps, rows, 2)


def parts_of(band: Band) -> tuple[Filter, ...]:
    """The parts of a loop's body, in order; a body that is no sequence is one part."""
    if isinstance(band.child, Sequence):
        return band.child.filters
    return (Filter(band.partial.domain(), band.child),)


def _constant(domain: isl.UnionSet, value: int) -> isl.UnionPwAff:
    return isl.UnionPwAff.val_on_domain(domain, isl_integer(value))


_MOST_SLOPE = 6
_MOST_PARTS = 16
_FARTHEST = 16  # largest distance between dependent rows

# From part, to part, distance in time (2 stands for two and more), smallest distance in rows.
_Distance = tuple[int, int, int, int]


def smallest_skew(
    schedule: Schedule, loop: str, block: int, *, apart: bool, width: int = 1
) -> Skew | None:
    """The skew of `loop` with the least slope; None when rows depend on distant rows.

    With `apart` the iterations of `loop` inside a wavefront are independent. Parts with fewer loops
    than the others, such as boundaries, belong to row 0.
    """
    path = path_to(nodes_of(schedule), loop)
    if not path:
        return None
    band = path[-1]
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
    relaxed = schedule.analyses.derive(validity_dependences)
    pairs = privatized_dependences(relaxed, schedule, free_reductions=True).all_
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
    """The distances [dt, dr] grouped by dt: 0, 1, and 2 for all larger ones."""
    if steps.is_empty():
        return
    whole = isl.Set.from_union_set(steps)
    zero = whole.fix_val(isl.dim_type.set, 0, isl.Val.zero(context()))
    one = whole.fix_val(isl.dim_type.set, 0, isl.Val.one(context()))
    more = whole.lower_bound_val(isl.dim_type.set, 0, isl_integer(2))
    for apart, part in ((0, zero), (1, one), (2, more)):
        if not part.is_empty():
            yield apart, part


def _shifts(
    distances: list[_Distance], count: int, slope: int, need: int
) -> tuple[int, ...] | None:
    """The smallest shifts that satisfy all bounds: the longest paths in their graph."""
    bounds = [(x, y, (need if dt else 0) - slope * dt - least) for x, y, dt, least in distances]
    return longest_paths(count, bounds)
