"""Pieces of statements while loops are made around them.

A piece is one conjunction of a statement's domain, with the times that are still ahead, the
variables that have no value yet, and the constraints that nobody has tested yet. Its variables
have names of their own until loops and lets of the nest give them values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from loopwright.diagnostics import UsageError
from loopwright.sparse.spf.bounds import is_bare, unrounded
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.uf import (
    Atom,
    Call,
    Conj,
    Constraint,
    Linear,
    Var,
    atoms,
    substitute,
    variables,
)

__all__ = ["Definition", "Piece", "call_depth", "pieces_of"]


_MOST_PIECES = 64


@dataclass(frozen=True)
class Definition:
    """The value that an equality gives to a variable of a piece."""

    name: str
    value: Linear  # rounded down where the equality has a factor at the variable
    is_exact: bool  # False: the equality stays as a test


@dataclass(frozen=True)
class Piece:
    """A part of a statement, inside some loops."""

    stmt: Stmt
    number: int  # in textual order
    times: tuple[Linear, ...]  # entries of the schedule that are still ahead
    waiting: tuple[Constraint, ...]  # not established yet
    unknown: tuple[str, ...]  # variables without a value
    values: tuple[tuple[str, Linear], ...]  # of the domain's variables, in names of the nest
    loop: int = 0  # number of loops of the schedule that are behind

    @property
    def time(self) -> Linear:
        """The next entry of the schedule."""
        return self.times[0] if self.times else Linear.of(0)

    def put(self, values: Mapping[Atom, Linear]) -> Piece:
        """The piece with terms in place of atoms."""
        return replace(
            self,
            times=tuple(substitute(entry, values) for entry in self.times),
            waiting=_merged(c.substitute(values) for c in self.waiting),
            unknown=tuple(name for name in self.unknown if Var(name) not in values),
            values=tuple((name, substitute(value, values)) for name, value in self.values),
        )

    def without(self, constraints: Iterable[Constraint]) -> Piece:
        """The piece with constraints established."""
        gone = set(constraints)
        return replace(self, waiting=tuple(c for c in self.waiting if c not in gone))

    def ready(self, known: frozenset[str]) -> tuple[Constraint, ...]:
        """The constraints that can be tested, in an order that keeps subscripts inside arrays.

        Those without calls come first: the arguments of calls rely on them.
        """
        found = [c for c in self.waiting if variables(c.term) <= known]
        return tuple(sorted(found, key=lambda c: (call_depth(c.term), str(c))))

    def definitions(self, known: frozenset[str]) -> Iterator[Definition]:
        """Variables that an equality gives as functions of known ones."""
        for constraint in self.waiting:
            if not constraint.is_equality:
                continue
            unknown = variables(constraint.term) - known
            if len(unknown) != 1:
                continue
            name = next(iter(unknown))
            factor = constraint.term.coefficient(Var(name))
            if not factor or not is_bare(constraint.term, name):
                continue
            rest = constraint.term.without(Var(name)) * (-1 if factor > 0 else 1)
            yield Definition(name, rest.floor(abs(factor)), abs(factor) == 1)

    def at_time(self, time: str) -> Piece:
        """The piece with its next entry of the schedule called `time`, one loop further."""
        moved = replace(self, times=self.times[1:], loop=self.loop + 1)
        entry = self.time
        atom = entry.atom
        if isinstance(atom, Var) and atom.name in self.unknown:
            return moved.put({atom: Linear.of(Var(time))})
        for name in self.unknown:
            factor = entry.coefficient(Var(name))
            if abs(factor) == 1 and is_bare(entry, name):
                rest = entry.without(Var(name))
                if variables(rest).isdisjoint(self.unknown):
                    return moved.put({Var(name): (Linear.of(Var(time)) - rest) * factor})
        equal = unrounded(Constraint.eq(Var(time), entry), self.unknown)
        more = tuple(c for c in equal if c not in moved.waiting)
        return replace(moved, waiting=(*moved.waiting, *more))


def call_depth(term: Linear) -> int:
    """How many calls stand inside each other at most."""
    depth = 0
    for atom in atoms(term):
        if isinstance(atom, Call):
            depth = max(depth, 1 + max(map(call_depth, atom.args), default=0))
    return depth


def pieces_of(computation: Computation) -> tuple[Piece, ...]:
    """The pieces of all statements; those of one statement do not overlap."""
    found: list[Piece] = []
    for stmt in computation.statements:
        for conj in _disjoint(stmt):
            number = len(found)
            names = {name: f"{name}@{number}" for name in (*stmt.variables, *conj.exists)}
            put: dict[Atom, Linear] = {Var(a): Linear.of(Var(b)) for a, b in names.items()}
            found.append(
                Piece(
                    stmt,
                    number,
                    tuple(substitute(entry, put) for entry in stmt.schedule),
                    _merged(c.substitute(put) for c in conj.constraints),
                    tuple(names.values()),
                    tuple((name, Linear.of(Var(names[name]))) for name in stmt.variables),
                )
            )
    return tuple(found)


def _merged(constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    return Conj.of(constraints).constraints


def _disjoint(stmt: Stmt) -> Iterator[Conj]:
    """Conjunctions of the domain, each without the points of those before it."""
    before: list[Conj] = []
    for conj in stmt.domain.conjs:
        parts = [conj]
        for other in before:
            if other.exists:
                raise UsageError(
                    f"the domain of statement '{stmt.name}' is a union in which a variable exists",
                    str(other),
                    "write the variable as floor or mod, or make two statements",
                )
            parts = [rest for part in parts for rest in _difference(part, other)]
            if len(parts) > _MOST_PIECES:
                raise UsageError(
                    f"the domain of statement '{stmt.name}' is a union of too many pieces",
                    f"{len(stmt.domain.conjs)} conjunctions",
                    "make several statements with domains that do not overlap",
                )
        yield from parts
        before.append(conj)


def _difference(conj: Conj, other: Conj) -> Iterator[Conj]:
    """Disjoint conjunctions that cover `conj` without `other`."""
    held: list[Constraint] = []
    # Tests without calls first: calls of the others are made only where these hold.
    for constraint in sorted(other.constraints, key=lambda c: (call_depth(c.term), str(c))):
        for opposite in constraint.negated():
            part = conj.conjoined([*held, opposite])
            if not part.is_false:
                yield part
        held.append(constraint)
