"""SplitByDistance: runs of a loop whose iterations depend on far ones only, and all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import ClassVar, TypeAlias

from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import affine_map, context, isl, maps_in, pieces_in
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    bands,
    instances_reaching,
    map_bands,
    nodes_of,
    path_to,
    split_nest,
    statements_in,
    universe_of,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import (
    find_band,
    open_bands,
    reordered,
    require_unmarked,
)
from loopwright.transform.step import Step, refuse
from loopwright.transform.tiling import strips_of

__all__ = ["SplitByDistance", "has_far_and_near_runs"]


# An array, a statement, and where the statement accesses the array.
_Subscripts: TypeAlias = tuple[str, str, isl.Map]

# What `candidates` offers; `apply` takes any distance.
_DISTANCE = 8


@dataclass(frozen=True, slots=True)
class SplitByDistance(Step):
    """Run an innermost loop in strips where iterations that share an element are far apart.

    rewrite:  for s in [c, n): t[s] = t[s] + t[s - c]
              ->  if c >= D:  for s_t in [c, n) step D:
                                for s in [s_t, min(s_t + D, n)): t[s] = t[s] + t[s - c]
                  else:       for s_2 in [c, n): t[s_2] = t[s_2] + t[s_2 - c]
    needs:    distances that loops around and sizes fix; runs may be far, and may be near
    refuses:  IllegalStep where all runs of the loop have a pair of iterations nearer than D, or
              none has

    A run of the loop is near where the subscripts of an element that is written and of one of the
    same array meet in iterations s and s' with 0 < |s - s'| < D. In all other runs D iterations
    that follow each other are independent, so that the loop inside a strip may be marked. The order
    stays the same; what is marked is proven from the exact dependences, as ever.
    """

    kind: ClassVar[str] = "split_by_distance"

    loop: str
    distance: int  # from which on a run is far; the length of its strips

    def __post_init__(self) -> None:
        if self.distance < 2:
            raise UsageError("split_by_distance takes a distance of at least 2", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        band = find_band(self, schedule, root, self.loop)
        if any(bands(band.child)):
            refuse(self, f"loop '{self.loop}' is not innermost")
        require_unmarked(self, schedule, [self.loop])
        path = path_to(root, self.loop)
        reached = instances_reaching(root, self.loop, schedule.tree.get_domain())
        near = _near(schedule.program, path, self.distance)
        far = universe_of(schedule.program, band.statements).subtract(near).coalesce()
        for part, word in ((far, "far"), (near, "near")):
            if statements_in(part.intersect(reached)) != band.statements:
                refuse(self, f"no run of loop '{self.loop}' is {word}")
        strips = self._strips(path, reached.intersect(far), {one.loop for one in bands(root)})
        apart = split_nest(root, band, far, near)
        return reordered(
            self,
            schedule,
            map_bands(apart, lambda x: replace(strips, child=x) if x.loop == self.loop else x),
        )

    def _strips(self, path: tuple[Band, ...], points: isl.UnionSet, taken: set[str]) -> Band:
        """The loop over strips of some instances, counted from the first iteration of a run.

        Where that is no one affine expression, strips begin at multiples of their length.
        """
        band = path[-1]
        time = isl.UnionMap.from_union_pw_aff(band.partial.get_union_pw_aff(0))
        same = _same_run(points, path)
        total = None
        for found in maps_in(same.apply_range(time).lexmin().gist_domain(points)):
            pieces = pieces_in(isl.PwMultiAff.from_map(found))
            if len(pieces) != 1:
                return strips_of(band, self.distance, taken)
            first = isl.UnionPwAff.from_pw_aff(isl.PwAff.from_aff(pieces[0][1].get_aff(0)))
            total = first if total is None else total.union_add(first)
        assert total is not None, "points are not empty"
        return strips_of(
            band, self.distance, taken, start=isl.MultiUnionPwAff.from_union_pw_aff(total)
        )

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[SplitByDistance]:
        """Every innermost loop."""
        for band in open_bands(schedule):
            if not any(bands(band.child)):
                yield cls(band.loop, _DISTANCE)


def has_far_and_near_runs(schedule: Schedule, loop: str, distance: int) -> bool:
    """Whether some runs of an innermost loop are far and some near, as the step asks for.

    Scalars do not count, whether they are spread over the loop or not.
    """
    root = nodes_of(schedule)
    path = path_to(root, loop)
    reached = instances_reaching(root, loop, schedule.tree.get_domain())
    near = _near(schedule.program, path, distance)
    far = universe_of(schedule.program, path[-1].statements).subtract(near)
    parts = (part.intersect(reached) for part in (near, far))
    return all(statements_in(part) == path[-1].statements for part in parts)


def _near(program: Program, path: tuple[Band, ...], distance: int) -> isl.UnionSet:
    """The instances in runs of the last loop with a pair of iterations nearer than `distance`.

    Subscripts alone count, wherever iterations begin and end: conditions stay simple. A run in
    which two different subscripts meet in one iteration counts as near, too, so that distances
    from -D + 1 to D - 1 are one interval; but for subscripts that always meet so.
    """
    band = path[-1]
    runs = {name: _run_of(program, path, name) for name in sorted(band.statements)}
    every = reduce(isl.Set.union, (run.range() for run in runs.values())).coalesce()
    near = isl.Set.empty(every.get_space())
    written, used = _subscripts(program, band, runs)
    for array, writer, first in written:
        for second in (at for name, _, at in used if name == array):
            for least in (0, 1):
                found = _met(first, second, least, distance - 1).apply(runs[writer])
                if not every.is_subset(found):
                    break
            near = near.union(found)
            if every.is_subset(near):
                return universe_of(program, band.statements)
    inside = isl.UnionSet.empty(every.get_space())
    for run in runs.values():
        inside = inside.union(isl.UnionSet.from_set(near.apply(run.reverse())))
    return inside.coalesce()


def _same_run(every: isl.UnionSet, path: tuple[Band, ...]) -> isl.UnionMap:
    """The pairs of instances in one run of the last loop: loops around have the same values."""
    same = isl.UnionMap.from_domain_and_range(every, every)
    for band in path[:-1]:
        same = same.eq_at_multi_union_pw_aff(band.partial)
    return same


def _run_of(program: Program, path: tuple[Band, ...], name: str) -> isl.Map:
    """`{ S[i] -> [values of the loops around the last one] }`, of one statement."""
    points = isl.Set.universe(program.statement(name).domain.get_space())
    found = isl.Map.from_domain(points)
    for band in path[:-1]:
        found = found.flat_range_product(_time(band, name))
    return found


def _time(band: Band, name: str) -> isl.Map:
    """`{ S[i] -> [value of the loop] }`, of one statement."""
    values = isl.UnionMap.from_union_pw_aff(band.partial.get_union_pw_aff(0))
    return next(x for x in maps_in(values) if x.get_tuple_name(isl.dim_type.in_) == name)


def _met(first: isl.Map, second: isl.Map, least: int, most: int) -> isl.Set:
    """The instances of the first map's domain that meet one of the second's.

    All values are equal but the last ones, which are so many apart, in either direction.
    """
    rank = first.dim(isl.dim_type.out) - 1
    equal = "".join(f"x{k}, " for k in range(rank))
    apart = f"{least} <= b - a <= {most} or {least} <= a - b <= {most}"
    near = isl.Map(f"{{ [{equal}a] -> [{equal}b] : {apart} }}", context=context())
    return first.apply_range(near).intersect_range(second.range()).domain()


def _subscripts(
    program: Program, band: Band, runs: dict[str, isl.Map]
) -> tuple[list[_Subscripts], list[_Subscripts]]:
    """Of arrays that a loop writes, the elements it writes, and all that it uses.

    Each with its array and its statement, as `{ S[i] -> [subscripts, values of the loops] }`.
    Scalars are left out: each iteration has its own.
    """
    written: list[_Subscripts] = []
    used: list[_Subscripts] = []
    arrays = {program.statement(name).write.array for name in band.statements}
    for name in sorted(band.statements):
        statement = program.statement(name)
        points = isl.Set.universe(statement.domain.get_space())
        for access in dict.fromkeys((statement.write, *statement.reads)):
            if access.index and access.array in arrays:
                at = affine_map(points, access.array, access.index)
                at = at.reset_tuple_id(isl.dim_type.out).flat_range_product(runs[name])
                found = access.array, name, at.flat_range_product(_time(band, name))
                used.append(found)
                written += [found] if access == statement.write else []
    return written, used
