"""The range of a loop: bounds of its variable for one piece, and the hull for several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.ir.expr import Expr
from loopwright.sparse.spf.bodies import Spaces, as_expr
from loopwright.sparse.spf.bounds import bound, eliminated, is_bound, unrounded
from loopwright.sparse.spf.implied import Known
from loopwright.sparse.spf.pieces import Piece
from loopwright.sparse.uf import Constraint, Linear, Var, variables

__all__ = ["Range", "has_constant_bounds", "hull", "range_of"]


@dataclass(frozen=True)
class Range:
    """max(lows) <= t <= min(highs), or the hull of several such ranges."""

    lows: tuple[Linear, ...]
    highs: tuple[Linear, ...]
    established: tuple[Constraint, ...]  # constraints of the pieces that the loop sees to
    others: tuple[Range, ...] = ()  # of which this is the hull, beside itself

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


def range_of(piece: Piece, name: str, known: frozenset[str], context: Known) -> Range:
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
    return Range(lows, highs, tuple(gone))


def has_constant_bounds(piece: Piece, name: str, known: frozenset[str]) -> bool:
    """Whether all direct bounds of a variable are numbers, on both sides."""
    direct = [c for c in piece.waiting if is_bound(c, name, known)]
    if any(c.is_equality or len(c.term.terms) > 1 for c in direct):
        return False
    return len({c.term.coefficient(Var(name)) > 0 for c in direct}) == 2


def hull(ranges: Sequence[Range]) -> Range:
    """One range that covers all; it sees to the constraints that they have in common."""
    first, *others = dict.fromkeys(ranges)
    if not others:
        return first
    common = [c for c in first.established if all(c in other.established for other in others)]
    return Range(first.lows, first.highs, tuple(common), tuple(others))


def _equal(constraint: Constraint, name: str) -> Range:
    """The single value of an equality; with a factor at the variable it stays as a test."""
    factor = constraint.term.coefficient(Var(name))
    rest = constraint.term.without(Var(name)) * (-1 if factor > 0 else 1)
    value = rest.floor(abs(factor))
    return Range((value,), (value,), (constraint,) if abs(factor) == 1 else ())


def _needed(constraints: list[Constraint], name: str, context: Known) -> list[Constraint]:
    """Constraints of which none follows from the others of its side; those without calls go first.

    A side with one bound is not looked at: it would go for facts that contradict each other only.
    """
    kept = sorted(constraints, key=lambda c: (len(c.term.terms), str(c)))
    for constraint in list(kept):
        is_low = constraint.term.coefficient(Var(name)) > 0
        side = [c for c in kept if (c.term.coefficient(Var(name)) > 0) == is_low]
        if len(side) < 2:
            continue
        others = [c for c in kept if c is not constraint]
        if context.also(*others).implies(constraint):
            kept = others
    return kept


def _derived(
    piece: Piece, name: str, known: frozenset[str]
) -> tuple[tuple[Linear, ...], tuple[Linear, ...]]:
    waiting = [part for c in piece.waiting for part in unrounded(c, (*piece.unknown, name))]
    hidden = {v for c in waiting for v in variables(c.term)} - known - {name}
    found = [c for c in eliminated(waiting, sorted(hidden)) if is_bound(c, name, known)]
    return _sides(found, name)


def _sides(
    constraints: Sequence[Constraint], name: str
) -> tuple[tuple[Linear, ...], tuple[Linear, ...]]:
    sides: tuple[list[Linear], list[Linear]] = ([], [])
    for constraint in constraints:
        terms = [constraint.term, *([-constraint.term] if constraint.is_equality else [])]
        for term in terms:
            is_low, value = bound(Constraint.ge(term), name)
            sides[0 if is_low else 1].append(value)
    return tuple(dict.fromkeys(sides[0])), tuple(dict.fromkeys(sides[1]))


def _extremum(op: str, bounds: tuple[Linear, ...], spaces: Spaces) -> Expr:
    return _fold(op, [as_expr(value, spaces) for value in bounds])


def _fold(op: str, parts: Sequence[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = result.min(part) if op == "min" else result.max(part)
    return result
