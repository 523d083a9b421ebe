"""SplitLiveRanges and ExpandScalar: local scalars get memory of their own per use and iteration.

One memory cell orders all instances that use it, even where no value passes between them. Both
steps change where values are kept, never which value is read: the program after them has the flow
dependences of the program before, in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import combinations
from typing import ClassVar

from loopwright.analysis.dependences import Dependences, FlowThrough, unchanged_results
from loopwright.analysis.legality import keeps, witness
from loopwright.analysis.reductions import reductions
from loopwright.analysis.relations import affine_expr, ends, maps_of, union
from loopwright.ir.analysis_manager import AnalysisManager, DomainAnalysis
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.islkit import isl, pieces_in
from loopwright.ir.program import Array, Program, Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import fresh_name, rewrite
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import accessors
from loopwright.transform.step import Step, refuse

__all__ = [
    "ExpandScalar",
    "SplitLiveRanges",
    "expandable_loops",
    "fewest_expanded_loops",
    "iterator_range",
    "known_range",
]


@dataclass(frozen=True, slots=True)
class SplitLiveRanges(Step):
    """Give every live range of a local scalar a scalar of its own.

    rewrite:  t = f(i); a[i] = t; t = g(i); b[i] = t
              ->  t = f(i); a[i] = t; t_2 = g(i); b[i] = t_2
    needs:    a local scalar with two or more live ranges
    refuses:  IllegalStep when there is one only
    """

    kind: ClassVar[str] = "split_live_ranges"

    array: str

    def apply(self, schedule: Schedule) -> Schedule:
        _require_scalar(self, schedule, self.array)
        if len(_live_ranges(schedule.analyses, self.array)) < 2:
            refuse(self, f"all uses of '{self.array}' are linked by values")
        return _with_program(schedule, schedule.analyses.derive(_Splitting(self.array)))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[SplitLiveRanges]:
        for array in _scalars(schedule):
            if len(_live_ranges(schedule.analyses, array)) > 1:
                yield cls(array)


@dataclass(frozen=True, slots=True)
class ExpandScalar(Step):
    """Expand a local scalar to an array with an element for every iteration of some loops.

    rewrite:  for i: t = f(i); a[i] = t
              ->  for i: t[i] = f(i); a[i] = t[i]
    needs:    a local scalar; iterators shared by all statements that use it
    refuses:  IllegalStep with a value that passes between iterations
    """

    kind: ClassVar[str] = "expand_scalar"

    array: str
    loops: tuple[str, ...]  # iterators of the statements, one per dimension of the array

    def apply(self, schedule: Schedule) -> Schedule:
        _require_scalar(self, schedule, self.array)
        users = _users(schedule.analyses, self.array)
        if not self.loops or any(not set(self.loops) <= set(s.iterators) for s in users):
            refuse(self, f"not all uses of '{self.array}' stand inside {', '.join(self.loops)}")
        found = witness(_crossing(schedule.analyses, self.array, self.loops))
        if found is not None:
            refuse(self, f"'{self.array}' carries from iteration to iteration", found)
        if None in [known_range(schedule.analyses, users, loop) for loop in self.loops]:
            refuse(self, f"the range of {', '.join(self.loops)} has no affine limits")
        expanded = schedule.analyses.derive(_Expansion(self.array, self.loops))
        return _with_program(schedule, expanded)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[ExpandScalar]:
        """All loops over which each scalar can be expanded, and each of them alone."""
        for array in _scalars(schedule):
            most = expandable_loops(schedule.analyses, array)
            if most:
                yield cls(array, most)
            if len(most) > 1:
                yield from (cls(array, (loop,)) for loop in most)


def expandable_loops(analyses: AnalysisManager, array: str) -> tuple[str, ...]:
    """The iterators shared by all uses of a local scalar whose iterations exchange no value."""
    users = _users(analyses, array)
    if not users:
        return ()
    shared = [x for x in users[0].iterators if all(x in s.iterators for s in users)]
    return tuple(
        loop
        for loop in shared
        if _crossing(analyses, array, (loop,)).is_empty
        and known_range(analyses, users, loop) is not None
    )


def fewest_expanded_loops(
    analyses: AnalysisManager, array: str, most: tuple[str, ...], tree: isl.Schedule
) -> tuple[str, ...]:
    """The fewest of the loops `most` over which a scalar must be expanded for `tree` to be legal.

    Expansion over loops leaves the pairs of instances with equal values of these loops.
    """
    program = analyses.program
    users = _instances(program, _users(analyses, array))
    writers = [s for s in _users(analyses, array) if s.write.array == array]
    time = program.schedule.get_map().intersect_domain(users)
    every = time.lex_lt_union_map(time).intersect_range(_instances(program, writers))
    own = {r.statement for r in analyses.get(reductions) if r.is_reorderable}
    kept = [m for m in maps_of(every) if ends(m)[0] != ends(m)[1] or ends(m)[0] not in own]
    for count in range(len(most)):
        for loops in combinations(reversed(most), count):
            pairs = union(every.get_space(), (_agreeing(program, m, loops) for m in kept))
            if keeps(pairs, tree):
                return tuple(loop for loop in most if loop in loops)
    return most


def _agreeing(program: Program, pairs: isl.Map, loops: tuple[str, ...]) -> isl.Map:
    """The pairs with equal values of some iterators."""
    source, target = (program.statement(name) for name in ends(pairs))
    for loop in loops:
        at = source.iterators.index(loop), target.iterators.index(loop)
        pairs = pairs.equate(isl.dim_type.in_, at[0], isl.dim_type.out, at[1])
    return pairs


def _instances(program: Program, statements: list[Statement]) -> isl.UnionSet:
    found = isl.UnionSet.empty(program.context.get_space())
    for statement in statements:
        found = found.union(isl.UnionSet.from_set(statement.domain))
    return found


def _with_program(schedule: Schedule, changed: AnalysisManager) -> Schedule:
    """`schedule` for a program with the same statement instances."""
    return replace(schedule, program=changed.program, analyses=changed)


def _users(analyses: AnalysisManager, array: str) -> list[Statement]:
    return [analyses.program.statement(name) for name in sorted(accessors(analyses, array))]


def _scalars(schedule: Schedule) -> list[str]:
    kept = {array for array, _ in schedule.private}
    arrays = schedule.program.arrays
    return [a.name for a in arrays if a.role is Role.LOCAL and not a.rank and a.name not in kept]


def _require_scalar(step: Step, schedule: Schedule, array: str) -> None:
    scalars = _scalars(schedule)
    if array not in scalars:
        names = ", ".join(scalars) or "none"
        refuse(step, f"'{array}' is no local scalar; the local scalars are {names}")


def _flow(analyses: AnalysisManager, array: str) -> isl.UnionMap:
    """The flow dependences through an array: `{ S[i] -> T[j] }`, S writes what T reads."""
    return analyses.derive(FlowThrough(array))


# -- live ranges ----------------------------------------------------------------------------------


def _live_ranges(analyses: AnalysisManager, array: str) -> list[set[tuple[str, str]]]:
    """The live ranges of an array: sets of (statement, "read" or "write") linked by flow."""
    program = analyses.program
    webs: list[set[tuple[str, str]]] = []
    for statement in program.statements:
        if statement.write.array == array:
            webs.append({(statement.name, "write")})
        if array in {access.array for access in statement.reads}:
            webs.append({(statement.name, "read")})
    for part in maps_of(_flow(analyses, array)):
        source, target = ends(part)
        linked = [web for web in webs if {(source, "write"), (target, "read")} & web]
        webs = [web for web in webs if web not in linked] + [set().union(*linked)]
    place = {s.name: k for k, s in enumerate(program.statements)}
    return sorted(webs, key=lambda web: min((place[name], use) for name, use in web))


@dataclass(frozen=True, slots=True)
class _Splitting:
    """Analysis: the program with one scalar per live range, with a manager of its own."""

    array: str

    def __call__(self, analyses: AnalysisManager) -> AnalysisManager:
        program = analyses.program
        taken = {*program.params, *(a.name for a in program.arrays)}
        names: dict[tuple[str, str], str] = {}
        new: list[Array] = []
        own = program.array(self.array)
        for web in _live_ranges(analyses, self.array):
            name = fresh_name(self.array, taken) if names else self.array
            taken.add(name)
            names |= dict.fromkeys(web, name)
            new.append(replace(own, name=name))
        at = program.arrays.index(own)
        arrays = (*program.arrays[:at], *new, *program.arrays[at + 1 :])
        statements = (
            _renamed(s, self.array, names.get((s.name, "read")), names.get((s.name, "write")))
            for s in program.statements
        )
        found = replace(program, arrays=arrays, statements=tuple(statements))
        flow = _flow(analyses, self.array)
        # Values are kept elsewhere, but flow as before.
        known = unchanged_results(analyses, self.array)
        for array in new:
            through = [m for m in maps_of(flow) if names[ends(m)[0], "write"] == array.name]
            known[FlowThrough(array.name)] = union(flow.get_space(), through)
        return AnalysisManager(found, known)


def _uses(statement: Statement, array: str) -> bool:
    return array in (statement.write.array, *(access.array for access in statement.reads))


def _renamed(statement: Statement, array: str, read: str | None, write: str | None) -> Statement:
    if not _uses(statement, array):
        return statement

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array == array and read is not None:
            return replace(expr, array=read)
        return expr

    target = statement.write if write is None else replace(statement.write, array=write)
    return replace(statement, write=target, value=rewrite(statement.value, change))


# -- arrays ---------------------------------------------------------------------------------------


def _crossing(analyses: AnalysisManager, array: str, loops: tuple[str, ...]) -> Dependences:
    """The flow through an array between instances with different values of some iterators."""
    program = analyses.program
    flow = _flow(analyses, array)
    nothing = isl.UnionMap.empty(flow.get_space())
    crossing = nothing
    for part in maps_of(flow):
        kept = _agreeing(program, part, loops)
        crossing = crossing.union(isl.UnionMap.from_map(part.subtract(kept)))
    return Dependences(program, crossing, nothing, nothing)


def iterator_range(users: list[Statement], loop: str) -> tuple[Expr, Expr] | None:
    """The first value of an iterator and one past its last, as expressions of the parameters.

    They hold for all users; None when some have no affine limits.
    """
    lows, highs = [], []
    for statement in users:
        at = statement.iterators.index(loop)
        lows.append(_pieces(statement.domain.dim_min(at)))
        highs.append(_pieces(statement.domain.dim_max(at)))
    if None in lows or None in highs:
        return None
    first = reduce(_least, [x for found in lows for x in found or []])
    last = reduce(_most, [x for found in highs for x in found or []])
    return first, (last + 1).max(first)


def known_range(
    analyses: AnalysisManager, users: Iterable[Statement], loop: str
) -> tuple[Expr, Expr] | None:
    """`iterator_range`, once for every program with these domains."""
    return analyses.get(_Range(tuple(s.name for s in users), loop))


@dataclass(frozen=True, slots=True)
class _Range(DomainAnalysis):
    """Analysis: `iterator_range` of some statements."""

    users: tuple[str, ...]
    loop: str

    def __call__(self, program: Program) -> tuple[Expr, Expr] | None:
        return iterator_range([program.statement(name) for name in self.users], self.loop)


def _pieces(function: isl.PwAff) -> list[Expr] | None:
    """The affine expressions a function of the parameters is made of; None when it has others."""
    found = [affine_expr(piece, ()) for _, piece in pieces_in(function)]
    return None if None in found or not found else [x for x in found if x is not None]


def _least(x: Expr, y: Expr) -> Expr:
    return x if x == y else x.min(y)


def _most(x: Expr, y: Expr) -> Expr:
    return x if x == y else x.max(y)


@dataclass(frozen=True, slots=True)
class _Expansion:
    """Analysis: the program with a scalar made an array, with a manager of its own."""

    array: str
    loops: tuple[str, ...]

    def __call__(self, analyses: AnalysisManager) -> AnalysisManager:
        program = analyses.program
        users = _users(analyses, self.array)
        index: list[Expr] = []
        extents: list[Expr] = []
        for loop in self.loops:
            limits = known_range(analyses, users, loop)
            assert limits is not None, "checked before"
            first, stop = limits
            # Subscripts stay plain where some elements before the first cost nothing.
            is_small = isinstance(first, Const) and 0 <= int(first.value.real) <= _WASTE
            index.append(Var(loop) if is_small else Var(loop) - first)
            extents.append(stop if is_small else stop - first)
        arrays = tuple(
            replace(a, shape=tuple(extents)) if a.name == self.array else a for a in program.arrays
        )
        changed = (_indexed(s, self.array, tuple(index)) for s in program.statements)
        found = replace(program, arrays=arrays, statements=tuple(changed))
        # The values are kept elsewhere, but flow as before.
        return AnalysisManager(found, unchanged_results(analyses, self.array))


_WASTE = 8


def _indexed(statement: Statement, array: str, index: tuple[Expr, ...]) -> Statement:
    if not _uses(statement, array):
        return statement

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array == array:
            return replace(expr, index=index)
        return expr

    target = statement.write
    if target.array == array:
        target = replace(target, index=index)
    return replace(statement, write=target, value=rewrite(statement.value, change))
