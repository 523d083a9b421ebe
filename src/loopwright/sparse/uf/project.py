"""Removing variables, exactly or not at all.

A variable goes away in one of two ways. An equality c*v = r defines it: v is floor(r/c), and r must
be divisible by c. Or it stands outside all functions, floors and products, in inequalities only:
there is an integer between all its lower and upper bounds exactly if each lower bound, rounded up,
is at most each upper bound, rounded down (Fourier and Motzkin, with the rounding that makes it
exact over the integers). Any other projection would change the set, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from loopwright.diagnostics import UsageError
from loopwright.sparse.uf.conj import Conj
from loopwright.sparse.uf.constraint import Constraint
from loopwright.sparse.uf.relation import IntegerSet, Relation
from loopwright.sparse.uf.solve import definition, isolate
from loopwright.sparse.uf.terms import Linear, Var
from loopwright.sparse.uf.visit import atoms

__all__ = ["project_out", "quantifier_free", "without_variable"]

R = TypeVar("R", Relation, IntegerSet)


def project_out(of: R, names: Iterable[str]) -> R:
    """The set or relation with fewer variables in its tuples: there is a value for each gone.

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
        return Conj.of((c.substitute({Var(name): term}) for c in conj.constraints), exists)
    divided = _by_division(conj, name)
    if divided is not None:
        return Conj.of(divided, exists)
    return _by_bounds(conj, name, exists)


def _by_division(conj: Conj, name: str) -> list[Constraint] | None:
    """c*v = r as v = floor(r/c) and c*floor(r/c) = r"""
    v = Var(name)
    for constraint in conj.equalities:
        factor = constraint.term.coefficient(v)
        rest = constraint.term.without(v)
        if factor == 0 or v in atoms(rest):
            continue
        value = (rest * (-1 if factor > 0 else 1)).floor(abs(factor))
        return [c.substitute({v: value}) for c in conj.constraints]
    return None


def _by_bounds(conj: Conj, name: str, exists: tuple[str, ...]) -> Conj | None:
    v = Var(name)
    kept: list[Constraint] = []
    lower: list[Linear] = []
    upper: list[Linear] = []
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
    v = Var(name)
    for atom in conj.atoms:
        if atom != v and v in atoms(Linear.of(atom)):
            return f"it stands inside {atom}"
    return "it is bound with a factor"
