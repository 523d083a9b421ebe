"""CopyLiveIn: reads of values that are live-in, from before the program, go to a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.dependences import access_map, flow_into
from loopwright.ir.access_names import NamedAccess, named_accesses
from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.expr import Expr, Load, Var
from loopwright.ir.islkit import isl
from loopwright.ir.program import Access, Array, Program, Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    bands,
    nodes_of,
    read_tree,
    write_tree,
)
from loopwright.ir.visit import fresh_name, rewrite
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.added_statements import preceded_by
from loopwright.transform.schedule_legality import reordered
from loopwright.transform.step import Step, refuse

__all__ = ["CopyLiveIn", "live_in_reads"]


@dataclass(frozen=True, slots=True)
class CopyLiveIn(Step):
    """Read what an array held before the program from a copy that is made first.

    Where an array is read before it is overwritten, its memory orders iterations between which no
    value passes.

    rewrite:  for i: for j: for k in [i + 1, n): B[i, j] += A[k, i] * B[k, j]
              ->  for x: for y: B_old[x, y] = B[x, y]
                  for i: for j: for k in [i + 1, n): B[i, j] += A[k, i] * B_old[k, j]
    needs:    reads of elements that nobody in the program has written by then
    refuses:  IllegalStep with the reason
    """

    kind: ClassVar[str] = "copy_live_in"

    array: str
    accesses: tuple[str, ...]  # S_1: the first read of S, and so on

    def apply(self, schedule: Schedule) -> Schedule:
        program = schedule.program
        if self.array not in {array.name for array in program.arrays}:
            refuse(self, f"there is no array '{self.array}'")
        if self.array in dict(schedule.private):
            refuse(self, f"array '{self.array}' has private copies already")
        known = live_in_reads(schedule.analyses, self.array)
        names = [one.name for one in known]
        for name in self.accesses:
            if name not in names:
                have = ", ".join(names) or "none"
                refuse(self, f"{name} is no read of live-in values of '{self.array}': {have}")
        if not self.accesses:
            refuse(self, "there are no accesses")
        chosen = [one for one in known if one.name in self.accesses]
        root = nodes_of(schedule)
        taken = {band.loop for band in bands(root)}
        copy, changed = _copied(program, self.array, chosen, taken)
        made = preceded_by(root, schedule.tree.get_domain(), copy)
        tree = write_tree(changed.schedule.get_domain(), made)
        return reordered(self, replace(schedule, program=changed, tree=tree), made)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[CopyLiveIn]:
        """Each array with all such reads."""
        for array in schedule.program.arrays:
            found = live_in_reads(schedule.analyses, array.name)
            if found and array.name not in dict(schedule.private):
                yield cls(array.name, tuple(one.name for one in found))


def live_in_reads(analyses: AnalysisManager, array: str) -> list[NamedAccess]:
    """The reads of a written array, with subscripts, that come before all writes of their element.

    A statement's own element is none of them: it is written by the instance that reads it.
    """
    return analyses.get(_LiveInReads(array))


@dataclass(frozen=True, slots=True)
class _LiveInReads:
    """Analysis: the reads of an array to which no value flows."""

    array: str

    def __call__(self, program: Program) -> list[NamedAccess]:
        found = program.array(self.array)
        if not found.rank or found.role in (Role.LOCAL, Role.IN):
            return []
        return [
            one
            for statement in program.statements
            for one in named_accesses(statement)
            if not one.is_write and one.access.array == self.array
            if one.access != statement.write
            if flow_into(program, one).is_empty()
        ]


def _copied(
    program: Program, array: str, chosen: Sequence[NamedAccess], loops: set[str]
) -> tuple[Statement, Program]:
    """The statement that makes the copy, and the program with it in front."""
    old = program.array(array)
    taken = {a.name for a in program.arrays} | set(program.params) | loops
    taken |= {x for s in program.statements for x in s.iterators}
    name = fresh_name(f"{array}_old", taken)
    taken.add(name)
    iterators: list[str] = []
    for dimension in range(old.rank):
        iterators.append(fresh_name(f"{array}_{dimension}", taken))
        taken.add(iterators[-1])
    label = fresh_name(f"{array}_copy", {s.name for s in program.statements})
    elements = isl.Set.empty(
        access_map(program, program.statement(chosen[0].statement), chosen[0].access)
        .range()
        .get_space()
    )
    for one in chosen:
        reached = access_map(program, program.statement(one.statement), one.access).range()
        elements = elements.union(reached)
    domain = elements.coalesce().set_tuple_name(label)
    for at, iterator in enumerate(iterators):
        domain = domain.set_dim_name(isl.dim_type.set, at, iterator)
    index = tuple(map(Var, iterators))
    copy = Statement(
        label,
        tuple(iterators),
        domain,
        Access(name, index, old.dtype),
        Load(array, index, old.dtype),
    )
    memory = Array(name, old.dtype, old.shape, Role.LOCAL)
    statements = tuple(_redirected(s, name, chosen) for s in program.statements)
    root = preceded_by(read_tree(program.schedule), program.schedule.get_domain(), copy)
    whole = program.schedule.get_domain().union(isl.UnionSet.from_set(domain))
    changed = replace(
        program,
        arrays=(*program.arrays, memory),
        statements=(copy, *statements),
        schedule=write_tree(whole, root),
    )
    return copy, changed


def _redirected(statement: Statement, name: str, chosen: Sequence[NamedAccess]) -> Statement:
    """A statement whose chosen reads go to the array `name`."""
    own = {one.access.load() for one in chosen if one.statement == statement.name}
    if not own:
        return statement

    def change(node: Expr) -> Expr:
        return replace(node, array=name) if isinstance(node, Load) and node in own else node

    return replace(statement, value=rewrite(statement.value, change))
