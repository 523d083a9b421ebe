"""Accesses of statements: what is read and written, where, and how early."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Expr, Load
from loopwright.ir.walk import loads
from loopwright.sparse.spf.bodies import Spaces, as_term, element
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.uf import Call, Linear, Var, variables

__all__ = ["Access", "accesses", "commuting", "known_after", "shares_loop", "update_of"]

# Operators whose updates commute bit by bit; sums and products of floats only where that is said.
_ALWAYS = frozenset({"min", "max", "and", "or", "xor"})
_EXACT = frozenset({"add", "mul"})


@dataclass(frozen=True)
class Access:
    """One read or write of an element of a data space by the instances of a statement."""

    stmt: Stmt
    space: str
    index: tuple[Linear | None, ...]  # None: any value, because the algebra cannot say it
    is_write: bool = False
    # Entries of the schedule that have passed when the element is read: a domain is read before
    # its instances run. None: the access happens in the instance itself.
    entries: int | None = None


def accesses(stmt: Stmt) -> tuple[Access, ...]:
    """Every access of a statement, each once, the write first."""
    return tuple(dict.fromkeys(_accesses(stmt)))


def _accesses(stmt: Stmt) -> Iterator[Access]:
    yield Access(stmt, stmt.target, stmt.index, is_write=True)
    for load in stmt.loads:
        index = tuple(as_term(entry, stmt.variables) for entry in load.index)
        yield Access(stmt, load.array, index)
    for call in stmt.index_calls:
        yield Access(stmt, call.name, call.args)
    for call in stmt.domain_calls:
        yield Access(stmt, call.name, call.args, entries=known_after(stmt, call))


def known_after(stmt: Stmt, call: Call) -> int:
    """The number of schedule entries that decide a call of the domain.

    These are the entries up to the last variable of its arguments, and the constants right behind:
    they say after which statements of the same loops the call is made.
    """
    wanted = set().union(*map(variables, call.args)) if call.args else set()
    known: set[str] = set()
    count = 0
    while count < len(stmt.schedule) and not wanted <= _determined(stmt, known):
        known |= variables(stmt.schedule[count])
        count += 1
    while count < len(stmt.schedule) and stmt.schedule[count].is_constant:
        count += 1
    return count


def _determined(stmt: Stmt, known: set[str]) -> set[str]:
    """`known` and the variables that equalities of the domain give from them."""
    if len(stmt.domain.conjs) != 1:
        return known
    found = set(known)
    is_moving = True
    while is_moving:
        is_moving = False
        for constraint in stmt.domain.conjs[0].equalities:
            missing = variables(constraint.term) - found
            is_bare = any(
                isinstance(atom, Var) and atom.name in missing for atom, _ in constraint.term.terms
            )
            if len(missing) == 1 and is_bare:
                found |= missing
                is_moving = True
    return found


def shares_loop(stmt: Stmt, other: Stmt, place: int) -> bool:
    """Whether two statements run in one loop at a place of their schedules."""
    if len(other.schedule) <= place:
        return False
    for x, y in zip(stmt.schedule[:place], other.schedule[:place], strict=True):
        if x.is_constant and y.is_constant and x != y:
            return False
    return not other.schedule[place].is_constant


def commuting(computation: Computation, one: Stmt, other: Stmt) -> bool:
    """Whether updates of two statements to one space may change places without any effect."""
    found = [update_of(stmt, computation.by_name) for stmt in (one, other)]
    if found[0] is None or found[0] != found[1] or one.target != other.target:
        return False
    dtype = computation.space(one.target).dtype
    return found[0] in _ALWAYS or (
        found[0] in _EXACT and (_is_modular(dtype) or computation.reassoc)
    )


def _is_modular(dtype: DType) -> bool:
    return dtype.is_exact


def update_of(stmt: Stmt, spaces: Spaces) -> str | None:
    """The operator of `x[a] = x[a] op e`, where a, e and a guard do not read the space of x."""
    if stmt.guard is not None and _reads(stmt.guard, stmt.target):
        return None
    if any(call.name == stmt.target for call in stmt.index_calls):
        return None
    own = element(stmt.target, stmt.index, spaces)
    match stmt.value:
        case Binary(op=op, x=x, y=y) if op in _ALWAYS | _EXACT:
            rest = y if x == own else x if y == own else None
            return op if rest is not None and not _reads(rest, stmt.target) else None
    return None


def _reads(expr: Expr, space: str) -> bool:
    return any(isinstance(load, Load) and load.array == space for load in loads(expr))
