"""Diagonals: take two loops of a recurrence in strips of rows, vectors along anti-diagonals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.dependences import Dependences
from loopwright.analysis.legality import witness
from loopwright.analysis.relations import ends, maps_of, union
from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import isl
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, nodes_of, prefix_schedule, wavefront
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import (
    conflicts,
    find_band,
    open_bands,
    privatized_dependences,
    require_unmarked,
)
from loopwright.transform.step import Step, refuse

__all__ = ["Diagonals"]

_OFFERS = ((64, 64),)  # what `candidates` offers; `apply` takes any from 2


@dataclass(frozen=True, slots=True)
class Diagonals(Step):
    """Take two loops in strips of rows; in a strip, one anti-diagonal after the other.

    rewrite:  for i in [0, n): for j in [0, m): S(i, j)
              ->  for i_s in [0, n) step R: for t_b in [0, m + R - 1) step C:
                      for t in [t_b, t_b + C): simd for v in [0, R): S(i_s + v, t - v)
    needs:    nothing but j inside of i, nothing but statements inside of j; every instance depends
              on instances of earlier diagonals i + j
    refuses:  IllegalStep with a dependence inside of a diagonal, or from a later one

    Values pass from diagonal to diagonal in buffers of R x C elements, and from there to their
    arrays (lower/tiles/diagonal_strips). Loops that have no such form in the end run as they stand.
    """

    kind: ClassVar[str] = "diagonals"

    loop: str
    inner: str
    rows: int
    columns: int

    def __post_init__(self) -> None:
        if self.rows < 2 or self.columns < 4:
            raise UsageError("diagonals takes two or more rows, four or more columns", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        outer = find_band(self, schedule, root, self.loop)
        inner = find_band(self, schedule, root, self.inner)
        require_unmarked(self, schedule, [self.loop, self.inner])
        if outer.child is not inner:
            refuse(self, f"loop '{self.inner}' does not stand directly in '{self.loop}'")
        if any(True for _ in bands(inner.child)):
            refuse(self, f"loop '{self.inner}' is not innermost")
        broken = witness(_late(schedule, outer, inner))
        if broken is not None:
            pair = str(broken).removeprefix(broken.verb).strip()
            refuse(self, "no later diagonal has the end of", pair)
        taken = (*schedule.diagonals, (self.loop, self.inner, self.rows, self.columns))
        return replace(schedule, diagonals=taken)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Diagonals]:
        for band in open_bands(schedule):
            inner = band.child
            if not isinstance(inner, Band) or any(True for _ in bands(inner.child)):
                continue
            if {schedule.mark(x.loop) for x in (band, inner)} == {Mark.SERIAL}:
                yield from (cls(band.loop, inner.loop, *offer) for offer in _OFFERS)


def _late(schedule: Schedule, outer: Band, inner: Band) -> Dependences:
    """The pairs of different instances in an iteration of the loops around, sums not growing.

    { S[i, j] -> T[k, l] : (i, j) != (k, l) and not i + j < k + l }
    """
    names = outer.statements

    def kept(relation: isl.UnionMap) -> isl.UnionMap:
        parts = (part for part in maps_of(relation) if set(ends(part)) <= names)
        own = union(relation.get_space(), parts)
        around = prefix_schedule(schedule.tree, outer.loop)
        count = around.dim(isl.dim_type.set)
        if count > 1:
            own = own.eq_at_multi_union_pw_aff(around.drop_dims(isl.dim_type.set, count - 1, 1))
        both = own.eq_at_multi_union_pw_aff(outer.partial)
        same = both.eq_at_multi_union_pw_aff(inner.partial)
        diagonal = wavefront(outer, inner, outer.loop).partial
        return own.subtract(same).subtract(own.lex_lt_at_multi_union_pw_aff(diagonal))

    inside = schedule.analyses.derive(conflicts)
    pairs = privatized_dependences(inside, schedule, free_reductions=False, among=names)
    return pairs.where(kept)
