"""Statements during loop generation: their pieces, bounds of variables and ranges of loops.

A piece is one conjunction of a statement's domain, with the schedule entries that remain, the
variables without a value yet, and the constraints that are not established yet. Its variables have
names of their own until loops and lets of the nest give them values. Bounds come from constraints
that name the variable alone:

    a*t + r >= 0  with a > 0   is   t >= -floor(r / a)
    a*t + r >= 0  with a < 0   is   t <= floor(r / -a)

or from Fourier-Motzkin elimination of other variables over the rationals. That may be weaker than
what holds over the integers: good enough for the range of a loop whose body tests the constraints
again, and used for nothing else. Constraints with the variable under a function are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from loopwright.diagnostics import UsageError
from loopwright.ir.expr import Expr
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.spf.implied import KnownConstraints
from loopwright.sparse.spf.term_exprs import Spaces, as_expr
from loopwright.sparse.uf import (
    Atom,
    Conj,
    Constraint,
    Floor,
    Term,
    TupleVar,
    UFCall,
    atoms,
    substitute,
    variables,
)

__all__ = [
    "Piece",
    "ScanRange",
    "VariableDefinition",
    "bound",
    "call_depth",
    "eliminated",
    "has_constant_bounds",
    "hull",
    "is_bare",
    "is_bound",
    "pieces_of",
    "range_of",
    "unrounded",
]

_MOST = 200  # constraints; beyond that no further variable is eliminated


def is_bare(term: Term, name: str) -> bool:
    """Whether a variable does not stand inside the atoms of a term."""
    return name not in variables(term.without(TupleVar(name)))


def is_bound(constraint: Constraint, name: str, known: Collection[str]) -> bool:
    """Whether a constraint bounds a variable by known ones."""
    if not constraint.term.coefficient(TupleVar(name)):
        return False
    return variables(constraint.term.without(TupleVar(name))) <= set(known) - {name}


def bound(constraint: Constraint, name: str) -> tuple[bool, Term]:
    """Whether an inequality bounds a variable from below, and the bound, which is inclusive."""
    factor = constraint.term.coefficient(TupleVar(name))
    rest = constraint.term.without(TupleVar(name))
    return (True, -rest.floor(factor)) if factor > 0 else (False, rest.floor(-factor))


def eliminated(constraints: Iterable[Constraint], names: Collection[str]) -> tuple[Constraint, ...]:
    """Constraints that follow for the other variables; see above for what they are good for."""
    found = Conj.of(constraints).constraints
    for name in names:
        if len(found) > _MOST:
            break
        found = Conj.of(_without(found, name)).constraints
    return tuple(c for c in found if not variables(c.term) & set(names))


def _without(constraints: Iterable[Constraint], name: str) -> Iterable[Constraint]:
    var = TupleVar(name)
    usable = [c for c in constraints if name in variables(c.term) and is_bare(c.term, name)]
    kept = [c for c in constraints if name not in variables(c.term)]
    equal = next((c for c in usable if c.is_equality and abs(c.term.coefficient(var)) == 1), None)
    if equal is not None:
        factor = equal.term.coefficient(var)
        value = equal.term.without(var) * -factor
        # A value may be put under functions as well.
        return [c.substitute({var: value}) for c in constraints if c is not equal]
    sides: list[list[Term]] = [[], []]
    for constraint in usable:
        terms = [constraint.term, *([-constraint.term] if constraint.is_equality else [])]
        for term in terms:
            sides[term.coefficient(var) < 0].append(term)
    for low, high in product(*sides):
        total = low * -high.coefficient(var) + high * low.coefficient(var)
        kept.append(Constraint.ge(total))
    return kept


def unrounded(constraint: Constraint, names: Collection[str]) -> tuple[Constraint, ...]:
    """The same constraint without a floor over the named variables, where that can be said.

    floor(x / b) >= r is x >= b*r, and floor(x / b) <= r is x < b*r + b.
    """
    for atom, factor in constraint.term.terms:
        if not isinstance(atom, Floor) or abs(factor) != 1:
            continue
        if variables(Term.of(atom)).isdisjoint(names):
            continue
        low = constraint.term.without(atom) * -factor * atom.by  # b*r
        above, below = Constraint.ge(atom.x, low), Constraint.lt(atom.x, low + atom.by)
        if constraint.is_equality:
            return above, below
        return (above,) if factor > 0 else (below,)
    return (constraint,)


_MOST_PIECES = 64


@dataclass(frozen=True)
class VariableDefinition:
    """The value that an equality gives to a variable of a piece."""

    name: str
    value: Term  # rounded down where the equality has a factor at the variable
    is_exact: bool  # False: the equality stays as a test


@dataclass(frozen=True)
class Piece:
    """A part of a statement, inside some loops."""

    stmt: Stmt
    number: int  # in textual order
    times: tuple[Term, ...]  # entries of the schedule that are still ahead
    waiting: tuple[Constraint, ...]  # not established yet
    unknown: tuple[str, ...]  # variables without a value
    values: tuple[tuple[str, Term], ...]  # of the domain's variables, in names of the nest
    loop: int = 0  # number of loops of the schedule generated so far

    @property
    def time(self) -> Term:
        """The next entry of the schedule."""
        return self.times[0] if self.times else Term.of(0)

    def put(self, values: Mapping[Atom, Term]) -> Piece:
        """The piece with terms in place of atoms."""
        return replace(
            self,
            times=tuple(substitute(entry, values) for entry in self.times),
            waiting=_merged(c.substitute(values) for c in self.waiting),
            unknown=tuple(name for name in self.unknown if TupleVar(name) not in values),
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

    def definitions(self, known: frozenset[str]) -> Iterator[VariableDefinition]:
        """Variables that an equality gives as functions of known ones."""
        for constraint in self.waiting:
            if not constraint.is_equality:
                continue
            unknown = variables(constraint.term) - known
            if len(unknown) != 1:
                continue
            name = next(iter(unknown))
            factor = constraint.term.coefficient(TupleVar(name))
            if not factor or not is_bare(constraint.term, name):
                continue
            rest = constraint.term.without(TupleVar(name)) * (-1 if factor > 0 else 1)
            yield VariableDefinition(name, rest.floor(abs(factor)), abs(factor) == 1)

    def at_time(self, time: str) -> Piece:
        """The piece with its next entry of the schedule called `time`, one loop further."""
        moved = replace(self, times=self.times[1:], loop=self.loop + 1)
        entry = self.time
        atom = entry.atom
        if isinstance(atom, TupleVar) and atom.name in self.unknown:
            return moved.put({atom: Term.of(TupleVar(time))})
        for name in self.unknown:
            factor = entry.coefficient(TupleVar(name))
            if abs(factor) == 1 and is_bare(entry, name):
                rest = entry.without(TupleVar(name))
                if variables(rest).isdisjoint(self.unknown):
                    return moved.put({TupleVar(name): (Term.of(TupleVar(time)) - rest) * factor})
        equal = unrounded(Constraint.eq(TupleVar(time), entry), self.unknown)
        more = tuple(c for c in equal if c not in moved.waiting)
        return replace(moved, waiting=(*moved.waiting, *more))


def call_depth(term: Term) -> int:
    """How many calls stand inside each other at most."""
    depth = 0
    for atom in atoms(term):
        if isinstance(atom, UFCall):
            depth = max(depth, 1 + max(map(call_depth, atom.args), default=0))
    return depth


def pieces_of(computation: Computation) -> tuple[Piece, ...]:
    """The pieces of all statements; those of one statement do not overlap."""
    found: list[Piece] = []
    for stmt in computation.statements:
        for conj in _disjoint(stmt):
            number = len(found)
            names = {name: f"{name}@{number}" for name in (*stmt.variables, *conj.exists)}
            put: dict[Atom, Term] = {TupleVar(a): Term.of(TupleVar(b)) for a, b in names.items()}
            found.append(
                Piece(
                    stmt,
                    number,
                    tuple(substitute(entry, put) for entry in stmt.schedule),
                    _merged(c.substitute(put) for c in conj.constraints),
                    tuple(names.values()),
                    tuple((name, Term.of(TupleVar(names[name]))) for name in stmt.variables),
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


@dataclass(frozen=True)
class ScanRange:
    """max(lows) <= t <= min(highs), or the hull of several such ranges."""

    lows: tuple[Term, ...]
    highs: tuple[Term, ...]
    established: tuple[Constraint, ...]  # constraints of the pieces that the loop establishes
    others: tuple[ScanRange, ...] = ()  # further ranges of which this is the hull

    def start(self, spaces: Spaces) -> Expr:
        parts = [_extremum("max", part.lows, spaces) for part in (self, *self.others)]
        return _fold("min", parts)

    def stop(self, spaces: Spaces) -> Expr:
        """The first integer beyond the range."""
        parts = [
            _extremum("min", tuple(high + 1 for high in part.highs), spaces)
            for part in (self, *self.others)
        ]
        return _fold("max", parts)


def range_of(
    piece: Piece, name: str, known: frozenset[str], context: KnownConstraints
) -> ScanRange:
    """The bounds that a piece sets to a variable by known ones.

    Where no constraint does so directly, variables that have no value yet are eliminated.
    """
    direct = [c for c in piece.waiting if is_bound(c, name, known)]
    equal = [c for c in direct if c.is_equality]
    if equal:
        return _equal(equal[0], name)
    direct = _needed(direct, name, context)
    lows, highs = _sides(direct, name)
    if not lows or not highs:
        more = _derived(piece, name, known)
        lows, highs = lows or more[0], highs or more[1]
    # What the others imply need not be tested either.
    gone = [c for c in piece.waiting if is_bound(c, name, known)]
    return ScanRange(lows, highs, tuple(gone))


def has_constant_bounds(piece: Piece, name: str, known: frozenset[str]) -> bool:
    """Whether all direct bounds of a variable are numbers, on both sides."""
    direct = [c for c in piece.waiting if is_bound(c, name, known)]
    if any(c.is_equality or len(c.term.terms) > 1 for c in direct):
        return False
    return len({c.term.coefficient(TupleVar(name)) > 0 for c in direct}) == 2


def hull(ranges: Sequence[ScanRange]) -> ScanRange:
    """One range that covers all; it establishes the constraints that they have in common."""
    first, *others = dict.fromkeys(ranges)
    if not others:
        return first
    common = [c for c in first.established if all(c in other.established for other in others)]
    return ScanRange(first.lows, first.highs, tuple(common), tuple(others))


def _equal(constraint: Constraint, name: str) -> ScanRange:
    """The single value of an equality; with a factor at the variable it stays as a test."""
    factor = constraint.term.coefficient(TupleVar(name))
    rest = constraint.term.without(TupleVar(name)) * (-1 if factor > 0 else 1)
    value = rest.floor(abs(factor))
    return ScanRange((value,), (value,), (constraint,) if abs(factor) == 1 else ())


def _needed(
    constraints: list[Constraint], name: str, context: KnownConstraints
) -> list[Constraint]:
    """Constraints of which none follows from the others of its side; those without calls go first.

    A side with one bound keeps it: only contradictory facts could imply it.
    """
    kept = sorted(constraints, key=lambda c: (len(c.term.terms), str(c)))
    for constraint in list(kept):
        is_low = constraint.term.coefficient(TupleVar(name)) > 0
        side = [c for c in kept if (c.term.coefficient(TupleVar(name)) > 0) == is_low]
        if len(side) < 2:
            continue
        others = [c for c in kept if c is not constraint]
        if context.also(*others).implies(constraint):
            kept = others
    return kept


def _derived(
    piece: Piece, name: str, known: frozenset[str]
) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    waiting = [part for c in piece.waiting for part in unrounded(c, (*piece.unknown, name))]
    hidden = {v for c in waiting for v in variables(c.term)} - known - {name}
    found = [c for c in eliminated(waiting, sorted(hidden)) if is_bound(c, name, known)]
    return _sides(found, name)


def _sides(
    constraints: Sequence[Constraint], name: str
) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    sides: tuple[list[Term], list[Term]] = ([], [])
    for constraint in constraints:
        terms = [constraint.term, *([-constraint.term] if constraint.is_equality else [])]
        for term in terms:
            is_low, value = bound(Constraint.ge(term), name)
            sides[0 if is_low else 1].append(value)
    return tuple(dict.fromkeys(sides[0])), tuple(dict.fromkeys(sides[1]))


def _extremum(op: str, bounds: tuple[Term, ...], spaces: Spaces) -> Expr:
    return _fold(op, [as_expr(value, spaces) for value in bounds])


def _fold(op: str, parts: Sequence[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = result.min(part) if op == "min" else result.max(part)
    return result
