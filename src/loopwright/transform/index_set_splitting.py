"""SplitIndexSet and SeparateBox: index-set splitting of a nest into two nests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from loopwright.analysis.product_nest import NestTimes, nest_times
from loopwright.analysis.size_estimates import likely_sizes
from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import context, isl, isl_integer
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    bands,
    instances_reaching,
    nodes_of,
    perfect_nest,
    split_nest,
    statements_in,
    universe_of,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.interchange import open_chains
from loopwright.transform.schedule_legality import (
    find_band,
    open_bands,
    reordered,
    require_unmarked,
)
from loopwright.transform.step import Step, refuse

__all__ = [
    "SeparateBox",
    "SplitIndexSet",
]


# What `candidates` offers; `apply` takes any distance.
_DISTANCE = 32


@dataclass(frozen=True, slots=True)
class SplitIndexSet(Step):
    """Split a nest where one of its loops is a given distance beyond a loop around it.

    rewrite:  for t: for k in [t, t + D): for i in [k, n): S(k, i)
              ->  for t: for k in [t, t + D): for i in [k, min(t + D, n)): S(k, i)
                         for k_2 in [t, t + D): for i_2 in [t + D, n): S(k_2, i_2)
    needs:    a nest inside the loop around; iterations near and far are both not empty
    refuses:  IllegalStep with the reversed dependence

    The near points of the whole nest run before its far points.
    """

    kind: ClassVar[str] = "split_index_set"

    nest: str  # the outermost loop of the nest
    loop: str  # the loop of it that is split
    around: str
    distance: int  # the first value of `loop` that is far is the one of `around` plus this

    def __post_init__(self) -> None:
        if self.distance < 0:
            raise UsageError("split_index_set takes a distance of at least 0", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        whole = find_band(self, schedule, root, self.nest)
        inner, outer = (find_band(self, schedule, root, x) for x in (self.loop, self.around))
        loops = [band.loop for band in bands(whole)]
        if self.loop not in loops:
            refuse(self, f"loop '{self.loop}' is not in the nest of '{self.nest}'")
        if self.nest not in {band.loop for band in bands(outer.child)}:
            refuse(self, f"loop '{self.around}' does not stand around '{self.nest}'")
        require_unmarked(self, schedule, loops)
        if whole.statements != inner.statements:
            refuse(self, f"loop '{self.loop}' does not hold all statements of '{self.nest}'")
        for scheduled in schedule.contractions:
            if set(scheduled.loops) & set(loops):
                refuse(self, f"{scheduled} is in the nest")
        near, far = self._parts(inner, outer)
        reached = instances_reaching(root, self.nest, schedule.tree.get_domain())
        for part, word in ((near, "near"), (far, "far")):
            if statements_in(part.intersect(reached)) == frozenset():
                refuse(self, f"nothing in the nest is {word}")
        present = [part.intersect(reached.intersect(part).universe()) for part in (near, far)]
        return reordered(self, schedule, split_nest(root, whole, present[0], present[1]))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[SplitIndexSet]:
        """Every inner loop of a nest, by the loop directly around the nest."""
        for band in open_bands(schedule):
            if isinstance(band.child, Band):
                for inner in perfect_nest(band.child)[1:]:
                    yield cls(band.child.loop, inner.loop, band.loop, _DISTANCE)

    def _parts(self, inner: Band, outer: Band) -> tuple[isl.UnionSet, isl.UnionSet]:
        """`{ S : inner(S) - outer(S) < distance }` and what does not satisfy it."""
        one, other = (
            band.partial.intersect_domain(inner.partial.domain()).get_union_pw_aff(0)
            for band in (inner, outer)
        )
        apart = isl.UnionMap.from_union_pw_aff(one.sub(other))
        limit = self.distance - 1
        near, far = (
            isl.UnionSet(text, context=context())
            for text in (f"{{ [d] : d <= {limit} }}", f"{{ [d] : d > {limit} }}")
        )
        return apart.intersect_range(near).domain(), apart.intersect_range(far).domain()


@dataclass(frozen=True, slots=True)
class SeparateBox(Step):
    """Split a nest into its largest rectangular part and the rest, for any values of outer loops.

    rewrite:  for i in [i_t, i_t + T): for j in [0, i]: S(i, j)                   with over = ("i",)
              ->  for i in [i_t, i_t + T): for j in [0, i_t]: S(i, j)
                  for i_2 in [i_t, i_t + T): for j_2 in (i_t, i_2]: S(i_2, j_2)
    needs:    loops directly nested around the statements; the box and the rest are both not empty
    refuses:  IllegalStep with the reversed dependence

    The box is `I x R`: I the values that each loop of `over` takes in the whole program, R the
    values of the others that occur here with all of I. With `over` all loops it is the nests that
    are boxes as they stand. Of several such boxes the largest is taken, at likely sizes.
    """

    kind: ClassVar[str] = "separate_box"

    loops: tuple[str, ...]  # the whole nest
    over: tuple[str, ...]  # loops that keep all their values
    statements: tuple[str, ...]  # whose points make the box; all others are part of the rest
    last: int  # 0: the box runs before the rest, 1: after it

    def __post_init__(self) -> None:
        if not self.over or not set(self.over) <= set(self.loops) or self.last not in (0, 1):
            raise UsageError("separate_box takes some of the loops, and 0 or 1", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        for loop in self.loops:
            find_band(self, schedule, root, loop)
        nest = next(band for band in bands(root) if band.loop in self.loops)
        require_unmarked(self, schedule, (band.loop for band in bands(nest)))
        if not self.statements or not set(self.statements) <= nest.statements:
            inside = ", ".join(sorted(nest.statements))
            refuse(self, f"the statements of the nest are {inside}")
        chosen = universe_of(schedule.program, self.statements)
        times = nest_times(schedule.tree, self.loops, chosen)
        if isinstance(times, str):
            refuse(self, times)
        points = self._box(schedule, times)
        within = times.inside.intersect_range(points).domain()
        rest = times.everything.subtract(within)
        if within.is_empty() or rest.is_empty():
            refuse(self, "there is no box in the nest" if within.is_empty() else "it is a box")
        parts = (rest, within) if self.last else (within, rest)
        return reordered(self, schedule, split_nest(root, nest, *parts, new_names=1 - self.last))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[SeparateBox]:
        """The outermost loop of each innermost nest kept whole, the box first or last."""
        for names in open_chains(schedule):
            if len(names) > 1:
                band = next(b for b in open_bands(schedule) if b.loop == names[0])
                chosen = tuple(sorted(band.statements))
                yield from (cls(names, names[:1], chosen, last) for last in (0, 1))

    def _box(self, schedule: Schedule, times: NestTimes) -> isl.UnionSet:
        """The points `[o, x]` of the box."""
        points = isl.Set.from_union_set(times.inside.range()).coalesce()
        # What earlier splits left of the nest has ragged ends; the whole domain has straight ones.
        whole = isl.Set.from_union_set(times.among(schedule.tree.get_domain()).range())
        first = points.dim(isl.dim_type.set) - len(self.loops)
        places = {loop: first + k for k, loop in enumerate(self.loops)}
        others = {places[loop] for loop in self.loops if loop not in self.over}
        wanted = _shadow(points, others, first)
        for loop in self.over:
            wanted = wanted.intersect(_shadow(whole, {places[loop]}, first))
        missing = _shadow(wanted.subtract(points), others, first)
        return isl.UnionSet.from_set(_largest(points.subtract(missing), schedule.program))


def _largest(points: isl.Set, program: Program) -> isl.Set:
    """The convex part of `points` with most instances at likely sizes."""
    parts = [isl.Set.from_basic_set(part) for part in points.coalesce().get_basic_sets()]
    if len(parts) < 2:
        return points
    sizes = likely_sizes(program)

    def volume(part: isl.Set) -> int:
        for name, value in sizes.items():
            at = part.find_dim_by_name(isl.dim_type.param, name)
            if at >= 0:
                part = part.fix_val(isl.dim_type.param, at, isl_integer(value))
        if part.is_empty():
            return 0
        part = part.remove_divs()  # a little more, but much sooner
        dims = range(part.dim(isl.dim_type.set))
        ends = [(part.dim_min_val(k).to_python(), part.dim_max_val(k).to_python()) for k in dims]
        return math.prod(high - low + 1 for low, high in ends)

    return max(parts, key=volume)


def _shadow(points: isl.Set, kept: set[int], first: int) -> isl.Set:
    """`points` without constraints on the dimensions from `first` on that are not kept."""
    for position in range(first, points.dim(isl.dim_type.set)):
        if position not in kept:
            points = points.project_out(isl.dim_type.set, position, 1)
            points = points.insert_dims(isl.dim_type.set, position, 1)
    return points
