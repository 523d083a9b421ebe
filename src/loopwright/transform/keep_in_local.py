"""KeepInLocal: values of an array stay in the memory of a local one that they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.dependences import access_map, flow_into
from loopwright.ir.access_names import NamedAccess, named_accesses
from loopwright.ir.expr import Expr, Load, Var
from loopwright.ir.islkit import isl
from loopwright.ir.program import Access, Program, Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    nodes_of,
    read_tree,
    write_tree,
)
from loopwright.ir.visit import fresh_name, rewrite
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.added_statements import followed_by
from loopwright.transform.schedule_legality import reordered
from loopwright.transform.step import Step, refuse

__all__ = ["KeepInLocal"]


@dataclass(frozen=True, slots=True)
class KeepInLocal(Step):
    """Gather values of an array where a local array held what they begin with.

    rewrite:  for k: t[i, j] += f(i, j, k)
              C[i, j] = g(C[i, j], t[i, j])
              for k: C[i, j] += h(i, j, k)
              ->  for k: t[i, j] += f(i, j, k)
                  t[i, j] = g(C[i, j], t[i, j])
                  for k: t[i, j] += h(i, j, k)
                  for x, y: C[x, y] = t[x, y]  behind everything
    needs:    one statement that makes elements of the array of those of the local one with the same
              subscripts; by then all other uses of the local element are over, and nobody has
              written the element of the array; what others read of the array was made so
    refuses:  IllegalStep with what is missing
    """

    kind: ClassVar[str] = "keep_in_local"

    array: str
    local: str

    def apply(self, schedule: Schedule) -> Schedule:
        program = schedule.program
        known = {array.name: array for array in program.arrays}
        for name in (self.array, self.local):
            if name not in known:
                refuse(self, f"there is no array '{name}'")
            if name in dict(schedule.private):
                refuse(self, f"array '{name}' has private copies")
        array, local = known[self.array], known[self.local]
        if local.role is not Role.LOCAL or array.role is Role.LOCAL:
            refuse(self, f"'{self.local}' is no local array, or '{self.array}' is one")
        if local.dtype != array.dtype or local.rank != array.rank:
            refuse(self, f"elements of '{self.array}' do not fit into '{self.local}'")
        first = self._first(program)
        every = [one for s in program.statements for one in named_accesses(s)]
        moved = [
            one
            for one in every
            if one.access.array == self.array and (one.is_write or one.statement != first.name)
        ]
        self._require_made(program, first, every)
        self._require_over(program, every, moved)
        copy, changed = self._changed(program, first, moved)
        root = nodes_of(schedule)
        made = followed_by(root, schedule.tree.get_domain(), copy)
        tree = write_tree(changed.schedule.get_domain(), made)
        return reordered(self, replace(schedule, program=changed, tree=tree), made)

    def _first(self, program: Program) -> Statement:
        """The statement that makes elements of the array of the local one."""
        found = [
            s
            for s in program.statements
            if s.write.array == self.array
            and any(r.array == self.local and r.index == s.write.index for r in s.reads)
        ]
        if len(found) != 1:
            refuse(self, f"no single statement makes '{self.array}' of '{self.local}'")
        return found[0]

    def _require_made(
        self, program: Program, first: Statement, every: Sequence[NamedAccess]
    ) -> None:
        """Refuse where a value of the array from before the program is read behind it."""
        inside = access_map(program, first, first.write).range()
        for one in every:
            if one.access.array != self.array:
                continue
            statement = program.statement(one.statement)
            reached = access_map(program, statement, one.access)
            if not reached.range().is_subset(inside):
                refuse(self, f"{one.name} is to elements that {first.name} does not make")
            if one.is_write:
                continue
            flow = flow_into(program, one)
            if one.statement == first.name:
                is_right = flow.is_empty()
            else:
                is_right = isl.UnionSet.from_set(reached.domain()).is_subset(flow.range())
            if not is_right:
                refuse(self, f"{one.name} is a read of old and of new values")

    def _require_over(
        self, program: Program, every: Sequence[NamedAccess], moved: Sequence[NamedAccess]
    ) -> None:
        """Refuse where the local element is used otherwise behind an access that moves there."""
        time = program.schedule.get_map()
        old = [one for one in every if one.access.array == self.local]
        for new in moved:
            theirs = access_map(program, program.statement(new.statement), new.access)
            for one in old:
                ours = access_map(program, program.statement(one.statement), one.access)
                ours = ours.set_tuple_name(isl.dim_type.out, self.array)
                pairs = isl.UnionMap.from_map(theirs.apply_range(ours.reverse()))
                users = pairs.domain().union(pairs.range()).universe()
                own = time.intersect_domain(users)
                if not pairs.intersect(own.lex_lt_union_map(own)).is_empty():
                    refuse(self, f"{one.name} comes behind {new.name}")

    def _changed(
        self, program: Program, first: Statement, moved: Sequence[NamedAccess]
    ) -> tuple[Statement, Program]:
        """The statement that puts the values back, and the program with it behind everything."""
        array = program.array(self.array)
        taken = {a.name for a in program.arrays} | set(program.params)
        taken |= {x for s in program.statements for x in s.iterators}
        iterators: list[str] = []
        for dimension in range(array.rank):
            iterators.append(fresh_name(f"{self.array}_{dimension}", taken))
            taken.add(iterators[-1])
        label = fresh_name(f"{self.array}_back", {s.name for s in program.statements})
        domain = access_map(program, first, first.write).range().coalesce().set_tuple_name(label)
        for at, iterator in enumerate(iterators):
            domain = domain.set_dim_name(isl.dim_type.set, at, iterator)
        index = tuple(map(Var, iterators))
        copy = Statement(
            label,
            tuple(iterators),
            domain,
            Access(self.array, index, array.dtype),
            Load(self.local, index, array.dtype),
        )
        statements = (*(self._redirected(s, moved) for s in program.statements), copy)
        whole = program.schedule.get_domain().union(isl.UnionSet.from_set(domain))
        root = followed_by(read_tree(program.schedule), program.schedule.get_domain(), copy)
        changed = replace(program, statements=statements, schedule=write_tree(whole, root))
        return copy, changed

    def _redirected(self, statement: Statement, moved: Sequence[NamedAccess]) -> Statement:
        """A statement whose accesses go to the local array."""
        own = [one for one in moved if one.statement == statement.name]
        loads = {one.access.load() for one in own if not one.is_write}

        def change(node: Expr) -> Expr:
            if isinstance(node, Load) and node in loads:
                return replace(node, array=self.local)
            return node

        if loads:
            statement = replace(statement, value=rewrite(statement.value, change))
        if any(one.is_write for one in own):
            statement = replace(statement, write=replace(statement.write, array=self.local))
        return statement

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[KeepInLocal]:
        """Arrays that somebody goes on to gather behind the statement that reads the local one."""
        program = schedule.program
        for statement in program.statements:
            name = statement.write.array
            if program.array(name).role is Role.LOCAL or not statement.write.index:
                continue
            updates = [
                s for s in program.statements if s.write.array == name and s is not statement
            ]
            for read in statement.reads:
                is_local = program.array(read.array).role is Role.LOCAL
                if updates and is_local and read.index == statement.write.index:
                    yield cls(name, read.array)
