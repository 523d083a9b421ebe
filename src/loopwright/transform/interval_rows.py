"""WalkRows: a table that is filled by diagonals is filled by rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import ClassVar

from loopwright.diagnostics import IllegalStep
from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.islkit import affine_map, isl
from loopwright.ir.program import Access, Program, Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Node,
    Sequence,
    bands,
    directions,
    map_bands,
    nodes_of,
    path_to,
    reversed_band,
    wavefront,
    write_tree,
)
from loopwright.ir.visit import fresh_name, linear_terms, rewrite, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import (
    find_band,
    is_in_source_order,
    reordered,
    with_private,
)
from loopwright.transform.step import Step, refuse

__all__ = ["WalkRows"]


@dataclass(frozen=True, slots=True)
class WalkRows(Step):
    """Run two loops by rows from the last one up, and by the sum of both along a row.

    Tables of intervals are written by their length l and begin i, and used by begin and end i + l.
    With the end for a loop of its own, subscripts are single iterators again, and other orders of
    the loops inside are those of a table by rows.

    rewrite:  for l: for i: S(l, i)  ->  for i from the last down: for j: S(j - i, i)
    needs:    the source order; a loop directly inside another, both counting upwards in all
              statements; no dependence that the new order reverses
    refuses:  IllegalStep with what is missing, or with a pair of iterations in the wrong order
    """

    kind: ClassVar[str] = "walk_rows"

    lengths: str  # loop
    begins: str  # loop directly inside

    def apply(self, schedule: Schedule) -> Schedule:
        program = schedule.program
        if not is_in_source_order(schedule):
            refuse(self, "tables are walked by rows in the source order only")
        root = nodes_of(schedule)
        outer, inner = (find_band(self, schedule, root, x) for x in (self.lengths, self.begins))
        if outer.child is not inner:
            refuse(self, f"loop '{inner.loop}' is not directly inside loop '{outer.loop}'")
        places = {}
        for name in inner.statements:
            found = [directions(band).get(name) for band in (outer, inner)]
            if any(one is None or one[1] != 1 for one in found):
                refuse(self, f"the loops do not count upwards in {name}")
            places[name] = tuple(one[0] for one in found if one is not None)
        taken = {x for s in program.statements for x in s.iterators} | set(program.params)
        taken |= {array.name for array in program.arrays} | {band.loop for band in bands(root)}
        ends = fresh_name(f"{inner.loop}_{outer.loop}", taken)

        def by_rows(band: Band) -> Node:
            if band.loop != outer.loop:
                return band
            along = replace(wavefront(outer, inner, ends), child=inner.child)
            return replace(reversed_band(inner), child=along)

        proven = reordered(self, self._with_own_scalars(schedule), map_bands(root, by_rows))
        return _renamed(replace(proven, private=schedule.private), places, ends)

    def _with_own_scalars(self, schedule: Schedule) -> Schedule:
        """The schedule with copies of scalars for the iterations, for the proof.

        Iterations change places as a whole: scalars that each of them sets before it reads them
        order none.
        """
        for array in schedule.program.arrays:
            if array.role is Role.LOCAL and not array.rank:
                try:
                    schedule = with_private(self, schedule, array.name, self.begins)
                except IllegalStep:
                    continue
        return schedule

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[WalkRows]:
        """Every loop that has another one directly inside."""
        for band in bands(nodes_of(schedule)):
            for outer, inner in pairwise(path_to(nodes_of(schedule), band.loop)[-2:]):
                if outer.child is inner:
                    yield cls(outer.loop, inner.loop)


def _renamed(schedule: Schedule, places: Mapping[str, tuple[int, ...]], ends: str) -> Schedule:
    """A schedule whose statements have iterators for begin and end, not for length and begin."""
    program = schedule.program
    forward, statements = isl.UnionMap.empty(program.context.get_space()), []
    for statement in program.statements:
        made = statement
        index: tuple[Expr, ...] = tuple(map(Var, statement.iterators))
        if statement.name in places:
            made, index = _with_ends(statement, places[statement.name], ends)
        whole = isl.Set.universe(statement.domain.get_space())
        change = affine_map(whole, statement.name, index)
        if made is not statement:
            domain = statement.domain.apply(change)
            for at, name in enumerate(made.iterators):
                domain = domain.set_dim_name(isl.dim_type.set, at, name)
            made = replace(made, domain=domain)
        forward = forward.union(isl.UnionMap.from_map(change))
        statements.append(made)
    back = isl.UnionPwMultiAff.from_union_map(forward.reverse())

    def moved(node: Node) -> Node:
        match node:
            case Band(partial=partial, child=child):
                return replace(
                    node, partial=partial.pullback_union_pw_multi_aff(back), child=moved(child)
                )
            case Sequence(filters=parts):
                return Sequence(
                    tuple(
                        replace(x, instances=x.instances.apply(forward), child=moved(x.child))
                        for x in parts
                    )
                )
        return node

    first, *others = (isl.UnionSet.from_set(statement.domain) for statement in statements)
    instances = reduce(isl.UnionSet.union, others, first)
    tree = write_tree(instances, moved(nodes_of(schedule)))
    changed: Program = replace(program, statements=tuple(statements), schedule=tree)
    return replace(schedule, program=changed, tree=tree, analyses=AnalysisManager(changed))


def _with_ends(
    statement: Statement, places: tuple[int, ...], ends: str
) -> tuple[Statement, tuple[Expr, ...]]:
    """A statement over begin and end, its domain still the old one; what these are of the old."""
    length, begin = places
    names = list(statement.iterators)
    index: list[Expr] = [Var(name) for name in names]
    index[length], index[begin] = Var(names[begin]), Var(names[length]) + Var(names[begin])
    values: dict[str, Expr] = {names[length]: Var(ends) - Var(names[begin])}
    names[length], names[begin] = names[begin], ends

    def load(expr: Expr) -> Expr:
        return replace(expr, index=_collected(expr.index)) if isinstance(expr, Load) else expr

    write = statement.write
    place = _collected(tuple(substitute(entry, values) for entry in write.index))
    value = rewrite(substitute(statement.value, values), load)
    made = replace(
        statement,
        iterators=tuple(names),
        write=Access(write.array, place, write.dtype),
        value=value,
        declared=None,
    )
    return made, tuple(index)


def _collected(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Subscripts with each term once."""
    found = []
    for entry in index:
        terms = linear_terms(entry, 1)
        total: Expr | None = None
        for term, count in terms.items():
            if count and term is not None:
                part = term if count == 1 else term * count
                total = part if total is None else total + part
        constant = terms[None]
        if total is None:
            total = Const(constant)
        elif constant:
            total = total + constant
        found.append(total)
    return tuple(found)
