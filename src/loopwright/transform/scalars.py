"""Split and Spread: local scalars get memory of their own for every use and every iteration.

One place in memory orders all that goes through it, though no value passes between. Both steps
change where values are kept, never which value is read: the program after them has the flow of the
program before, whatever the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from typing import ClassVar

import islpy as isl

from loopwright.analysis.dependences import Dependences, flow_through
from loopwright.analysis.legality import violation, witness
from loopwright.analysis.reductions import reductions
from loopwright.analysis.relations import affine_expr, ends, maps_of, union
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.islparts import pieces_in
from loopwright.ir.program import Array, Program, Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import rewrite
from loopwright.ir.walk import fresh_name
from loopwright.transform.copies import accessors
from loopwright.transform.facts import fact, hand_on, learn
from loopwright.transform.step import Step, refuse

__all__ = ["Split", "Spread", "fewest_loops", "limits_of", "spreadable"]


@dataclass(frozen=True, slots=True)
class Split(Step):
    """Give every use of a local scalar that no value links to the others a scalar of its own.

    rewrite:  t = f(i); a[i] = t; t = g(i); b[i] = t
              ->  t = f(i); a[i] = t; t_2 = g(i); b[i] = t_2
    needs:    a local scalar with two or more such uses
    refuses:  IllegalStep when all uses are linked
    """

    kind: ClassVar[str] = "split"

    array: str

    def apply(self, schedule: Schedule) -> Schedule:
        _require_scalar(self, schedule, self.array)
        if len(_webs(schedule.program, self.array)) < 2:
            refuse(self, f"all uses of '{self.array}' are linked by values")
        return replace(schedule, program=fact(_Splitting(self.array), schedule.program))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Split]:
        for array in _scalars(schedule):
            if len(_webs(schedule.program, array)) > 1:
                yield cls(array)


@dataclass(frozen=True, slots=True)
class Spread(Step):
    """Make a local scalar an array with an element for every iteration of some loops.

    rewrite:  for i: t = f(i); a[i] = t
              ->  for i: t[i] = f(i); a[i] = t[i]
    needs:    a local scalar, iterators that all statements share which use it
    refuses:  IllegalStep with a value that passes between iterations
    """

    kind: ClassVar[str] = "spread"

    array: str
    loops: tuple[str, ...]  # iterators of the statements, one per dimension of the array

    def apply(self, schedule: Schedule) -> Schedule:
        _require_scalar(self, schedule, self.array)
        program = schedule.program
        users = _users(program, self.array)
        if not self.loops or any(not set(self.loops) <= set(s.iterators) for s in users):
            refuse(self, f"not all uses of '{self.array}' stand inside {', '.join(self.loops)}")
        found = witness(_crossing(program, self.array, self.loops))
        if found is not None:
            refuse(self, f"'{self.array}' carries from iteration to iteration", found)
        if None in [limits_of(users, loop) for loop in self.loops]:
            refuse(self, f"the range of {', '.join(self.loops)} has no affine limits")
        return replace(schedule, program=fact(_Spreading(self.array, self.loops), program))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Spread]:
        """The most loops over which each scalar can be spread, and each of them alone."""
        for array in _scalars(schedule):
            most = spreadable(schedule.program, array)
            if most:
                yield cls(array, most)
            if len(most) > 1:
                yield from (cls(array, (loop,)) for loop in most)


def spreadable(program: Program, array: str) -> tuple[str, ...]:
    """The iterators shared by all uses of a local scalar that no value passes between."""
    users = _users(program, array)
    if not users:
        return ()
    shared = [x for x in users[0].iterators if all(x in s.iterators for s in users)]
    return tuple(
        loop
        for loop in shared
        if _crossing(program, array, (loop,)).is_empty and limits_of(users, loop) is not None
    )


def fewest_loops(
    program: Program, array: str, most: tuple[str, ...], tree: isl.Schedule
) -> tuple[str, ...]:
    """The fewest of the loops `most` over which a scalar must be spread for `tree` to be legal.

    Of all pairs of instances that use one place those stay which agree in the loops.
    """
    users = _instances(program, _users(program, array))
    writers = [s for s in _users(program, array) if s.write.array == array]
    time = program.schedule.get_map().intersect_domain(users)
    every = time.lex_lt_union_map(time).intersect_range(_instances(program, writers))
    own = {r.statement for r in fact(reductions, program) if r.is_reorderable}
    kept = [m for m in maps_of(every) if ends(m)[0] != ends(m)[1] or ends(m)[0] not in own]
    for count in range(len(most)):
        for loops in combinations(reversed(most), count):
            pairs = union(every.get_space(), (_agreeing(program, m, loops) for m in kept))
            nothing = isl.UnionMap.empty(pairs.get_space())
            if violation(Dependences(program, nothing, pairs, nothing), tree) is None:
                return tuple(loop for loop in most if loop in loops)
    return most


def _agreeing(program: Program, pairs: isl.Map, loops: tuple[str, ...]) -> isl.Map:
    """The pairs that have the same values of some iterators."""
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


def _users(program: Program, array: str) -> list[Statement]:
    return [program.statement(name) for name in sorted(accessors(program, array))]


def _scalars(schedule: Schedule) -> list[str]:
    kept = {array for array, _ in schedule.private}
    arrays = schedule.program.arrays
    return [a.name for a in arrays if a.role is Role.LOCAL and not a.rank and a.name not in kept]


def _require_scalar(step: Step, schedule: Schedule, array: str) -> None:
    scalars = _scalars(schedule)
    if array not in scalars:
        names = ", ".join(scalars) or "none"
        refuse(step, f"'{array}' is no local scalar; the local scalars are {names}")


def _flow(program: Program, array: str) -> isl.UnionMap:
    """The values that go through an array: `{ S[i] -> T[j] }`, S writes what T reads."""
    return fact(_Flow(array), program)


@dataclass(frozen=True, slots=True)
class _Flow:
    """The flow through one array, as a fact."""

    array: str

    def __call__(self, program: Program) -> isl.UnionMap:
        return flow_through(program, self.array)


# -- webs -----------------------------------------------------------------------------------------


def _webs(program: Program, array: str) -> list[set[tuple[str, str]]]:
    """The uses of an array, (statement, "read" or "write"), that values link to each other."""
    webs: list[set[tuple[str, str]]] = []
    for statement in program.statements:
        if statement.write.array == array:
            webs.append({(statement.name, "write")})
        if array in {access.array for access in statement.reads}:
            webs.append({(statement.name, "read")})
    for part in maps_of(_flow(program, array)):
        source, target = ends(part)
        linked = [web for web in webs if {(source, "write"), (target, "read")} & web]
        webs = [web for web in webs if web not in linked] + [set().union(*linked)]
    place = {s.name: k for k, s in enumerate(program.statements)}
    return sorted(webs, key=lambda web: min((place[name], use) for name, use in web))


@dataclass(frozen=True, slots=True)
class _Splitting:
    """A program with the uses of a scalar told apart; a fact, so that it is one object."""

    array: str

    def __call__(self, program: Program) -> Program:
        taken = {*program.params, *(a.name for a in program.arrays)}
        names: dict[tuple[str, str], str] = {}
        new: list[Array] = []
        own = program.array(self.array)
        for web in _webs(program, self.array):
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
        hand_on(program, found, _is_flow)
        flow = _flow(program, self.array)
        for array in new:
            through = [m for m in maps_of(flow) if names[ends(m)[0], "write"] == array.name]
            learn(_Flow(array.name), found, union(flow.get_space(), through))
        return found


def _is_flow(compute: object) -> bool:
    """Whether a fact stays true where values are only kept elsewhere."""
    return isinstance(compute, _Flow)


def _renamed(statement: Statement, array: str, read: str | None, write: str | None) -> Statement:
    def change(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array == array and read is not None:
            return replace(expr, array=read)
        return expr

    target = statement.write if write is None else replace(statement.write, array=write)
    return replace(statement, write=target, value=rewrite(statement.value, change))


# -- arrays ---------------------------------------------------------------------------------------


def _crossing(program: Program, array: str, loops: tuple[str, ...]) -> Dependences:
    """The values of an array that are read at other values of the iterators than they are set."""
    flow = _flow(program, array)
    nothing = isl.UnionMap.empty(flow.get_space())
    crossing = nothing
    for part in maps_of(flow):
        kept = _agreeing(program, part, loops)
        crossing = crossing.union(isl.UnionMap.from_map(part.subtract(kept)))
    return Dependences(program, crossing, nothing, nothing)


def limits_of(users: list[Statement], loop: str) -> tuple[Expr, Expr] | None:
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


def _pieces(function: isl.PwAff) -> list[Expr] | None:
    """The affine expressions a function of the parameters is made of; None when it has others."""
    found = [affine_expr(piece, ()) for _, piece in pieces_in(function)]
    return None if None in found or not found else [x for x in found if x is not None]


def _least(x: Expr, y: Expr) -> Expr:
    return x if x == y else x.min(y)


def _most(x: Expr, y: Expr) -> Expr:
    return x if x == y else x.max(y)


@dataclass(frozen=True, slots=True)
class _Spreading:
    """A program with a scalar made an array; a fact, so that it is one object."""

    array: str
    loops: tuple[str, ...]

    def __call__(self, program: Program) -> Program:
        users = _users(program, self.array)
        index: list[Expr] = []
        extents: list[Expr] = []
        for loop in self.loops:
            limits = limits_of(users, loop)
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
        hand_on(program, found, _is_flow)
        return found


_WASTE = 8


def _indexed(statement: Statement, array: str, index: tuple[Expr, ...]) -> Statement:
    def change(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array == array:
            return replace(expr, index=index)
        return expr

    target = statement.write
    if target.array == array:
        target = replace(target, index=index)
    return replace(statement, write=target, value=rewrite(statement.value, change))
