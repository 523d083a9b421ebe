"""Properties of relations that the oracle proves: functions, injections, what can be left out.

An answer of True is a proof for all functions that obey the facts; False says that no proof was
found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from loopwright.sparse.uf.axioms import NO_FACTS, Facts
from loopwright.sparse.uf.constraints import Conj, Constraint, conjoin, fresh
from loopwright.sparse.uf.linear_terms import TupleVar, UFCall, calls
from loopwright.sparse.uf.oracle import implies, is_empty
from loopwright.sparse.uf.relation import IntegerSet, Relation
from loopwright.sparse.uf.relation_algebra import inverse, renamed
from loopwright.sparse.uf.solve import definition

__all__ = [
    "ambiguities",
    "calls_outside",
    "is_function",
    "is_injective",
    "is_subset",
    "simplify",
]

R = TypeVar("R", Relation, IntegerSet)


def is_function(relation: Relation, facts: Facts = NO_FACTS) -> bool:
    """Whether an input has at most one output: two of them that differ are impossible."""
    if len(relation.conjs) == 1 and _is_explicit(relation):
        return True
    return all(is_empty(conj, facts) for conj in ambiguities(relation))


def is_injective(relation: Relation, facts: Facts = NO_FACTS) -> bool:
    """Whether an output has at most one input."""
    return is_function(inverse(relation), facts)


def ambiguities(relation: Relation) -> Iterator[Conj]:
    """Conjunctions of which one holds somewhere exactly if some input has two outputs.

    The second output has names of its own; a witness of one of them is a counter-example.
    """
    taken = {*relation.variables}
    for conj in relation.conjs:
        taken |= conj.variables | conj.symbols
    others: list[str] = []
    for name in relation.outputs:
        others.append(fresh(name, taken))
        taken.add(others[-1])
    second = renamed(relation, (*relation.inputs, *others))
    for at, x in enumerate(relation.conjs):
        for y in second.conjs[at:]:
            both = conjoin(x, y, (*relation.variables, *others))
            for one, other in zip(relation.outputs, others, strict=True):
                yield both.conjoined([Constraint.lt(TupleVar(one), TupleVar(other))])
                # Two outputs of one conjunction can change places.
                if y is not second.conjs[at]:
                    yield both.conjoined([Constraint.gt(TupleVar(one), TupleVar(other))])


def is_subset(x: R, y: R, facts: Facts = NO_FACTS) -> bool:
    """Whether all of x is proved to lie in y: each conjunction of x in one conjunction of y."""
    other = renamed(y, x.variables)
    return all(
        is_empty(conj, facts)
        or any(not into.exists and implies(conj, into.constraints, facts) for into in other.conjs)
        for conj in x.conjs
    )


def calls_outside(of: Relation | IntegerSet, facts: Facts) -> tuple[UFCall, ...]:
    """Calls that are not proved to have arguments in the declared domain of their function.

    Constraints on calls of the same function prove nothing here: to test them, the
    function has to be evaluated.
    """
    found: dict[UFCall, None] = {}
    for conj in of.conjs:
        for call in conj.calls:
            function = facts.function(call.name)
            if function is None or len(call.args) != function.arity:
                continue
            rest = Conj.of(
                (c for c in conj.constraints if call.name not in _functions(c)), conj.exists
            )
            cases = function.in_domain(call.args)
            if not any(implies(rest, case.constraints, facts) for case in cases):
                found[call] = None
    return tuple(found)


def simplify(of: R, facts: Facts = NO_FACTS) -> R:
    """The same without empty conjunctions, and without constraints that follow from the others."""
    conjs = [_simplified(conj, facts) for conj in of.conjs if not is_empty(conj, facts)]
    if isinstance(of, Relation):
        return of.with_conjs(conjs)
    return of.with_conjs(conjs)


def _functions(constraint: Constraint) -> set[str]:
    return {call.name for call in calls(constraint.term)}


def _simplified(conj: Conj, facts: Facts) -> Conj:
    # Inequalities go first: what is left reads as definitions and their bounds. Constraints with
    # long texts are tried before short ones.
    order = sorted(conj.constraints, key=lambda c: (c.is_equality, -len(str(c))))
    for constraint in order:
        rest = Conj.of((c for c in conj.constraints if c != constraint), conj.exists)
        is_kept = set(rest.exists) == set(conj.exists)
        if is_kept and implies(rest, constraint, facts):
            conj = rest
    return conj


def _is_explicit(relation: Relation) -> bool:
    """Whether equalities define every output by the inputs, syntactically."""
    known = set(relation.inputs)
    conj = relation.conjs[0]
    left = list(relation.outputs)
    while left:
        ready = next((name for name in left if definition(conj, name, known) is not None), None)
        if ready is None:
            return False
        left.remove(ready)
        known.add(ready)
    return True
