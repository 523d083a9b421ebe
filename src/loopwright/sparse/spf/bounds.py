"""Bounds of one variable: from constraints that name it, or by eliminating other variables.

    a*t + r >= 0  with a > 0   is   t >= -floor(r / a)
    a*t + r >= 0  with a < 0   is   t <= floor(r / -a)

Eliminating a variable (Fourier and Motzkin) keeps what follows for the others over the rationals.
That may be less than what holds: good for the range of a loop whose body tests the constraints
again, for nothing else. Constraints that have the variable under a function are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import product

from loopwright.sparse.uf import Conj, Constraint, Floor, Linear, Var, variables

__all__ = ["bound", "eliminated", "is_bare", "is_bound", "unrounded"]

_MOST = 200  # constraints; beyond that no further variable is eliminated


def is_bare(term: Linear, name: str) -> bool:
    """Whether a variable does not stand inside the atoms of a term."""
    return name not in variables(term.without(Var(name)))


def is_bound(constraint: Constraint, name: str, known: Collection[str]) -> bool:
    """Whether a constraint bounds a variable by known ones."""
    if not constraint.term.coefficient(Var(name)):
        return False
    return variables(constraint.term.without(Var(name))) <= set(known) - {name}


def bound(constraint: Constraint, name: str) -> tuple[bool, Linear]:
    """Whether an inequality bounds a variable from below, and the bound, which is inclusive."""
    factor = constraint.term.coefficient(Var(name))
    rest = constraint.term.without(Var(name))
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
    var = Var(name)
    usable = [c for c in constraints if name in variables(c.term) and is_bare(c.term, name)]
    kept = [c for c in constraints if name not in variables(c.term)]
    equal = next((c for c in usable if c.is_equality and abs(c.term.coefficient(var)) == 1), None)
    if equal is not None:
        factor = equal.term.coefficient(var)
        value = equal.term.without(var) * -factor
        # A value may be put under functions as well.
        return [c.substitute({var: value}) for c in constraints if c is not equal]
    sides: list[list[Linear]] = [[], []]
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
        if variables(Linear.of(atom)).isdisjoint(names):
            continue
        low = constraint.term.without(atom) * -factor * atom.by  # b*r
        above, below = Constraint.ge(atom.x, low), Constraint.lt(atom.x, low + atom.by)
        if constraint.is_equality:
            return above, below
        return (above,) if factor > 0 else (below,)
    return (constraint,)
