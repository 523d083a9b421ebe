"""PartialSums: partial results of a reduction, one for every block of iterations of a loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import ClassVar, TypeAlias

from loopwright.analysis.dependences import access_map
from loopwright.analysis.reductions import Reduction, reductions
from loopwright.diagnostics import UsageError
from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.islkit import functions_in, isl, isl_integer, pieces_in
from loopwright.ir.program import Access, Array, Program, Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    bands,
    directions,
    moved_by,
    nodes_of,
    read_tree,
    sequence,
    statements_in,
    write_tree,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.ir.visit import fresh_name, loads, rewrite
from loopwright.lazy_dataclass import dataclass
from loopwright.semirings import identity
from loopwright.transform.scalar_expansion import iterator_range
from loopwright.transform.schedule_legality import reordered
from loopwright.transform.step import Step, refuse

__all__ = ["PartialSums"]

# What `candidates` offers; `apply` takes any size.
SIZE = 64

_OuterLoops: TypeAlias = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class PartialSums(Step):
    """Compute partial results of a reduction, one for every block of iterations of a loop.

    rewrite:  for i: for j: y[j] = y[j] + e(i, j)
              ->  for c: for j: t[c, j] = 0
                  for i: for j: t[i // F, j] = t[i // F, j] + e(i, j)
                  for c: for j: y[j] = y[j] + t[c, j]
    needs:    a reduction whose order is free; nobody else uses the array in the loops that are
              put between the new ones, and its elements tell the values of the loops around
    refuses:  IllegalStep with the reason

    Other statements in the loop that gather into the same array by the same operator come along:
    each of their instances adds to the partial results of the same block.
    """

    kind: ClassVar[str] = "partial_sums"

    statement: str
    iterator: str  # of the statement
    size: int  # iterations per partial result

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError("partial sums take blocks of at least 1 iteration", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        program = schedule.program
        found = next((r for r in reductions(program) if r.statement == self.statement), None)
        if found is None or not found.is_reorderable:
            refuse(self, f"'{self.statement}' is no reduction whose order is free")
        if self.iterator not in found.loops:
            refuse(self, f"'{self.statement}' does not gather along '{self.iterator}'")
        root = nodes_of(schedule)
        members = self._members(program, found, root)
        here = self._nest(program, members, root)
        first = read_tree(program.schedule)
        if self._members(program, found, first) != members:
            refuse(self, f"others gather into '{found.element.array}' in the source order")
        source = self._nest(program, members, first)
        for member in members:
            limits = iterator_range([program.statement(member.found.statement)], member.iterator)
            if limits is None or not _is_natural(limits[0]):
                reason = "does not begin at a number from 0 on"
                refuse(self, f"the range of '{member.iterator}' {reason}")
        # Dimensions that the loops around fix in both orders need no memory of their own.
        fixed = tuple(sorted(here.fixed & source.fixed))
        parts = schedule.analyses.get(_PartialResults(self, members, fixed))
        changed = _inserted(root, here, *parts.program.statements[-2:])
        tree = write_tree(_domain(parts.program), changed)
        after = replace(schedule, program=parts.program, tree=tree, analyses=parts)
        return reordered(self, after, changed)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[PartialSums]:
        for found in reductions(schedule.program):
            if found.is_reorderable:
                yield from (cls(found.statement, loop, SIZE) for loop in found.loops)

    def _members(self, program: Program, found: Reduction, tree: Node) -> tuple[_Member, ...]:
        """The reduction and those that gather into its array beside it, in the loop that is cut."""
        for band in _path(tree, self.statement) or ():
            moved = moved_by(band, program)
            if moved.get(self.statement) == self.iterator:
                return tuple(
                    _Member(other, moved[other.statement])
                    for other in reductions(program)
                    if other.statement in band.statements
                    and other.is_reorderable
                    and (other.op, other.element.array) == (found.op, found.element.array)
                    and other.statement in moved
                )
        return (_Member(found, self.iterator),)

    def _nest(self, program: Program, members: Sequence[_Member], tree: Node) -> _ReductionNest:  # noqa: RET503 (refuse)
        """The outermost loop that holds the whole reduction and no other access of its array."""
        path = _path(tree, self.statement)
        if path is None:
            refuse(self, f"'{self.statement}' stands in several loops one after the other")
        gathered = [member.found for member in members]
        array = gathered[0].element.array
        user = ""
        for at, band in enumerate(path):
            user = _other_user(program, gathered, band)
            if not user:
                around = {_outer_loops(program, found, path[:at]) for found in gathered}
                outer = around.pop()
                if around or outer is None:
                    refuse(self, f"'{array}' does not tell the loops around")
                return _ReductionNest(self.statement, band.loop, outer)
            if moved_by(band, program).get(self.statement) == self.iterator:
                break
        refuse(self, f"'{user}' uses '{array}' in the same loops")


@dataclass(frozen=True, slots=True)
class _Member:
    """A reduction into the array, and its iterator that counts the blocks."""

    found: Reduction
    iterator: str


@dataclass(frozen=True, slots=True)
class _ReductionNest:
    """A loop that computes a reduction; the loops around it as functions of the element written."""

    statement: str  # whose loops they are
    loop: str
    outer: _OuterLoops  # loop, dimension d, sign, shift: sign * d + shift

    @property
    def fixed(self) -> frozenset[int]:
        """Dimensions of the array that are fixed inside the loop."""
        return frozenset(dimension for _, dimension, _, _ in self.outer)


def _path(tree: Node, statement: str) -> tuple[Band, ...] | None:
    """The loops around a statement, outermost first; None where index-set splitting copied it."""
    match tree:
        case Leaf():
            return ()
        case Band(child=child):
            inner = _path(child, statement)
            return None if inner is None else (tree, *inner)
        case InOrder(filters=filters):
            own = [b.child for b in filters if statement in statements_in(b.instances)]
            return _path(own[0], statement) if len(own) == 1 else None


def _other_user(program: Program, gathered: Sequence[Reduction], band: Band) -> str:
    """A statement in a loop with another access of the reductions' array; "" for none."""
    values = {found.statement: found.value for found in gathered}
    for name in sorted(band.statements):
        statement = program.statement(name)
        if name in values:
            touched = {load.array for load in loads(values[name])}
        else:
            touched = {statement.write.array, *(load.array for load in loads(statement.value))}
        if gathered[0].element.array in touched:
            return name
    return ""


def _outer_loops(program: Program, found: Reduction, path: tuple[Band, ...]) -> _OuterLoops | None:
    """The loops of a path as functions of the element; None unless it determines them."""
    outer: list[tuple[str, int, int, int]] = []
    iterators = program.statement(found.statement).iterators
    for band in path:
        at, sign = directions(band).get(found.statement, (0, 0))
        places = [d for d, entry in enumerate(found.element.index) if entry == Var(iterators[at])]
        shift = _shift(band, found.statement)
        if not sign or not places or shift is None:
            return None
        outer.append((band.loop, places[0], sign, shift))
    return tuple(outer)


def _shift(band: Band, statement: str) -> int | None:
    """The constant that a loop adds to an iterator; None where it is not a constant."""
    (own,) = (
        function
        for function in functions_in(band.partial.get_union_pw_aff(0))
        if function.get_tuple_id(isl.dim_type.in_).get_name() == statement
    )
    ((_, piece),) = pieces_in(own)
    count = piece.dim(isl.dim_type.param)
    value = piece.get_constant_val()
    is_number = value.is_int() and not piece.involves_dims(isl.dim_type.param, 0, count)
    return value.to_python() if is_number else None


_ENDS = ("_start", "_total")


def _is_natural(first: Expr) -> bool:
    return isinstance(first, Const) and int(first.value.real) >= 0


@dataclass(frozen=True, slots=True)
class _PartialResults:
    """Analysis: the program with partial results, with a manager of its own."""

    step: PartialSums
    members: tuple[_Member, ...]
    fixed: tuple[int, ...]  # dimensions of the array that partial results do not need

    def __call__(self, program: Program) -> AnalysisManager:
        step = self.step
        own = program.statement(step.statement)
        found = self.members[0].found
        array = program.array(found.element.array)
        taken = {*program.params, *(a.name for a in program.arrays)}
        name = fresh_name(f"{array.name}_parts", taken)
        taken.add(name)
        kept = [d for d in range(array.rank) if d not in self.fixed]
        shape = (self._count(program), *(array.shape[d] for d in kept))
        parts = Array(name, array.dtype, shape, Role.LOCAL)
        changed: dict[str, Statement] = {}
        cells: isl.Set | None = None
        for member in self.members:
            statement = program.statement(member.found.statement)
            old = member.found.element
            place = Var(member.iterator) // step.size
            whole = Access(name, (place, *old.index), array.dtype)
            new = replace(whole, index=(place, *(old.index[d] for d in kept)))
            value = _redirected(statement.value, old.load(), new.load())
            changed[statement.name] = replace(statement, write=new, value=value)
            touched = access_map(program, statement, whole).range()
            cells = touched if cells is None else cells.union(touched).coalesce()
        assert cells is not None
        iterators = []
        for wish in (f"{step.iterator}_part", *(f"{array.name}_{k}" for k in range(array.rank))):
            iterators.append(fresh_name(wish, taken))
            taken.add(iterators[-1])
        at = tuple(map(Var, iterators))
        part = Access(name, (at[0], *(at[1 + d] for d in kept)), array.dtype)
        total = Access(array.name, at[1:], array.dtype)
        start: Expr = Const(identity(found.op, array.dtype), array.dtype)
        gathered = Binary(found.op, total.load(), part.load())
        used = {s.name for s in program.statements}
        ends = []
        for end, write, value in zip(_ENDS, (part, total), (start, gathered), strict=True):
            label = fresh_name(own.name + end, used)
            domain = _named(cells, label, iterators)
            ends.append(Statement(label, tuple(iterators), domain, write, value, own.span))
        statements = tuple(changed.get(s.name, s) for s in program.statements)
        found_program = replace(
            program, arrays=(*program.arrays, parts), statements=(*statements, *ends)
        )
        tree = read_tree(program.schedule)
        source = _inserted(tree, step._nest(program, self.members, tree), *ends)
        order = write_tree(_domain(found_program), source)
        return AnalysisManager(replace(found_program, schedule=order))

    def _count(self, program: Program) -> Expr:
        """The number of blocks."""
        ends = []
        for member in self.members:
            limits = iterator_range([program.statement(member.found.statement)], member.iterator)
            assert limits is not None, "checked before"
            ends.append(limits[1])
        size = self.step.size
        return (reduce(lambda x, y: x if x == y else x.max(y), ends) + (size - 1)) // size


def _redirected(value: Expr, old: Load, new: Load) -> Expr:
    return rewrite(value, lambda expr: new if expr == old else expr)


def _named(cells: isl.Set, name: str, iterators: Iterable[str]) -> isl.Set:
    """A set with the tuple name of a statement and the dimension names of its iterators."""
    cells = cells.set_tuple_name(name)
    for at, iterator in enumerate(iterators):
        cells = cells.set_dim_name(isl.dim_type.set, at, iterator)
    return cells


def _domain(program: Program) -> isl.UnionSet:
    found = isl.UnionSet.empty(program.context.get_space())
    for statement in program.statements:
        found = found.union(isl.UnionSet.from_set(statement.domain))
    return found


def _inserted(tree: Node, nest: _ReductionNest, first: Statement, last: Statement) -> Node:
    """`tree` with loops over new statements before and after a loop, inside those around it."""
    taken = {band.loop for band in bands(tree)}
    outer = {loop: (dimension, sign, shift) for loop, dimension, sign, shift in nest.outer}
    new = _whole(first).union(_whole(last))

    def visit(node: Node) -> Node:
        match node:
            case Leaf():
                return node
            case Band(loop=loop, partial=partial, child=child):
                if loop == nest.loop:
                    before, after = (_loops(s, nest, taken) for s in (first, last))
                    parts = (
                        Filter(_whole(first), before),
                        Filter(partial.domain().universe(), node),
                    )
                    return sequence((*parts, Filter(_whole(last), after)))
                if loop not in outer:
                    return node
                dimension, sign, shift = outer[loop]
                for statement in (first, last):
                    own = _function(statement, 1 + dimension, sign, shift)
                    partial = partial.union_add(own.set_tuple_name(isl.dim_type.set, loop))
                return Band(loop, partial, visit(child))
            case InOrder(filters=filters):
                return sequence(
                    Filter(b.instances.union(new), visit(b.child))
                    if nest.statement in statements_in(b.instances)
                    else b
                    for b in filters
                )

    return visit(tree)


def _whole(statement: Statement) -> isl.UnionSet:
    return isl.UnionSet.from_set(isl.Set.universe(statement.domain.get_space()))


def _loops(statement: Statement, nest: _ReductionNest, taken: set[str]) -> Node:
    """Loops over the iterators of a statement that the loops around it do not determine."""
    node: Node = Leaf()
    for at in reversed(range(len(statement.iterators))):
        if at - 1 in nest.fixed:
            continue
        name = fresh_name(statement.iterators[at], taken)
        taken.add(name)
        node = Band(
            name, _function(statement, at, 1, 0).set_tuple_name(isl.dim_type.set, name), node
        )
    return node


def _function(statement: Statement, at: int, sign: int, shift: int) -> isl.MultiUnionPwAff:
    """`{ S[i] -> [sign * i_at + shift] }`."""
    space = isl.LocalSpace.from_space(statement.domain.get_space())
    found = isl.Aff.var_on_domain(space, isl.dim_type.set, at)
    found = (found if sign > 0 else found.neg()).add_constant_val(isl_integer(shift))
    return isl.MultiUnionPwAff.from_union_pw_aff(
        isl.UnionPwAff.from_pw_aff(isl.PwAff.from_aff(found))
    )
