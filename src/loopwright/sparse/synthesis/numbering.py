"""Tuples that are numbered by one of their variables: entry k of all is the tuple that holds k.

A list has one tuple for each 0 <= n < NNZ. Under pointers it is the innermost variable that counts:

    0 <= x < N,  ptr(x) <= k < ptr(x+1),  ptr(0) = 0,  ptr(N) = M

has one k for each of 0 .. M-1, in order, for pointers ascend; and so on, level by level. That holds
only where no other constraint of the map leaves tuples out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopwright.sparse.format import Format
from loopwright.sparse.promises import loop_facts
from loopwright.sparse.uf import (
    Atom,
    Call,
    Conj,
    Constraint,
    IntegerSet,
    Linear,
    Var,
    calls,
    substitute,
    variables,
)

__all__ = ["Numbering", "numbered", "told_by"]

_ZERO = Linear.of(0)
_CURVES = ("MORTON", "ALTO")


@dataclass(frozen=True)
class Numbering:
    """The number of a tuple among all in their order, and how many there are."""

    number: Linear
    total: Linear


def numbered(format: Format, domain: IntegerSet) -> Numbering | None:
    """The numbering of the tuples of a format, `domain`, where it is a variable of theirs."""
    conj = domain.conjs[0]
    inequalities = {c for c in conj.constraints if not c.is_equality}
    known: set[Constraint] = set()  # of the tuples that are numbered
    defined: dict[Atom, Linear] = {}  # by the variables of the levels
    last: Linear | None = None  # the variable that numbers the tuples of the levels so far
    total = _ZERO
    for name in domain.variables:
        x = Linear.of(Var(name))
        if definition := _definition(conj.equalities, name, domain):
            known.add(definition)
            factor = definition.term.coefficient(Var(name))
            defined[Var(name)] = definition.term.without(Var(name)) * -factor
            continue
        if last is None:
            above, bounds = _symbolic_end(inequalities, x, name)
        else:
            above, bounds = _segment(format, inequalities, x, last, total)
        if above is None or not inequalities.issuperset(bounds):
            return None
        known |= {*bounds, Constraint.ge(x), Constraint.lt(x, above)}
        last, total = x, above
    if last is None or not _are_implied(set(conj.constraints) - known, known, defined, format):
        return None
    return Numbering(last, total)


def told_by(number: str, domain: IntegerSet) -> dict[Atom, Linear]:
    """Variables of a domain as terms of one of them."""
    found: dict[Atom, Linear] = {}
    for name in domain.variables:
        for constraint in domain.conjs[0].equalities:
            factor = constraint.term.coefficient(Var(name))
            rest = substitute(constraint.term.without(Var(name)), found)
            if name != number and abs(factor) == 1 and variables(rest) <= {number}:
                found.setdefault(Var(name), rest * -factor)
    return found


def _definition(
    equalities: tuple[Constraint, ...], name: str, domain: IntegerSet
) -> Constraint | None:
    """An equality that makes a variable a term of those before it."""
    before = {*domain.variables[: domain.variables.index(name)]}
    for constraint in equalities:
        rest = constraint.term.without(Var(name))
        if abs(constraint.term.coefficient(Var(name))) == 1 and variables(rest) <= before:
            return constraint
    return None


def _symbolic_end(
    inequalities: set[Constraint], x: Linear, name: str
) -> tuple[Linear | None, tuple[Constraint, ...]]:
    """n and the bounds 0 <= x < n, where some constraint says x < n, a term without variables."""
    for constraint in inequalities:
        end = constraint.term + x + 1
        if constraint.term.coefficient(Var(name)) == -1 and not variables(end):
            return end, (Constraint.ge(x), constraint)
    return None, ()


def _segment(
    format: Format, inequalities: set[Constraint], x: Linear, parent: Linear, count: Linear
) -> tuple[Linear | None, tuple[Constraint, ...]]:
    """The bounds ptr(parent) <= x < ptr(parent+1), and the ptr(count) where that is promised."""
    for index in format.indices:
        if index.rank != 1 or not index.monotone.endswith("increasing"):
            continue
        first, after = (Linear.of(Call(index.name, (at,))) for at in (parent, parent + 1))
        bounds = Constraint.ge(x, first), Constraint.lt(x, after)
        if not inequalities.issuperset(bounds):
            continue
        promised = [
            conj.constraints
            for rule in format.rules
            if not rule.variables
            for conj in rule.conclusion[:1]
        ]
        plain = {c for constraints in promised for c in constraints}
        begins = Constraint.eq(Call(index.name, (_ZERO,)))
        end = Call(index.name, (count,))
        ends = [c.term for c in plain if c.is_equality and abs(c.term.coefficient(end)) == 1]
        if begins in plain and ends:
            return ends[0].without(end) * -ends[0].coefficient(end), bounds
    return None, ()


def _are_implied(
    others: set[Constraint], known: set[Constraint], defined: Mapping[Atom, Linear], format: Format
) -> bool:
    """Whether constraints leave out no tuple, by what is known and what the format promises.

    A promise speaks of tuples where it uses their variables.
    """
    given = set(known)
    for rule in format.rules:
        if all(given.issuperset(conj.constraints) for conj in rule.premise):
            given.update(c for conj in rule.conclusion[:1] for c in conj.constraints)
    plain = [c.substitute(defined) for c in others]
    left = [c for c in plain if c not in given and not _is_promised(c, format)]
    if not left:
        return True
    from loopwright.sparse.uf.oracle import implies  # lazy: isl, which formats of ours do not need

    return implies(Conj.of(given), left, loop_facts(format))


def _is_promised(constraint: Constraint, format: Format) -> bool:
    """Whether ranges of index arrays say it: in so many words, or as a sum of natural numbers."""
    term = constraint.term
    if constraint.is_equality:
        return False
    is_sum = term.constant >= 0 and all(factor > 0 for _, factor in term.terms)
    if is_sum and all(_is_natural(atom, format) for atom, _ in term.terms):
        return True
    return any(constraint == said for call in calls(term) for said in _said_of(call, format))


def _is_natural(atom: Atom, format: Format) -> bool:
    """Whether an element or a number along a curve is never negative."""
    if not isinstance(atom, Call):
        return False
    return atom.name.startswith(_CURVES) or Constraint.ge(atom) in _said_of(atom, format)


def _said_of(call: Call, format: Format) -> tuple[Constraint, ...]:
    """The range of an index array, of one of its elements."""
    for index in format.indices:
        if index.name == call.name and len(index.range.conjs) == 1:
            (name,) = index.range.variables
            where: dict[Atom, Linear] = {Var(name): Linear.of(call)}
            return tuple(c.substitute(where) for c in index.range.conjs[0].constraints)
    return ()
