"""Privatize: give each iteration of a loop its own copy of a local array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

from loopwright.analysis.dependences import Dependences, FlowThrough, unchanged_results
from loopwright.analysis.legality import witness
from loopwright.analysis.value_flow import last_writer, loop_value, value_range
from loopwright.diagnostics import UsageError
from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.expr import Expr, Load, Var
from loopwright.ir.islkit import isl
from loopwright.ir.program import Access, Array, Program, Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Node,
    bands,
    nodes_of,
    read_tree,
    write_tree,
)
from loopwright.ir.visit import fresh_name, rewrite
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.added_statements import followed_by
from loopwright.transform.schedule_legality import (
    accessors,
    find_band,
    open_bands,
    reordered,
    with_private,
)
from loopwright.transform.step import Step, refuse

__all__ = ["ExpandArray", "Privatize"]


@dataclass(frozen=True, slots=True)
class Privatize(Step):
    """Give each iteration of a loop its own copy of a local array.

    Iterations that share one memory cell are ordered by it, although no value passes between them.
    With a copy for each iteration the loop may be parallel or vectorised.

    rewrite:  alloc t
              for i: t = f(i); a[i] = t
              ->  for i: alloc t; t = f(i); a[i] = t
    needs:    a local array used inside the loop only; no value flows between iterations
    refuses:  IllegalStep with the flow that leaves an iteration
    """

    kind: ClassVar[str] = "privatize"

    array: str
    loop: str

    def apply(self, schedule: Schedule) -> Schedule:
        local = [a.name for a in schedule.program.arrays if a.role is Role.LOCAL]
        if self.array not in local:
            names = ", ".join(local) or "none"
            refuse(self, f"'{self.array}' is no local array; the local arrays are {names}")
        if self.array in dict(schedule.private):
            refuse(
                self, f"array '{self.array}' is private to '{dict(schedule.private)[self.array]}'"
            )
        return with_private(self, schedule, self.array, self.loop)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Privatize]:
        """Every loop that holds all uses of a local array, outermost first."""
        for array in schedule.program.arrays:
            if array.role is not Role.LOCAL or array.name in dict(schedule.private):
                continue
            users = accessors(schedule.analyses, array.name)
            for band in open_bands(schedule):
                if users and users <= band.statements:
                    yield cls(array.name, band.loop)


# -- ExpandArray: each iteration of some loops gets its own copy of an array in memory ------------


@dataclass(frozen=True, slots=True)
class ExpandArray(Step):
    """Give each iteration of some loops its own copy of an array.

    Iterations that share one memory cell are ordered by it, although no value passes between them.
    Unlike private copies, expanded copies of all iterations exist at once, so that the loops may be
    distributed.

    rewrite:  for i: t = 0; for k: t += f(i, k); a[i] = t
              ->  for i: t_x[i] = 0; for k: t_x[i] += f(i, k); a[i] = t_x[i]
              and for an argument t, behind everything:  t = t_x[its last iteration]
    needs:    an array used inside the loops only; no value flows between their iterations
    refuses:  IllegalStep with the flow that leaves an iteration
    """

    kind: ClassVar[str] = "expand_array"

    array: str
    loops: tuple[str, ...]  # inside each other, outermost first

    def __post_init__(self) -> None:
        if not self.loops or len(set(self.loops)) != len(self.loops):
            raise UsageError("expand_array takes different loops", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        program = schedule.program
        if self.array not in {array.name for array in program.arrays}:
            refuse(self, f"there is no array '{self.array}'")
        if self.array in dict(schedule.private):
            refuse(self, f"array '{self.array}' has private copies already")
        found = self._bands(schedule, nodes_of(schedule))
        self._require_values_stay(schedule.analyses, found)
        copies = self._copies(schedule, found)
        changed = _rewritten(program, copies)
        root = nodes_of(schedule)
        known = {}
        if program.array(self.array).role is Role.LOCAL:
            known = unchanged_results(schedule.analyses, self.array)
            known[FlowThrough(copies.array.name)] = known.pop(FlowThrough(self.array))
        else:
            taken = {band.loop for band in bands(root)} | set(program.params)
            after = self._copied_back(changed, copies, taken)
            changed = _with_statement(changed, after)
            root = followed_by(root, program.schedule.get_domain(), after)
        tree = write_tree(changed.schedule.get_domain(), root)
        analyses = AnalysisManager(changed, known)
        started = replace(schedule, program=changed, tree=tree, analyses=analyses)
        return reordered(self, started, root)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[ExpandArray]:
        """Every array in the innermost loop that holds all its uses."""
        for array in schedule.program.arrays:
            users = accessors(schedule.analyses, array.name)
            around = [band.loop for band in open_bands(schedule) if users <= band.statements]
            if users and around:
                yield cls(array.name, (around[-1],))

    def _bands(self, schedule: Schedule, root: Node) -> tuple[Band, ...]:
        found = tuple(find_band(self, schedule, root, loop) for loop in self.loops)
        for outer, inner in pairwise(found):
            if inner.loop not in {band.loop for band in bands(outer.child)}:
                refuse(self, f"loop '{inner.loop}' is not inside loop '{outer.loop}'")
        outside = sorted(accessors(schedule.analyses, self.array) - found[-1].statements)
        if outside:
            names = ", ".join(outside)
            refuse(self, f"array '{self.array}' is used outside the loops, by {names}")
        return found

    def _require_values_stay(self, analyses: AnalysisManager, found: Sequence[Band]) -> None:
        """Refuse unless every value is read in the iteration that writes it."""
        program = analyses.program
        flow = analyses.derive(FlowThrough(self.array))
        inside = flow
        for band in found:
            inside = inside.eq_at_multi_union_pw_aff(band.partial)
        nothing = isl.UnionMap.empty(flow.get_space())
        lost = witness(Dependences(program, flow.subtract(inside), nothing, nothing))
        if lost is not None:
            reason = f"array '{self.array}' carries out of an iteration"
            refuse(self, reason, str(lost).removeprefix(lost.verb).strip())
        if program.array(self.array).role is Role.LOCAL:
            return
        for statement in program.statements:
            reads = {access for access in statement.reads if access.array == self.array}
            domain = isl.UnionSet.from_set(statement.domain.intersect_params(program.context))
            if len(reads) > 1 or (reads and not domain.is_subset(flow.range())):
                refuse(self, f"{statement.name} reads what '{self.array}' held before")

    def _copies(self, schedule: Schedule, found: Sequence[Band]) -> _Copies:
        program = schedule.program
        users = accessors(schedule.analyses, self.array)
        places: dict[str, tuple[Expr, ...]] = {}
        starts, extents = [], []
        for band in found:
            bounds = value_range(program, users, band.partial)
            if bounds is None:
                refuse(self, f"the range of loop '{band.loop}' is not affine")
            starts.append(bounds[0])
            extents.append(bounds[1] - bounds[0])
        for name in users:
            values = [loop_value(program.statement(name), band.partial) for band in found]
            known = [value for value in values if value is not None]
            if len(known) < len(values):
                refuse(self, f"the loops are no affine functions of the iterators of {name}")
            places[name] = tuple(v - start for v, start in zip(known, starts, strict=True))
        old = program.array(self.array)
        name = fresh_name(f"{old.name}_x", _names(program))
        array = Array(name, old.dtype, (*extents, *old.shape), Role.LOCAL)
        return _Copies(old, array, places, tuple(starts), tuple(b.partial for b in found))

    def _copied_back(self, program: Program, copies: _Copies, taken: set[str]) -> Statement:
        """The statement that copies the last value of every element back to the original array."""
        old = copies.old
        iterators: list[str] = []
        for dimension in range(old.rank):
            wish = f"{old.name}_{dimension}"
            iterators.append(fresh_name(wish, taken | _names(program) | set(iterators)))
        name = fresh_name(f"{old.name}_last", {s.name for s in program.statements})
        found = last_writer(program, copies.array.name, old.rank, copies.partials, iterators)
        if found is None:
            refuse(self, f"the last iteration that sets '{old.name}' is not affine")
        elements, last = found
        index = tuple(Var(x) for x in iterators)
        at = tuple(v - start for v, start in zip(last, copies.starts, strict=True))
        return Statement(
            name,
            tuple(iterators),
            elements.set_tuple_name(name),
            Access(old.name, index, old.dtype),
            Load(copies.array.name, (*at, *index), old.dtype),
        )


@dataclass(frozen=True, slots=True)
class _Copies:
    """An array and the expanded array that replaces it."""

    old: Array
    array: Array
    places: dict[str, tuple[Expr, ...]]  # statement -> its copy, subscripts before the array's own
    starts: tuple[Expr, ...]  # first values of the loops
    partials: tuple[isl.MultiUnionPwAff, ...]  # values of the loops


def _names(program: Program) -> set[str]:
    """The names of arrays, parameters and iterators of a program."""
    iterators = {x for statement in program.statements for x in statement.iterators}
    return {array.name for array in program.arrays} | set(program.params) | iterators


def _rewritten(program: Program, copies: _Copies) -> Program:
    """`program` with all accesses of the array redirected to its copies."""
    old, new = copies.old, copies.array

    def statement(found: Statement) -> Statement:
        if found.name not in copies.places:
            return found
        place = copies.places[found.name]

        def change(node: Expr) -> Expr:
            if isinstance(node, Load) and node.array == old.name:
                return Load(new.name, (*place, *node.index), node.dtype)
            return node

        write = found.write
        if write.array == old.name:
            write = Access(new.name, (*place, *write.index), write.dtype)
        return replace(found, write=write, value=rewrite(found.value, change))

    kept = tuple(a for a in program.arrays if a is not old or old.role is not Role.LOCAL)
    return replace(
        program, arrays=(*kept, new), statements=tuple(map(statement, program.statements))
    )


def _with_statement(program: Program, after: Statement) -> Program:
    """`program` with one more statement, executed after all others."""
    root = followed_by(read_tree(program.schedule), program.schedule.get_domain(), after)
    domain = program.schedule.get_domain().union(isl.UnionSet.from_set(after.domain))
    return replace(
        program, statements=(*program.statements, after), schedule=write_tree(domain, root)
    )
