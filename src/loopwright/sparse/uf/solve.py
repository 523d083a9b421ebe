"""Solving constraints for one atom, and removing variables that equalities define."""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.uf.axioms import NO_FACTS, Facts
from loopwright.sparse.uf.constraints import Conj, Constraint
from loopwright.sparse.uf.linear_terms import Atom, AtomProduct, Term, TupleVar, UFCall, atoms

__all__ = ["Isolated", "definition", "eliminate_defined", "isolate", "solve_for", "without_defined"]


@dataclass(frozen=True)
class Isolated:
    """`atom sign rest` with sign =, <= or >=, where the atom does not occur in the rest."""

    atom: Atom
    sign: str
    rest: Term

    def __str__(self) -> str:
        return f"{self.atom} {self.sign} {self.rest}"


def isolate(constraint: Constraint, atom: Atom) -> Isolated | None:
    """The constraint with `atom` alone on the left; None where that cannot be written.

    c*a <= r is a <= floor(r/c), c*a >= r is a >= ceil(r/c); c*a = r is solved for c = 1 only,
    because elsewhere it says more than the value of a.
    """
    factor = constraint.term.coefficient(atom)
    rest = constraint.term.without(atom)
    if factor == 0 or atom in atoms(rest):
        return None
    if constraint.is_equality:
        return Isolated(atom, "=", rest * -factor) if factor in (1, -1) else None
    # factor*a + rest >= 0
    if factor > 0:
        return Isolated(atom, ">=", -rest.floor(factor))
    return Isolated(atom, "<=", rest.floor(-factor))


def solve_for(constraint: Constraint, atom: Atom, facts: Facts = NO_FACTS) -> Term | None:
    """The term that `atom` equals by an equality; None where there is no such term.

    An atom that stands under a function with a known inverse is found too: f(a + 1) = r gives
    a = g(r) - 1. That holds where a + 1 lies in the domain of f, which the caller has to know.
    """
    if not constraint.is_equality:
        return None
    found = isolate(constraint, atom)
    if found is not None:
        return found.rest
    around = [
        (outer, factor) for outer, factor in constraint.term.terms if atom in atoms(Term.of(outer))
    ]
    if len(around) != 1 or around[0][1] not in (1, -1):
        return None
    outer, factor = around[0]
    if not isinstance(outer, UFCall) or len(outer.args) != 1 or outer.result:
        return None
    inverse = facts.inverse_of(outer.name)
    if inverse is None:
        return None
    value = constraint.term.without(outer) * -factor
    return solve_for(Constraint.eq(outer.args[0], UFCall(inverse, (value,))), atom, facts)


def definition(conj: Conj, name: str, known: Iterable[str] | None = None) -> Term | None:
    """What an equality says a variable is, in terms of the variables `known` (all others)."""
    allowed = None if known is None else set(known)
    found: list[Term] = []
    for constraint in conj.equalities:
        term = solve_for(constraint, TupleVar(name))
        if term is None:
            continue
        inside = {a.name for a in atoms(term) if isinstance(a, TupleVar)}
        if allowed is None or inside <= allowed:
            found.append(term)
    # The shortest one; among those the first text, so that the same question has one answer.
    return min(found, key=lambda term: (len(str(term)), str(term)), default=None)


def without_defined(conj: Conj) -> Conj:
    """The same conjunction without the variables that exist and are defined by an equality."""
    is_moving = True
    while is_moving:
        is_moving = False
        for name in conj.exists:
            term = definition(conj, name)
            if term is not None:
                conj = conj.substitute({TupleVar(name): term})
                is_moving = True
                break
    return conj


def eliminate_defined(conj: Conj) -> tuple[Conj, dict[str, Term]]:
    """The conjunction without any variable that an equality defines, and what each of them is.

    Values of the variables left, put in the order of the second from its end, give those of all.
    """
    gone: dict[str, Term] = {}
    while (found := _defined(conj)) is not None:
        name, term = found
        gone[name] = term
        conj = conj.substitute({TupleVar(name): term})
    return conj, gone


def _defined(conj: Conj) -> tuple[str, Term] | None:
    for constraint in conj.equalities:
        has_products = any(isinstance(atom, AtomProduct) for atom, _ in constraint.term.terms)
        for atom, factor in constraint.term.terms:
            if not isinstance(atom, TupleVar) or factor not in (1, -1):
                continue
            # BC*q + c in two equal forms tells more than each of them between bounds.
            if has_products and not _is_in_equalities_only(conj, atom):
                continue
            term = solve_for(constraint, atom)
            if term is not None:
                return atom.name, term
    return None


def _is_in_equalities_only(conj: Conj, atom: Atom) -> bool:
    return all(c.is_equality or atom not in atoms(c.term) for c in conj.constraints)
