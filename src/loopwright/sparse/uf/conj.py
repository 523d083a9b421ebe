"""Conjunctions of constraints, with the variables that exist.

A Conj is true of a point if there are integers for its `exists` that make every constraint true.
Parallel constraints are merged: of `x >= 1` and `x >= 3` the second stays, `x >= 3` and `x <= 3`
become an equality, `x >= 3` and `x <= 2` make the whole FALSE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from loopwright.remembered import remembered
from loopwright.sparse.uf.constraint import FALSE, Constraint
from loopwright.sparse.uf.terms import Atom, Call, Linear, Sym, Var
from loopwright.sparse.uf.visit import atoms

__all__ = ["Conj", "fresh", "meet"]


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
        used = {a.name for c in kept for a in atoms(c.term) if isinstance(a, Var)}
        return cls(tuple(kept), tuple(dict.fromkeys(name for name in exists if name in used)))

    @property
    def is_false(self) -> bool:
        """Whether it is false on sight; others may be false all the same."""
        return self.constraints == (FALSE,)

    @property
    def equalities(self) -> tuple[Constraint, ...]:
        return tuple(c for c in self.constraints if c.is_equality)

    @remembered
    def atoms(self) -> tuple[Atom, ...]:
        """Every atom inside, once each, outer ones before inner ones."""
        return tuple(dict.fromkeys(a for c in self.constraints for a in atoms(c.term)))

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(a for a in self.atoms if isinstance(a, Call))

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(a.name for a in self.atoms if isinstance(a, Sym))

    @property
    def variables(self) -> frozenset[str]:
        """The names of all variables, those that exist included."""
        return frozenset(a.name for a in self.atoms if isinstance(a, Var))

    def conjoined(self, constraints: Iterable[Constraint], exists: Iterable[str] = ()) -> Conj:
        """This and more constraints; the names in `exists` are new ones."""
        return Conj.of((*self.constraints, *constraints), (*self.exists, *exists))

    def substitute(self, values: Mapping[Atom, Linear]) -> Conj:
        """Every constraint with atoms replaced; a replaced variable no longer exists."""
        if not values:
            return self
        changed = (c.substitute(values) for c in self.constraints)
        return Conj.of(changed, (name for name in self.exists if Var(name) not in values))

    def rename(self, names: Mapping[str, str]) -> Conj:
        """Variables called otherwise, all at once; also those that exist."""
        used: dict[Atom, Linear] = {Var(a): Linear.of(Var(b)) for a, b in names.items() if a != b}
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


def meet(x: Conj, y: Conj, taken: Iterable[str] = ()) -> Conj:
    """x and y; what exists in one is told apart from all names of the other and from `taken`."""
    y = _apart(y, {*x.variables, *x.symbols, *x.exists, *taken})
    x = _apart(x, {*y.variables, *y.symbols, *taken})
    return x.conjoined(y.constraints, y.exists)


def _apart(conj: Conj, taken: set[str]) -> Conj:
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
    lower: dict[Linear, tuple[int, Constraint]] = {}
    upper: dict[Linear, tuple[int, Constraint]] = {}
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


def _homogeneous(term: Linear) -> tuple[Linear, int, bool]:
    """part, v and False for a term `part - v`; part, v and True for `v - part`."""
    is_flipped = term.terms[0][1] < 0
    part = Linear(tuple((a, -f) for a, f in term.terms) if is_flipped else term.terms)
    return part, term.constant if is_flipped else -term.constant, is_flipped


def _bounded(
    lower: Mapping[Linear, tuple[int, Constraint]], upper: Mapping[Linear, tuple[int, Constraint]]
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
