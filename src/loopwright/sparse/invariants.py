"""The invariants of a format as axioms of the algebra, for proofs about its index arrays.

A format states order between adjacent elements, which is quick to check:

    forall x,k: rowptr(x) <= k < rowptr(x+1)-1 => col(k) < col(k+1)

A proof needs it between any two, which follows by induction over the interval:

    forall x,k,k_1: rowptr(x) <= k < k_1 < rowptr(x+1) => col(k_1) - col(k) >= k_1 - k
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from .format import Format, Index
from .uf import Atom, Constraint, Sym, Term, TupleVar, fresh, substitute, symbols, variables
from .uf.axioms import Clause, Facts, FunctionFacts, Monotone, Rule, parse_rules

__all__ = ["facts_of", "loop_facts"]


@lru_cache(maxsize=256)
def facts_of(format: Format) -> Facts:
    """Domain, range, growth and inverse of each index array, the invariants, and sizes >= 0."""
    defined = (Constraint.eq(Sym(name), term) for name, term in format.defined)
    return Facts(
        tuple(map(_function, format.indices)),
        tuple(
            _pairwise(rule) for promise in format.invariants for rule in parse_rules(promise.text)
        ),
        (*_sizes(format), *defined),
    )


def loop_facts(format: Format) -> Facts:
    """The facts that loop generation needs: each index array by itself, and sizes >= 0.

    An inverse is left out, for it is no array that a loop could read.
    """
    functions = (replace(_function(index), inverse=None) for index in format.indices)
    return Facts(tuple(functions), (), _sizes(format))


def _sizes(format: Format) -> tuple[Constraint, ...]:
    names = (*format.sizes, *(name for name, _ in format.defined), *format.counts)
    return tuple(Constraint.ge(Sym(name)) for name in names)


def _function(index: Index) -> FunctionFacts:
    growth: tuple[Monotone, ...] = ()
    if index.monotone:
        growth = (Monotone(index.rank - 1, "increasing" in index.monotone, index.is_strict),)
    return FunctionFacts(
        index.name,
        arity=index.rank,
        domain=index.domain,
        range=index.range,
        monotone=growth,
        inverse=index.inverse or None,
        width=8 * np.dtype(index.dtype).itemsize if index.dtype else None,
    )


def _pairwise(rule: Rule) -> Rule:
    """A rule between adjacent elements as one between any two of an interval; others unchanged."""
    ends = rule.clause.conclusions
    if len(ends) != 1 or len(ends[0]) != 1 or ends[0][0].is_equality:
        return rule
    for name in rule.variables:
        found = _extended(rule, ends[0][0].term, name)
        if found is not None:
            return found
    return rule


def _extended(rule: Rule, term: Term, name: str) -> Rule | None:
    """The rule with a second variable in place of name+1, where term = T(name+1) - T(name) - c.

    The premises must bound `name` alone, so that with two numbers all between them fulfil them.
    """
    this, other = TupleVar(name), TupleVar(fresh(name, (*rule.variables, *_symbols(rule))))
    after = Term(tuple((a, f) for a, f in term.terms if f > 0))
    before = Term(tuple((a, -f) for a, f in term.terms if f < 0))
    if name not in variables(before) or substitute(before, {this: Term.of(this) + 1}) != after:
        return None
    if term.constant > 0:
        return None  # T may fall by a constant: a bound on the sum of steps, which nobody needs
    premises = [Constraint.lt(this, other)]
    for premise in rule.clause.premises:
        factor = premise.term.coefficient(this)
        if name in variables(premise.term.without(this)) or (factor and premise.is_equality):
            return None
        # A lower bound holds for what follows; an upper one must hold up to the last pair.
        last: dict[Atom, Term] = {this: Term.of(other) - 1}
        premises.append(premise.substitute(last) if factor < 0 else premise)
    growth = substitute(before, {this: Term.of(other)}) - before
    least = (Term.of(other) - this) * -term.constant
    clause = Clause(tuple(premises), ((Constraint.ge(growth, least),),))
    return Rule((*rule.variables, other.name), clause, quick=rule)


def _symbols(rule: Rule) -> set[str]:
    """The names that a rule uses for symbolic constants."""
    constraints = (*rule.clause.premises, *(c for end in rule.clause.conclusions for c in end))
    return {name for c in constraints for name in symbols(c.term)}
