"""Operations on relations and sets, projection included; every one is exact.

Composition, domain and range introduce existential variables where they must. Projection removes
them, in one of two ways. An equality c*v = r defines the variable: v is floor(r/c), and r must be
divisible by c. Or it stands outside all functions, floors and products, in inequalities only: an
integer lies between all its lower and upper bounds exactly if each lower bound, rounded up, is at
most each upper bound, rounded down (Fourier-Motzkin elimination with the rounding that makes it
exact over the integers). Any other projection would change the set, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from loopwright.diagnostics import UsageError
from loopwright.sparse.uf.constraints import Conj, Constraint, conjoin, fresh
from loopwright.sparse.uf.linear_terms import Atom, Term, TupleVar, atoms
from loopwright.sparse.uf.relation import IntegerSet, Relation
from loopwright.sparse.uf.solve import definition, isolate, without_defined

__all__ = [
    "apply",
    "compose",
    "domain_of",
    "identity",
    "intersect",
    "inverse",
    "project_out",
    "quantifier_free",
    "range_of",
    "rename_apart",
    "renamed",
    "restrict_domain",
    "restrict_range",
    "substituted",
    "union",
    "without_variable",
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
    pairs = [
        Constraint.eq(TupleVar(x), TupleVar(y)) for x, y in zip(of.variables, outputs, strict=True)
    ]
    return whole.with_conjs(conj.conjoined(pairs) for conj in of.conjs)


def renamed(of: R, names: Sequence[str]) -> R:
    """The same with other names for all tuple variables, in order; bound ones are renamed apart."""
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
            both = conjoin(x, y, (*inner.inputs, *middle, *outputs))
            conjs.append(without_defined(Conj.of(both.constraints, (*both.exists, *middle))))
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
    pairs = (conjoin(a, b, x.variables) for a in x.conjs for b in other.conjs)
    return _of_conjs(x, map(without_defined, pairs))


def union(x: R, y: R) -> R:
    """What is in one or both, in the variables of the first."""
    _expect_same_tuples(x, y)
    return _of_conjs(x, (*x.conjs, *renamed(y, x.variables).conjs))


def substituted(of: R, values: Mapping[Atom, Term]) -> R:
    """The same with atoms replaced everywhere; tuple variables stay in their tuples.

    A tuple variable cannot be replaced: add an equality to a conjunction instead.
    """
    wrong = [a for a in values if isinstance(a, TupleVar) and a.name in of.variables]
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
    return IntegerSet(kept, tuple(map(without_defined, conjs)))


def _restricted(relation: Relation, to: IntegerSet) -> Relation:
    pairs = (conjoin(x, y, relation.variables) for x in relation.conjs for y in to.conjs)
    return relation.with_conjs(map(without_defined, pairs))


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


def project_out(of: R, names: Iterable[str]) -> R:
    """The set or relation with some tuple variables projected out.

    Raises UsageError, with the variable and the reason, where that needs a quantifier.
    """
    gone: tuple[str, ...] = tuple(dict.fromkeys(names))
    if stray := [name for name in gone if name not in of.variables]:
        raise UsageError(
            f"'{stray[0]}' is no variable of the tuples",
            f"[{', '.join(of.variables)}]",
            "name one of them",
        )
    conjs = _projected(of.conjs, gone)
    if isinstance(of, Relation):
        inputs = tuple(name for name in of.inputs if name not in gone)
        outputs = tuple(name for name in of.outputs if name not in gone)
        return Relation(inputs, outputs, conjs)
    return IntegerSet(tuple(name for name in of.variables if name not in gone), conjs)


def _projected(conjs: tuple[Conj, ...], gone: tuple[str, ...]) -> tuple[Conj, ...]:
    more = (Conj.of(conj.constraints, (*conj.exists, *gone)) for conj in conjs)
    return tuple(map(quantifier_free, more))


def quantifier_free(conj: Conj) -> Conj:
    """The same without variables that exist; raises UsageError where one has to stay."""
    while conj.exists:
        # Whatever order they are listed in: those that go easily may free the others.
        for name in conj.exists:
            less = without_variable(conj, name)
            if less is not None:
                conj = less
                break
        else:
            raise UsageError(
                f"the variable '{conj.exists[0]}' cannot be projected out exactly",
                f"{_place(conj, conj.exists[0])} in {conj}",
                "define it by an equality, give the function an inverse, or keep the variable",
            )
    return conj


def without_variable(conj: Conj, name: str) -> Conj | None:
    """The statement that a variable has a value, without it; None where it takes a quantifier."""
    exists = tuple(other for other in conj.exists if other != name)
    term = definition(conj, name)
    if term is not None:
        return Conj.of((c.substitute({TupleVar(name): term}) for c in conj.constraints), exists)
    divided = _by_division(conj, name)
    if divided is not None:
        return Conj.of(divided, exists)
    return _by_bounds(conj, name, exists)


def _by_division(conj: Conj, name: str) -> list[Constraint] | None:
    """c*v = r as v = floor(r/c) and c*floor(r/c) = r"""
    v = TupleVar(name)
    for constraint in conj.equalities:
        factor = constraint.term.coefficient(v)
        rest = constraint.term.without(v)
        if factor == 0 or v in atoms(rest):
            continue
        value = (rest * (-1 if factor > 0 else 1)).floor(abs(factor))
        return [c.substitute({v: value}) for c in conj.constraints]
    return None


def _by_bounds(conj: Conj, name: str, exists: tuple[str, ...]) -> Conj | None:
    v = TupleVar(name)
    kept: list[Constraint] = []
    lower: list[Term] = []
    upper: list[Term] = []
    for constraint in conj.constraints:
        if v not in atoms(constraint.term):
            kept.append(constraint)
            continue
        found = isolate(constraint, v)
        if found is None:
            return None
        (lower if found.sign == ">=" else upper).append(found.rest)
    return Conj.of([*kept, *(Constraint.le(x, y) for x in lower for y in upper)], exists)


def _place(conj: Conj, name: str) -> str:
    """The first term around a variable, for a message."""
    v = TupleVar(name)
    for atom in conj.atoms:
        if atom != v and v in atoms(Term.of(atom)):
            return f"it stands inside {atom}"
    return "it is bound with a factor"
