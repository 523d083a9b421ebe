"""What holds at a place of a loop nest, and what follows from it: a cheap and sound test.

Nested loops establish constraints one after the other. A further one is implied if it is a sum of
known ones with positive factors: L >= 0 follows from K >= 0 if L - m*K >= 0 does. Rules about the
functions that are called take part once their premises are implied. No answer but "yes" is final:
isl is not asked here, because a scanner asks often.
"""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once
from loopwright.sparse.uf import (
    NO_FACTS,
    Atom,
    Clause,
    Constraint,
    Facts,
    Floor,
    Term,
    UFCall,
    atoms,
)
from loopwright.sparse.uf.ackermann import instances

__all__ = ["KnownConstraints"]

_DEPTH = 5  # constraints that one proof may add up
_STEPS = 500  # sums that one proof may try
_ROUNDS = 2  # rules whose premises need other rules


@dataclass(frozen=True)
class KnownConstraints:
    """Constraints that hold, and facts about the functions in them."""

    constraints: tuple[Constraint, ...] = ()
    facts: Facts = NO_FACTS

    def also(self, *more: Constraint) -> KnownConstraints:
        """This and more constraints."""
        new = tuple(c for c in more if c not in self.constraints and not c.is_true)
        return KnownConstraints((*self.constraints, *new), self.facts) if new else self

    def implies(self, constraint: Constraint) -> bool:
        """Whether a constraint follows; False may also mean that no proof was found."""
        if constraint.is_true:
            return True
        if constraint in self.constraints:
            return True
        base = self._base
        inside = tuple(atoms(constraint.term))
        if any(isinstance(atom, UFCall | Floor) for atom in inside):
            base = _with_rules((*base, *_rounding(inside)), self.facts, inside)
        terms = [constraint.term]
        if constraint.is_equality:
            terms.append(-constraint.term)
        return all(_follows(term, base) for term in terms)

    @computed_once
    def _base(self) -> tuple[Term, ...]:
        """Terms that are not negative."""
        present = tuple(dict.fromkeys(a for c in self.constraints for a in atoms(c.term)))
        sums = (*_nonnegative(self.constraints), *_rounding(present))
        return _with_rules(sums, self.facts, present)


def _nonnegative(constraints: Iterable[Constraint]) -> tuple[Term, ...]:
    found: dict[Term, None] = {}
    for constraint in constraints:
        found[constraint.term] = None
        if constraint.is_equality:
            found[-constraint.term] = None
    return tuple(found)


def _rounding(present: Iterable[Atom]) -> tuple[Term, ...]:
    """b*floor(x / b) <= x < b*floor(x / b) + b"""
    found: list[Term] = []
    for atom in present:
        if isinstance(atom, Floor):
            gap = atom.x - atom.by * atom
            found += [gap, atom.by - 1 - gap]
    return tuple(found)


def _with_rules(base: tuple[Term, ...], facts: Facts, present: Iterable[Atom]) -> tuple[Term, ...]:
    """`base` and what the rules say of the calls that are present."""
    if not facts.rules:
        return base
    waiting = [clause for clause in instances(facts, present, 0) if len(clause.conclusions) == 1]
    for _ in range(_ROUNDS):
        ready = [clause for clause in waiting if _holds(clause, base)]
        if not ready:
            break
        ends = [end for clause in ready for end in clause.conclusions[0]]
        base = tuple(dict.fromkeys((*base, *_nonnegative(ends))))
        waiting = [clause for clause in waiting if clause not in ready]
    return base


def _holds(clause: Clause, base: tuple[Term, ...]) -> bool:
    return all(
        _follows(term, base)
        for premise in clause.premises
        for term in ((premise.term, -premise.term) if premise.is_equality else (premise.term,))
    )


def _follows(term: Term, base: tuple[Term, ...]) -> bool:
    """Whether term >= 0, as a sum of a few terms of the base; found by search, breadth first."""
    waiting = [term]
    seen = {term}
    for _ in range(_DEPTH + 1):
        found: list[Term] = []
        for left in waiting:
            if left.is_constant:
                if left.constant >= 0:
                    return True
                continue
            atom, factor = left.terms[0]
            for known in base:
                other = known.coefficient(atom)
                if other * factor <= 0 or factor % other:
                    continue
                less = left - known * (factor // other)
                if less not in seen:
                    seen.add(less)
                    found.append(less)
                if len(seen) > _STEPS:
                    return False
        waiting = found
    return False
