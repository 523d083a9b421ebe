"""Statements that nobody needs: dead ones, and ones that repeat what was done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.program import Role
from loopwright.ir.walk import walk
from loopwright.sparse.spf.array_dependences import before, prove_empty, times
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.uf import Atom, Conj, Constraint, Term, TupleVar, substitute

__all__ = ["drop_dead", "drop_redundant"]


def drop_dead(computation: Computation, live: Iterable[str] | None = None) -> Computation:
    """The computation without statements that no output depends on, and their temporaries.

    `live` names the spaces that are wanted; without it, all that the world outside sees.
    """
    wanted = set(computation.live_outs if live is None else live)
    kept: set[str] = set()
    is_moving = True
    while is_moving:
        is_moving = False
        for stmt in computation.statements:
            if stmt.name not in kept and stmt.target in wanted:
                kept.add(stmt.name)
                wanted |= stmt.reads | {stmt.target}
                is_moving = True
    statements = tuple(stmt for stmt in computation.statements if stmt.name in kept)
    return _tidy(replace(computation, statements=statements))


def drop_redundant(computation: Computation) -> Computation:
    """The computation without statements that store again what an earlier one has stored.

    Both have the same domain, place and value, and the value does not read the place's space. No
    other statement that touches it, or writes what the value or the domain reads, may run between.
    Where instances store different values to one place, the last store decides, so both statements
    must run such instances in one order.
    """
    found = computation
    for stmt in computation.statements:
        twin = next((other for other in found.statements if _repeats(found, other, stmt)), None)
        if twin is not None:
            found = found.with_statements(s for s in found.statements if s.name != stmt.name)
    return _tidy(found)


def _tidy(computation: Computation) -> Computation:
    """Without temporaries that nothing touches, and marks of statements that are gone."""
    used = {name for stmt in computation.statements for name in (*stmt.reads, stmt.target)}
    names = {stmt.name for stmt in computation.statements}
    spaces = tuple(s for s in computation.spaces if s.role is not Role.LOCAL or s.name in used)
    marks = tuple(mark for mark in computation.marks if mark[0] in names)
    return replace(computation, spaces=spaces, marks=marks)


def _repeats(computation: Computation, first: Stmt, second: Stmt) -> bool:
    if first.name == second.name or second.target in second.reads:
        return False
    mine = (first.domain, first.target, first.index, first.value, first.guard)
    if mine != (second.domain, second.target, second.index, second.value, second.guard):
        return False
    if not _is_before(computation, first, second):
        return False
    if not _stores_end_alike(computation, first, second):
        return False
    for other in computation.statements:
        if other.name in (first.name, second.name):
            continue
        touches = other.target in second.reads or second.target in (*other.reads, other.target)
        if touches and not (
            _runs_before(computation, other, first) or _runs_before(computation, second, other)
        ):
            return False
    return True


def _is_before(computation: Computation, first: Stmt, second: Stmt) -> bool:
    """Whether each instance of the first runs before the same instance of the second."""
    same = [
        Constraint.eq(Term.of(TupleVar(name)), Term.of(TupleVar(f"{name}'")))
        for name in first.variables
    ]
    return _never(computation, first, second, same, _not_before(computation, first, second))


def _stores_end_alike(computation: Computation, first: Stmt, second: Stmt) -> bool:
    """Whether each place holds the same after the first alone as after both.

    The last store to a place is one of the second, for each instance of it runs after the same one
    of the first. The first ends with the same instance if it runs those that store to one place in
    the order of the second: no i, i' with

        index(i) = index(i'),  i before i' in the second,  i not before i' in the first

    which holds where no two store to one place. Of a value that is one for all instances any store
    may be the last.
    """
    if not _varies(second):
        return True
    orders = [
        (*later, *sooner)
        for later in before(computation, second, second)
        for sooner in _not_before(computation, first, first)
    ]
    primes: dict[Atom, Term] = {
        TupleVar(name): Term.of(TupleVar(f"{name}'")) for name in first.variables
    }
    meet = [Constraint.eq(entry, substitute(entry, primes)) for entry in first.index]
    return _never(computation, first, second, meet, orders)


def _varies(stmt: Stmt) -> bool:
    """Whether the value of a statement may differ between its instances."""
    return any(isinstance(x, ExprVar) and x.name in stmt.variables for x in walk(stmt.value))


def _runs_before(computation: Computation, first: Stmt, second: Stmt) -> bool:
    """Whether every instance of the first runs before every instance of the second."""
    return _never(computation, first, second, [], _not_before(computation, first, second))


def _not_before(
    computation: Computation, first: Stmt, second: Stmt
) -> list[tuple[Constraint, ...]]:
    """The cases in which an instance of the first does not run before one of the second."""
    rows = times(first, second)
    found: list[tuple[Constraint, ...]] = []
    prefix: list[Constraint] = []
    for x, y in rows:
        found.append((*prefix, Constraint.gt(x, y)))
        prefix.append(Constraint.eq(x, y))
    names = [stmt.name for stmt in computation.statements]
    if names.index(first.name) >= names.index(second.name):
        found.append(tuple(prefix))
    return found


def _never(
    computation: Computation,
    first: Stmt,
    second: Stmt,
    more: list[Constraint],
    orders: list[tuple[Constraint, ...]],
) -> bool:
    primes = {name: f"{name}'" for name in second.variables}
    cases = [
        Conj.of(
            (
                *mine.rename({name: f"{name}.1" for name in mine.exists}).constraints,
                *theirs.rename({name: f"{name}.2" for name in theirs.exists} | primes).constraints,
                *more,
                *order,
            )
        )
        for mine in first.domain.conjs
        for theirs in second.domain.conjs
        for order in orders
    ]
    return prove_empty(cases, computation.facts)
