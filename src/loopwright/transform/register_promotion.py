"""PromoteToRegisters: elements that a statement accesses stay in registers while a loop runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, TypeAlias

from loopwright.analysis.dependences import Dependences, access_map
from loopwright.analysis.legality import inside_loop, witness
from loopwright.analysis.relations import union
from loopwright.ir.islkit import isl
from loopwright.ir.loops import Mark
from loopwright.ir.program import Access, Program, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import bands, nodes_of
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import find_band, open_bands
from loopwright.transform.step import Step, refuse

Pairs: TypeAlias = list[tuple[Statement, Access]]  # accesses, with the statements that make them

__all__ = [
    "PromoteToRegisters",
]


@dataclass(frozen=True, slots=True)
class PromoteToRegisters(Step):
    """Keep the elements that a statement accesses in registers while a loop runs.

    rewrite:  for k: a[i] = a[i] + b[k] * c[i]
              ->  t = a[i]; u = c[i]
                  for k: t = t + b[k] * u
                  a[i] = t
    needs:    while the loop runs, no instance writes what the statement reads, and no other
              statement accesses what it writes; an element that it updates counts as written
    refuses:  IllegalStep with two instances that meet in an element
    """

    kind: ClassVar[str] = "promote_to_registers"

    statement: str
    loop: str

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        band = find_band(self, schedule, root, self.loop)
        if self.statement not in band.statements:
            refuse(self, f"statement '{self.statement}' does not stand in loop '{self.loop}'")
        marks = [schedule.mark(inner.loop) for inner in bands(band)]
        if {Mark.PARALLEL, Mark.BLOCK, Mark.THREAD} & set(marks):
            refuse(self, f"threads share the work of loop '{self.loop}', but no registers")
        if not schedule.in_registers:
            refuse(self, "elements are kept in memory")
        if any(self.statement == joined.statement for joined in schedule.joined):
            refuse(self, f"threads join what '{self.statement}' gathers")
        if (self.statement, self.loop) in schedule.promoted:
            refuse(self, f"the elements of '{self.statement}' are in registers already")
        found = witness(
            _aliasing_pairs(schedule, self.statement, self.loop, band.statements), "meet in"
        )
        if found is not None:
            refuse(self, "another access may touch an element", found)
        return replace(schedule, promoted=(*schedule.promoted, (self.statement, self.loop)))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[PromoteToRegisters]:
        for band in open_bands(schedule):
            if not any(True for _ in bands(band.child)):
                for statement in sorted(band.statements):
                    if (statement, band.loop) not in schedule.promoted:
                        yield cls(statement, band.loop)


def _aliasing_pairs(
    schedule: Schedule, statement: str, loop: str, inside: frozenset[str]
) -> Dependences:
    """The pairs of instances in one execution of the loop that forbid register promotion.

    `{ S[i] -> T[j] }`: T writes what S reads, or T is another statement and accesses what S writes.
    """
    program = schedule.program
    own = program.statement(statement)
    others = [program.statement(name) for name in sorted(inside)]
    reads = [(own, access) for access in own.reads if access != own.write]
    writes = [(s, s.write) for s in others]
    strangers = [s for s in others if s is not own]
    touched = [(s, access) for s in strangers for access in (s.write, *s.reads)]

    def meet(first: Pairs, second: Pairs) -> isl.UnionMap:
        # Accesses to different arrays never meet.
        arrays = {x.array for _, x in first} & {x.array for _, x in second}
        if not arrays:
            return isl.UnionMap.empty(program.context.get_space())
        one, other = (
            _maps(program, [(s, x) for s, x in found if x.array in arrays])
            for found in (first, second)
        )
        return inside_loop(one.apply_range(other.reverse()), schedule.tree, loop)

    return Dependences(
        program,
        flow=isl.UnionMap.empty(program.context.get_space()),
        anti=meet(reads, writes),
        output=meet([(own, own.write)], touched),
    )


def _maps(program: Program, accesses: Pairs) -> isl.UnionMap:
    maps = (access_map(program, statement, access) for statement, access in accesses)
    return union(program.context.get_space(), maps)
