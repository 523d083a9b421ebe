"""UpdateLast and ExchangeTerms: updates of one element by one operator change places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import ClassVar

from loopwright.analysis.dependences import access_map
from loopwright.analysis.update_statements import Update, exchangeable_update, joined
from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.expr import Expr
from loopwright.ir.islkit import isl
from loopwright.ir.program import Access, Program, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    Sequence,
    nodes_of,
    statements_in,
    write_tree,
)
from loopwright.ir.visit import loads, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.scalar_life import Iteration
from loopwright.transform.schedule_legality import is_in_source_order
from loopwright.transform.step import Step, refuse

__all__ = ["ExchangeTerms", "UpdateLast", "may_read_own", "next_update"]


@dataclass(frozen=True, slots=True)
class UpdateLast(Step):
    """Let a statement update its element behind the updates that follow it.

    Where `op` is associative and commutative, (x op f) op g = (x op g) op f. An update by the
    element before (`x[j - 1]`) then no longer waits in front of a loop that gathers into x[j], and
    that loop may run for all j at once, as the terms x[k] come to be known.

    rewrite:  for j: x[j] = x[j] op f(x[j - 1]); for k: x[j] = x[j] op g(x[k])
              ->  for j: for k: x[j] = x[j] op g(x[k]); x[j] = x[j] op f(x[j - 1])
    needs:    the source order; a statement by itself, and behind it in the same iteration updates
              of the same element by the same operator, which may be reordered; no term of one of
              them is the element that the other updates
    refuses:  IllegalStep with what is missing
    """

    kind: ClassVar[str] = "update_last"

    statement: str

    def apply(self, schedule: Schedule) -> Schedule:
        program = schedule.program
        if self.statement not in {statement.name for statement in program.statements}:
            refuse(self, f"there is no statement '{self.statement}'")
        if not is_in_source_order(schedule):
            refuse(self, "updates change places in the source order only")
        place = _place(nodes_of(schedule), self.statement, ())
        if place is None:
            refuse(self, f"{self.statement} is no statement of a sequence inside a loop")
        if not place.passed(program):
            refuse(self, f"no updates of the element of {self.statement} follow it directly")
        root = _moved(nodes_of(schedule), place, len(place.passed(program)))
        changed = replace(program, schedule=write_tree(program.schedule.get_domain(), root))
        return replace(
            schedule, program=changed, tree=changed.schedule, analyses=AnalysisManager(changed)
        )

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[UpdateLast]:
        """Every statement that others follow in a sequence."""
        for statement in schedule.program.statements:
            place = _place(nodes_of(schedule), statement.name, ())
            if place is not None and place.behind:
                yield cls(statement.name)


@dataclass(frozen=True, slots=True)
class ExchangeTerms(Step):
    """Set an element to the term that it is updated by next, and update it by the first one.

    rewrite:  x[j] = f; x[j] = x[j] op g  ->  x[j] = g; x[j] = x[j] op f
    needs:    the source order; a statement that sets an element, and directly behind it in the same
              iteration an update of the element by an operator that may be reordered; neither
              f nor g reads the element
    refuses:  IllegalStep with what is missing
    """

    kind: ClassVar[str] = "exchange_terms"

    statement: str

    def apply(self, schedule: Schedule) -> Schedule:
        program = schedule.program
        if self.statement not in {statement.name for statement in program.statements}:
            refuse(self, f"there is no statement '{self.statement}'")
        if not is_in_source_order(schedule):
            refuse(self, "terms change places in the source order only")
        place = _place(nodes_of(schedule), self.statement, ())
        found = None if place is None else place.updated_next(program)
        if place is None or found is None:
            refuse(self, f"no update of the element of {self.statement} follows it directly")
        own, (other, update) = program.statement(self.statement), found
        iteration = Iteration(place.around)
        if not iteration.always_has(own, other) or not iteration.always_has(other, own):
            refuse(self, f"{own.name} and {other.name} do not run in the same iterations")
        there, here = iteration.told_by(other, own), iteration.told_by(own, other)
        if not set(own.iterators) <= there.keys() or not set(other.iterators) <= here.keys():
            refuse(self, f"{own.name} and {other.name} run in loops of their own")
        if tuple(substitute(x, there) for x in own.write.index) != other.write.index:
            refuse(self, f"{own.name} and {other.name} write other elements")
        if may_read_own(program, own, own.value):
            refuse(self, f"{own.name} reads the element that it sets")
        if may_read_own(program, other, update.value):
            refuse(self, f"the term of {other.name} may be the element that it updates")
        behind = joined(update.op, other.write.load(), substitute(own.value, there))
        made = {
            own.name: replace(own, value=substitute(update.value, here), declared=None),
            other.name: replace(other, value=behind, declared=None),
        }
        if any(x.value.dtype != x.write.dtype for x in made.values()):
            refuse(self, f"{own.name} or {other.name} converts its term")
        statements = tuple(made.get(x.name, x) for x in program.statements)
        changed = replace(program, statements=statements)
        return replace(schedule, program=changed, analyses=AnalysisManager(changed))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[ExchangeTerms]:
        """Every statement that an update follows."""
        for statement in schedule.program.statements:
            place = _place(nodes_of(schedule), statement.name, ())
            if place is not None and place.updated_next(schedule.program) is not None:
                yield cls(statement.name)


def may_read_own(program: Program, own: Statement, term: Expr) -> bool:
    """Whether a term may read the element that its statement writes, by whatever subscripts."""
    written = access_map(program, own, own.write)
    reads = (Access(x.array, x.index, x.dtype) for x in loads(term) if x.array == own.write.array)
    return any(not access_map(program, own, x).intersect(written).is_empty() for x in reads)


def next_update(schedule: Schedule, statement: str) -> str | None:
    """The statement directly behind another one that updates the same array; None elsewhere."""
    place = _place(nodes_of(schedule), statement, ())
    found = None if place is None else place.updated_next(schedule.program)
    return None if found is None else found[0].name


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a statement stands: its sequence, what follows it there, and the loops around."""

    statement: str
    sequence: Sequence
    behind: tuple[Filter, ...]
    around: tuple[Band, ...]

    def passed(self, program: Program) -> tuple[Filter, ...]:
        """The parts directly behind the statement that consist of updates like its own."""
        own = program.statement(self.statement)
        update = exchangeable_update(program, own)
        if update is None:
            return ()

        def is_like(part: Filter) -> bool:
            return all(
                _commutes(program, (own, update), program.statement(name), self.around)
                for name in statements_in(part.instances)
            )

        return tuple(takewhile(is_like, self.behind))

    def updated_next(self, program: Program) -> tuple[Statement, Update] | None:
        """The statement directly behind, and how it updates the array that this one writes."""
        if not self.behind or not isinstance(self.behind[0].child, Leaf):
            return None
        (name,) = statements_in(self.behind[0].instances)
        other, own = program.statement(name), program.statement(self.statement)
        found = exchangeable_update(program, other)
        is_same = found is not None and other.write.array == own.write.array
        return (other, found) if found is not None and is_same else None


def _place(node: Node, statement: str, around: tuple[Band, ...]) -> _Place | None:
    """The place of a statement in a sequence inside some loop."""
    match node:
        case Band(child=child):
            return _place(child, statement, (*around, node))
        case Sequence(filters=parts):
            for at, part in enumerate(parts):
                if statement in statements_in(part.instances):
                    if isinstance(part.child, Leaf) and around:
                        return _Place(statement, node, parts[at + 1 :], around)
                    return _place(part.child, statement, around)
    return None


def _moved(node: Node, place: _Place, count: int) -> Node:
    """A tree with the statement of a place behind the next `count` parts of its sequence."""
    match node:
        case Band(child=child):
            return replace(node, child=_moved(child, place, count))
        case Sequence(filters=parts) if node is place.sequence:
            at = len(parts) - len(place.behind) - 1
            later = at + 1 + count
            return Sequence((*parts[:at], *parts[at + 1 : later], parts[at], *parts[later:]))
        case Sequence(filters=parts):
            return Sequence(tuple(replace(p, child=_moved(p.child, place, count)) for p in parts))
    return node


def _commutes(
    program: Program, first: tuple[Statement, Update], other: Statement, around: tuple[Band, ...]
) -> bool:
    """Whether an update and another one in the same iteration of the loops around change places."""
    own, update = first
    found = exchangeable_update(program, other)
    if found is None or (found.op, other.write.array) != (update.op, own.write.array):
        return False
    pairs = Iteration(around).pairs(own, other)

    def elements(left: Access, right: Access) -> isl.UnionMap:
        """The elements that two accesses of a pair have, { x[e] -> x[f] }."""
        ends = (access_map(program, own, left), access_map(program, other, right))
        one, two = (isl.UnionMap.from_map(end) for end in ends)
        return one.reverse().apply_range(pairs).apply_range(two)

    def is_apart(touched: isl.UnionMap) -> bool:
        return bool(touched.intersect(isl.UnionSet.identity(touched.domain())).is_empty())

    updated = elements(own.write, other.write)
    return (
        bool(updated.is_subset(isl.UnionSet.identity(updated.domain())))
        and all(is_apart(elements(own.write, read)) for read in _terms(found, own))
        and all(is_apart(elements(read, other.write)) for read in _terms(update, own))
    )


def _terms(update: Update, own: Statement) -> list[Access]:
    """The elements of the updated array that an update takes its term from."""
    found = (load for load in loads(update.value) if load.array == own.write.array)
    return [Access(load.array, load.index, load.dtype) for load in found]
