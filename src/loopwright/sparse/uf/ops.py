"""Operations on relations and sets; every one is exact.

What cannot be said without a further variable is said with one that exists; `project` tells how
to be rid of it, or why that is impossible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from loopwright.diagnostics import UsageError
from loopwright.sparse.uf.conj import Conj, fresh, meet
from loopwright.sparse.uf.constraint import Constraint
from loopwright.sparse.uf.relation import IntegerSet, Relation
from loopwright.sparse.uf.solve import settled
from loopwright.sparse.uf.terms import Atom, Linear, Var

__all__ = [
    "apply",
    "compose",
    "domain_of",
    "identity",
    "intersect",
    "inverse",
    "range_of",
    "rename_apart",
    "renamed",
    "restrict_domain",
    "restrict_range",
    "substituted",
    "union",
]

R = TypeVar("R", Relation, IntegerSet)


def inverse(relation: Relation) -> Relation:
    """{ y -> x : relation(x, y) }"""
    return Relation(relation.outputs, relation.inputs, relation.conjs)


def identity(of: IntegerSet) -> Relation:
    """{ x -> x : x in the set }"""
    outputs: list[str] = []
    for name in of.variables:
        outputs.append(fresh(name, (*of.variables, *outputs, *_names(of.conjs))))
    whole = Relation(of.variables, tuple(outputs), of.conjs)
    pairs = [Constraint.eq(Var(x), Var(y)) for x, y in zip(of.variables, outputs, strict=True)]
    return whole.with_conjs(conj.conjoined(pairs) for conj in of.conjs)


def renamed(of: R, names: Sequence[str]) -> R:
    """The same with other names for all tuple variables, in order; what exists makes way."""
    _expect_length("the new names", len(names), "the tuples", len(of.variables))
    change = dict(zip(of.variables, names, strict=True))
    conjs = tuple(_with_names(conj, change) for conj in of.conjs)
    if isinstance(of, Relation):
        split = len(of.inputs)
        return Relation(tuple(names[:split]), tuple(names[split:]), conjs)
    return IntegerSet(tuple(names), conjs)


def _with_names(conj: Conj, change: Mapping[str, str]) -> Conj:
    taken = {*change.values(), *conj.symbols, *conj.exists}
    away: dict[str, str] = {}
    for name in conj.exists:
        if name in change.values():
            away[name] = fresh(name, taken)
            taken.add(away[name])
    return conj.rename({**change, **away})


def rename_apart(of: R, taken: Iterable[str]) -> R:
    """The same with tuple variables that have none of the taken names."""
    used = {*taken}
    names: list[str] = []
    others = set(of.variables) | _names(of.conjs)
    for name in of.variables:
        chosen = fresh(name, used | (others - {name}) | set(names)) if name in used else name
        names.append(chosen)
    return renamed(of, names)


def compose(outer: Relation, inner: Relation) -> Relation:
    """{ x -> z : there is y with inner(x, y) and outer(y, z) }

    Variables of y that an equality defines are replaced by their values; others exist.
    """
    _expect_length("the inner outputs", len(inner.outputs), "the outer inputs", len(outer.inputs))
    taken = {*inner.inputs, *_names(inner.conjs), *_names(outer.conjs)}
    outputs: list[str] = []
    for name in outer.outputs:
        is_taken = name in inner.inputs or name in inner.symbols or name in outputs
        outputs.append(fresh(name, taken | set(outer.variables)) if is_taken else name)
        taken.add(outputs[-1])
    middle: list[str] = []
    for name in inner.outputs:
        middle.append(fresh(name, taken | set(inner.inputs) | set(middle)))
        taken.add(middle[-1])
    first = renamed(inner, (*inner.inputs, *middle))
    second = renamed(outer, (*middle, *outputs))
    conjs = []
    for x in first.conjs:
        for y in second.conjs:
            both = meet(x, y, (*inner.inputs, *middle, *outputs))
            conjs.append(settled(Conj.of(both.constraints, (*both.exists, *middle))))
    return Relation(inner.inputs, tuple(outputs), tuple(conjs))


def apply(relation: Relation, to: IntegerSet) -> IntegerSet:
    """{ y : there is x in the set with relation(x, y) }"""
    return range_of(restrict_domain(relation, to))


def domain_of(relation: Relation) -> IntegerSet:
    """{ x : there is y with relation(x, y) }"""
    return _part(relation, relation.inputs, relation.outputs)


def range_of(relation: Relation) -> IntegerSet:
    """{ y : there is x with relation(x, y) }"""
    return _part(relation, relation.outputs, relation.inputs)


def restrict_domain(relation: Relation, to: IntegerSet) -> Relation:
    """{ x -> y : relation(x, y) and x in the set }"""
    _expect_length("the set", len(to.variables), "the inputs", len(relation.inputs))
    return _restricted(relation, renamed(to, relation.inputs))


def restrict_range(relation: Relation, to: IntegerSet) -> Relation:
    """{ x -> y : relation(x, y) and y in the set }"""
    _expect_length("the set", len(to.variables), "the outputs", len(relation.outputs))
    return _restricted(relation, renamed(to, relation.outputs))


def intersect(x: R, y: R) -> R:
    """What is in both, in the variables of the first."""
    _expect_same_tuples(x, y)
    other = renamed(y, x.variables)
    pairs = (meet(a, b, x.variables) for a in x.conjs for b in other.conjs)
    return _of_conjs(x, map(settled, pairs))


def union(x: R, y: R) -> R:
    """What is in one or both, in the variables of the first."""
    _expect_same_tuples(x, y)
    return _of_conjs(x, (*x.conjs, *renamed(y, x.variables).conjs))


def substituted(of: R, values: Mapping[Atom, Linear]) -> R:
    """The same with atoms replaced everywhere; tuple variables stay in their tuples.

    A tuple variable cannot be replaced: add an equality to a conjunction instead.
    """
    wrong = [a for a in values if isinstance(a, Var) and a.name in of.variables]
    if wrong:
        raise UsageError(
            f"'{wrong[0]}' is a tuple variable and cannot be replaced",
            str(of),
            "compose with a relation, or intersect with a set",
        )
    return _of_conjs(of, (conj.substitute(values) for conj in of.conjs))


def _of_conjs(of: R, conjs: Iterable[Conj]) -> R:
    if isinstance(of, Relation):
        return of.with_conjs(conjs)
    return of.with_conjs(conjs)


def _part(relation: Relation, kept: tuple[str, ...], gone: tuple[str, ...]) -> IntegerSet:
    conjs = (Conj.of(conj.constraints, (*conj.exists, *gone)) for conj in relation.conjs)
    return IntegerSet(kept, tuple(map(settled, conjs)))


def _restricted(relation: Relation, to: IntegerSet) -> Relation:
    pairs = (meet(x, y, relation.variables) for x in relation.conjs for y in to.conjs)
    return relation.with_conjs(map(settled, pairs))


def _names(conjs: Iterable[Conj]) -> set[str]:
    return {name for conj in conjs for name in (*conj.variables, *conj.symbols)}


def _expect_same_tuples(x: Relation | IntegerSet, y: Relation | IntegerSet) -> None:
    if isinstance(x, Relation) and isinstance(y, Relation):
        _expect_length("the first inputs", len(x.inputs), "the second", len(y.inputs))
        _expect_length("the first outputs", len(x.outputs), "the second", len(y.outputs))
        return
    _expect_length("the first tuple", len(x.variables), "the second", len(y.variables))


def _expect_length(what: str, length: int, other: str, expected: int) -> None:
    if length != expected:
        raise UsageError(
            f"tuples of different lengths: {what} and {other}",
            f"{length} and {expected}",
            "they must have as many dimensions",
        )
