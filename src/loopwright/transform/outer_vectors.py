"""OuterVectors: take an outer loop in vectors, with the loops inside of it run for all lanes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import functions_in, isl
from loopwright.ir.loops import Mark
from loopwright.ir.program import Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, directions, nodes_of, path_to
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import find_band, open_bands, require_independent
from loopwright.transform.step import Step, refuse

__all__ = ["OuterVectors", "runs_alike"]

# What `candidates` offers; `apply` takes any number of lanes from 2, and of copies from 1.
_OFFERS = ((2, 1), (4, 2))
_MOST_RANGES = 2  # of a loop inside, one behind the other


@dataclass(frozen=True, slots=True)
class OuterVectors(Step):
    """Take several iterations of an outer loop at once, as lanes of vectors.

    rewrite:  for i in [0, n): alloc s; s = 0; for j in [0, m): s = s + f(i, j); a[i] = s
              ->  for i in [0, n - (W - 1)) step W, W = lanes * copies:
                      alloc s[copies, lanes] in registers; all lanes: s = 0
                      for j in [0, m): all lanes: s = s + f(i + lane, j)
                      all lanes: a[i + lane] = s
                  for i in [n // W * W, n): as before
    needs:    no dependence between iterations; statements beside the loops inside run in all of
              them, and those of loops inside for ranges
    refuses:  IllegalStep with the dependence the loop carries, or the statement that differs

    Every element is computed in the order of the source: no sum is regrouped. Scalars that are
    private to an iteration become vectors in registers. Where the range of a loop inside differs
    from iteration to iteration, all lanes run what they have in common of it, and each its own
    ends, before and behind that, alone.
    """

    kind: ClassVar[str] = "outer_vectors"

    loop: str
    lanes: int  # of one vector
    copies: int  # vectors beside each other

    def __post_init__(self) -> None:
        if self.lanes < 2 or self.copies < 1:
            raise UsageError(
                "outer_vectors takes two or more lanes in one or more copies", str(self)
            )

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        band = find_band(self, schedule, root, self.loop)
        if schedule.mark(self.loop) not in (Mark.SERIAL, Mark.PARALLEL):
            refuse(self, f"loop '{self.loop}' is marked {schedule.mark(self.loop).value}")
        inside = [inner.loop for inner in bands(band.child)]
        if not inside:
            refuse(self, f"no loop stands inside '{self.loop}': vectorize takes it as it is")
        around = [outer.loop for outer in path_to(root, self.loop)[:-1]]
        for loop, _, _ in schedule.outer_vectors:
            if loop in (self.loop, *inside, *around):
                refuse(self, f"loop '{loop}' is taken in vectors already")
        for scheduled in schedule.contractions:
            if set(inside) & set(scheduled.loops):
                refuse(self, f"{scheduled} stands inside '{self.loop}'")
        for loop in inside:
            mark = schedule.mark(loop)
            if mark not in (Mark.SERIAL, Mark.SIMD):
                refuse(self, f"loop '{loop}' inside is marked {mark.value}")
        differing = _no_ranges(schedule, band)
        if differing:
            refuse(self, f"iterations of '{self.loop}' run {differing} differently often")
        require_independent(self, schedule, self.loop)
        taken = (*schedule.outer_vectors, (self.loop, self.lanes, self.copies))
        return replace(schedule, outer_vectors=taken)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[OuterVectors]:
        for band in open_bands(schedule):
            has_loops = any(True for _ in bands(band.child))
            if has_loops and schedule.mark(band.loop) is Mark.SERIAL:
                yield from (cls(band.loop, lanes, copies) for lanes, copies in _OFFERS)


def _no_ranges(schedule: Schedule, band: Band) -> str:
    """A statement that not all iterations of a loop run, inside of loops over no ranges; "": none.

    A part of a domain that is one basic set is a range of every loop; two of them are those before
    and behind a gap.
    """
    if not runs_alike(schedule, band):
        return ""
    program = schedule.program
    inside = {name for inner in bands(band.child) for name in inner.statements}
    beside = runs_alike(schedule, band, among=band.statements - inside)
    if beside:
        return beside
    for name in sorted(inside):
        domain = program.statement(name).domain.intersect_params(program.context).coalesce()
        if domain.n_basic_set() > _MOST_RANGES:
            return name
    return ""


def runs_alike(schedule: Schedule, band: Band, among: Collection[str] | None = None) -> str:
    """A statement that not all iterations of a loop run, or not for the same values; "": none.

    With o the iterators that loops around fix, x the loop's own and r all others, the instances of
    every statement are { S[o, x, r] : (o, x) in R, (o, r) in P }, and for every o the sets of x in
    R of two statements are the same, unless one of them is empty: then it is so for all lanes.
    Strips of the loop, which stand around, cut R along x. `among`: these statements have instances
    of that form, and all x that any statement has.
    """
    program = schedule.program
    first: isl.Set | None = None
    others: isl.Set | None = None
    checked = band.statements if among is None else among
    for name in sorted(band.statements, key=lambda name: (name in checked, name)):
        fixed = _fixed(schedule, band, program.statement(name))
        if fixed is None:
            return name
        domain = program.statement(name).domain.intersect_params(program.context)
        outer = _projected(domain, fixed)
        if name not in checked:
            others = outer if others is None else others.union(outer)
            continue
        if not _product(domain, program.statement(name), fixed).is_subset(domain):
            return name
        if first is not None and not _is_same_where_both(first, outer):
            return name
        if others is not None:
            last = outer.dim(isl.dim_type.set) - 1
            if not others.intersect(_without(outer, [last])).is_subset(outer):
                return name
        first = outer if first is None else first.union(outer)
    return ""


def _fixed(schedule: Schedule, band: Band, statement: Statement) -> list[int] | None:
    """The iterators that a loop and those around it follow; None where they follow no single ones.

    Strips of the loop itself follow none of their own.
    """
    path = path_to(nodes_of(schedule), band.loop)
    followed = [directions(outer) for outer in path]
    name = statement.name
    own = followed[-1].get(name, (-1, 0))[0]
    around = [
        found.get(name)
        for found, outer in zip(followed, path, strict=True)
        if name in found or _used(outer, name) != {own}
    ]
    if any(place is None or place[1] != 1 for place in around):
        return None
    fixed = [place[0] for place in around if place is not None]
    return fixed if len(set(fixed)) == len(fixed) else None


def _used(band: Band, name: str) -> set[int]:
    """The iterators of a statement that a loop is a function of."""
    for function in functions_in(band.partial.get_union_pw_aff(0)):
        if function.get_tuple_id(isl.dim_type.in_).get_name() == name:
            places = range(function.dim(isl.dim_type.in_))
            return {at for at in places if function.involves_dims(isl.dim_type.in_, at, 1)}
    return set()


def _product(domain: isl.Set, statement: Statement, fixed: list[int]) -> isl.Set:
    """The instances whose fixed iterators, and whose others but the last fixed one, occur."""
    rest = [at for at in range(len(statement.iterators)) if at not in fixed]
    return _without(domain, rest).intersect(_without(domain, fixed[-1:]))


def _without(domain: isl.Set, places: list[int]) -> isl.Set:
    """A set with all values of some dimensions."""
    for at in places:
        name = domain.get_tuple_name()
        domain = domain.project_out(isl.dim_type.set, at, 1).insert_dims(isl.dim_type.set, at, 1)
        domain = domain if name is None else domain.set_tuple_name(name)
    return domain


def _is_same_where_both(one: isl.Set, other: isl.Set) -> bool:
    """Whether two sets of values of loops agree in the last one where both have some."""
    last = one.dim(isl.dim_type.set) - 1
    here = one.intersect(_without(other, [last]))
    return bool(here.is_equal(other.intersect(_without(one, [last]))))


def _projected(domain: isl.Set, fixed: list[int]) -> isl.Set:
    """The values of the fixed iterators, in the order of their loops."""
    space = domain.get_space()
    kept = isl.MultiAff.zero(
        space.map_from_domain_and_range(space.params().add_dims(isl.dim_type.set, len(fixed)))
    )
    local = isl.LocalSpace.from_space(space)
    for number, at in enumerate(fixed):
        kept = kept.set_aff(number, isl.Aff.var_on_domain(local, isl.dim_type.set, at))
    return isl.Map.from_multi_aff(kept).intersect_domain(domain).range()
