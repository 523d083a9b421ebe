"""Constraints on terms, and conjunctions of them with existentially quantified variables.

A Constraint says `term = 0` or `term >= 0`. Coefficients have no common divisor; an inequality is
tightened to the integers (2*x >= 1 is x >= 1); the first coefficient of an equality is positive;
whatever is true or false for all values is TRUE or FALSE.

A Conj is true of a point if there are integers for its `exists` that make every constraint true.
Parallel constraints are merged: of `x >= 1` and `x >= 3` the second stays, `x >= 3` and `x <= 3`
become an equality, `x >= 3` and `x <= 2` make the whole FALSE.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once
from loopwright.sparse.uf.linear_terms import Atom, Sym, Term, TupleVar, UFCall, atoms, substitute

__all__ = ["FALSE", "TRUE", "Conj", "Constraint", "Operand", "conjoin", "fresh"]

Operand: TypeAlias = Term | Atom | int


@dataclass(frozen=True)
class Constraint:
    """`term = 0` or `term >= 0`; made by eq, ge, gt, le and lt."""

    term: Term
    is_equality: bool

    @classmethod
    def eq(cls, x: Operand, y: Operand = 0) -> Constraint:
        """x = y"""
        term = Term.of(x) - Term.of(y)
        common = math.gcd(*(factor for _, factor in term.terms))
        if not term.terms or term.constant % common:
            return TRUE if term == Term() else FALSE
        return cls(_over(term, common if term.terms[0][1] > 0 else -common), True)

    @classmethod
    def ge(cls, x: Operand, y: Operand = 0) -> Constraint:
        """x >= y"""
        term = Term.of(x) - Term.of(y)
        if not term.terms:
            return TRUE if term.constant >= 0 else FALSE
        return cls(_over(term, math.gcd(*(factor for _, factor in term.terms))), False)

    @classmethod
    def gt(cls, x: Operand, y: Operand = 0) -> Constraint:
        """x > y"""
        return cls.ge(Term.of(x) - 1, y)

    @classmethod
    def le(cls, x: Operand, y: Operand = 0) -> Constraint:
        """x <= y"""
        return cls.ge(y, x)

    @classmethod
    def lt(cls, x: Operand, y: Operand = 0) -> Constraint:
        """x < y"""
        return cls.gt(y, x)

    @property
    def is_false(self) -> bool:
        return self == FALSE

    @property
    def is_true(self) -> bool:
        return self == TRUE

    def of_term(self, term: Term) -> Constraint:
        """The constraint of the same kind on another term."""
        return Constraint.eq(term) if self.is_equality else Constraint.ge(term)

    def substitute(self, values: Mapping[Atom, Term]) -> Constraint:
        """This constraint with atoms replaced by terms, all at once."""
        term = substitute(self.term, values)
        return self if term is self.term else self.of_term(term)

    def negated(self) -> tuple[Constraint, ...]:
        """Constraints of which one holds exactly where this one does not."""
        below = Constraint.lt(self.term)
        return (below, Constraint.gt(self.term)) if self.is_equality else (below,)

    def __str__(self) -> str:
        return self._text

    @computed_once
    def _text(self) -> str:
        if not self.term.terms:
            return "true" if self.term.constant >= 0 else "false"
        is_strict = not self.is_equality and self.term.constant == -1
        left, right = _sides(self.term + 1 if is_strict else self.term)
        relation = "=" if self.is_equality else ">" if is_strict else ">="
        if self.term.terms[0][1] < 0:
            left, right = right, left
            relation = {"=": "=", ">=": "<=", ">": "<"}[relation]
        return f"{left} {relation} {right}"


def _over(term: Term, divisor: int) -> Term:
    """term / divisor; a constant is rounded down, which is right for term >= 0."""
    return Term(tuple((a, f // divisor) for a, f in term.terms), term.constant // divisor)


def _sides(term: Term) -> tuple[Term, Term]:
    """left and right with term = left - right and no negative coefficient."""
    left = Term(tuple((a, f) for a, f in term.terms if f > 0), max(term.constant, 0))
    right = Term(tuple((a, -f) for a, f in term.terms if f < 0), max(-term.constant, 0))
    return left, right


TRUE = Constraint(Term.of(0), False)
FALSE = Constraint(Term.of(-1), False)


@dataclass(frozen=True)
class Conj:
    """exists e1, ..., em: c1 and ... and cn; made by `of`."""

    constraints: tuple[Constraint, ...] = ()  # in the order of their texts, equalities first
    exists: tuple[str, ...] = ()  # names of variables, each in some constraint

    @classmethod
    def of(cls, constraints: Iterable[Constraint], exists: Iterable[str] = ()) -> Conj:
        """The conjunction in canonical form; names that nothing constrains do not exist."""
        kept = _merged(constraints)
        if any(c.is_false for c in kept):
            return cls((FALSE,))
        kept.sort(key=lambda c: (not c.is_equality, str(c)))
        used = {a.name for c in kept for a in atoms(c.term) if isinstance(a, TupleVar)}
        return cls(tuple(kept), tuple(dict.fromkeys(name for name in exists if name in used)))

    @property
    def is_false(self) -> bool:
        """Whether it is syntactically false; others may be unsatisfiable all the same."""
        return self.constraints == (FALSE,)

    @property
    def equalities(self) -> tuple[Constraint, ...]:
        return tuple(c for c in self.constraints if c.is_equality)

    @computed_once
    def atoms(self) -> tuple[Atom, ...]:
        """Every atom inside, once each, outer ones before inner ones."""
        return tuple(dict.fromkeys(a for c in self.constraints for a in atoms(c.term)))

    @property
    def calls(self) -> tuple[UFCall, ...]:
        return tuple(a for a in self.atoms if isinstance(a, UFCall))

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(a.name for a in self.atoms if isinstance(a, Sym))

    @property
    def variables(self) -> frozenset[str]:
        """The names of all variables, those that exist included."""
        return frozenset(a.name for a in self.atoms if isinstance(a, TupleVar))

    def conjoined(self, constraints: Iterable[Constraint], exists: Iterable[str] = ()) -> Conj:
        """This and more constraints; the names in `exists` are new ones."""
        return Conj.of((*self.constraints, *constraints), (*self.exists, *exists))

    def substitute(self, values: Mapping[Atom, Term]) -> Conj:
        """Every constraint with atoms replaced; a replaced variable no longer exists."""
        if not values:
            return self
        changed = (c.substitute(values) for c in self.constraints)
        return Conj.of(changed, (name for name in self.exists if TupleVar(name) not in values))

    def rename(self, names: Mapping[str, str]) -> Conj:
        """Variables called otherwise, all at once; also those that exist."""
        used: dict[Atom, Term] = {
            TupleVar(a): Term.of(TupleVar(b)) for a, b in names.items() if a != b
        }
        changed = (c.substitute(used) for c in self.constraints)
        return Conj.of(changed, (names.get(name, name) for name in self.exists))

    def __str__(self) -> str:
        text = " && ".join(map(str, self.constraints)) or "true"
        return f"exists {','.join(self.exists)}: ({text})" if self.exists else text


def fresh(name: str, taken: Iterable[str]) -> str:
    """`name`, or the first of name_1, name_2, ... that is not taken."""
    used = set(taken)
    if name not in used:
        return name
    count = 1
    while f"{name}_{count}" in used:
        count += 1
    return f"{name}_{count}"


def conjoin(x: Conj, y: Conj, taken: Iterable[str] = ()) -> Conj:
    """x and y; bound variables of one are renamed apart from the other and from `taken`."""
    y = _renamed_apart(y, {*x.variables, *x.symbols, *x.exists, *taken})
    x = _renamed_apart(x, {*y.variables, *y.symbols, *taken})
    return x.conjoined(y.constraints, y.exists)


def _renamed_apart(conj: Conj, taken: set[str]) -> Conj:
    used = taken | conj.variables | conj.symbols
    names: dict[str, str] = {}
    for name in conj.exists:
        if name in taken:
            names[name] = fresh(name, used)
            used.add(names[name])
    return conj.rename(names)


def _merged(constraints: Iterable[Constraint]) -> list[Constraint]:
    """The same conjunction with one bound per side of each homogeneous part."""
    # part -> the largest known v with part >= v, the least with part <= v, and who says so
    lower: dict[Term, tuple[int, Constraint]] = {}
    upper: dict[Term, tuple[int, Constraint]] = {}
    for constraint in constraints:
        if constraint.is_true:
            continue
        if constraint.is_false:
            return [FALSE]
        part, bound, is_flipped = _homogeneous(constraint.term)
        if constraint.is_equality or not is_flipped:
            known = lower.get(part)
            if known is None or bound > known[0] or (bound == known[0] and constraint.is_equality):
                lower[part] = bound, constraint
        if constraint.is_equality or is_flipped:
            known = upper.get(part)
            if known is None or bound < known[0] or (bound == known[0] and constraint.is_equality):
                upper[part] = bound, constraint
    return list(_bounded(lower, upper))


def _homogeneous(term: Term) -> tuple[Term, int, bool]:
    """part, v and False for a term `part - v`; part, v and True for `v - part`."""
    is_flipped = term.terms[0][1] < 0
    part = Term(tuple((a, -f) for a, f in term.terms) if is_flipped else term.terms)
    return part, term.constant if is_flipped else -term.constant, is_flipped


def _bounded(
    lower: Mapping[Term, tuple[int, Constraint]], upper: Mapping[Term, tuple[int, Constraint]]
) -> Iterator[Constraint]:
    for part in dict.fromkeys((*lower, *upper)):
        low, high = lower.get(part), upper.get(part)
        if low is None or high is None:
            yield from (found[1] for found in (low, high) if found is not None)
        elif low[0] > high[0]:
            yield FALSE
        elif low[0] == high[0]:
            yield low[1] if low[1].is_equality else Constraint.eq(part, low[0])
        else:
            yield low[1]
            yield high[1]
