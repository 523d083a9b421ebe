"""Terms over integers with uninterpreted functions, in canonical form, and how to traverse them.

A Term is an integer combination of atoms plus a constant. An atom is a tuple variable, a symbolic
constant, the call of an uninterpreted function on any terms, the floor of a quotient, or a product
of atoms. Equal sums are equal objects whatever way they were written; `x mod b` is
`x - b*floor(x/b)`. A term has a value only where every divisor in it is positive; laws such as
`floor((b*x + y)/b) = x + floor(y/b)` are used under that condition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar, TypeAlias

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once

__all__ = [
    "Atom",
    "AtomProduct",
    "CachedHash",
    "Floor",
    "Sym",
    "Term",
    "TupleVar",
    "UFCall",
    "atoms",
    "atoms_within",
    "calls",
    "replace_atoms",
    "substitute",
    "symbols",
    "variables",
]


class CachedHash:
    """Nouns that remember their hash and their text; neither travels with a pickle."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @computed_once
    def _hash(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self)))


@dataclass(frozen=True)
class TupleVar(CachedHash):
    """A variable of a tuple, or one that exists."""

    name: str

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.name

    @computed_once
    def order(self) -> tuple[int, str]:
        return 0, self.name


@dataclass(frozen=True)
class Sym(CachedHash):
    """A symbolic constant: one unknown integer for a whole run, such as NNZ."""

    name: str

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.name

    @computed_once
    def order(self) -> tuple[int, str]:
        return 4, self.name


@dataclass(frozen=True)
class UFCall(CachedHash):
    """An uninterpreted function of terms; `result` chooses one of several results."""

    name: str
    args: tuple[Term, ...]
    result: int = 0

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        chosen = f"[{self.result}]" if self.result else ""
        return f"{self.name}({','.join(map(str, self.args))}){chosen}"

    @computed_once
    def order(self) -> tuple[int, str]:
        return 1, str(self)


@dataclass(frozen=True)
class Floor(CachedHash):
    """floor(x / by) with by > 0."""

    x: Term
    by: Term

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"floor({_factor(self.x)}/{_factor(self.by)})"

    @computed_once
    def order(self) -> tuple[int, str]:
        return 2, str(self)


@dataclass(frozen=True)
class AtomProduct(CachedHash):
    """A product of two or more atoms; for the affine oracle an atom of its own."""

    factors: tuple[Atom, ...]  # in their order, none of them an AtomProduct

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return "*".join(map(str, self.factors))

    @computed_once
    def order(self) -> tuple[int, str]:
        return 3, str(self)


Atom: TypeAlias = TupleVar | Sym | UFCall | Floor | AtomProduct


@dataclass(frozen=True)
class Term(CachedHash):
    """sum(coefficient * atom) + constant; build it with arithmetic, not with the constructor."""

    terms: tuple[tuple[Atom, int], ...] = ()  # in the order of the atoms, no coefficient 0
    constant: int = 0

    @classmethod
    def of(cls, value: Term | Atom | int) -> Term:
        if isinstance(value, Term):
            return value
        if isinstance(value, int):
            return cls((), value)
        return cls(((value, 1),), 0)

    @classmethod
    def sum(cls, terms: Iterable[tuple[Atom, int]], constant: int = 0) -> Term:
        """The sum of terms that may name an atom several times."""
        found: dict[Atom, int] = {}
        for atom, factor in terms:
            found[atom] = found.get(atom, 0) + factor
        kept = [(atom, factor) for atom, factor in found.items() if factor]
        return cls(tuple(sorted(kept, key=lambda term: term[0].order)), constant)

    @computed_once
    def _hash(self) -> int:
        return hash((self.terms, self.constant))

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def atom(self) -> Atom | None:
        """The atom that this is, if it is nothing else."""
        if len(self.terms) == 1 and self.constant == 0 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None

    def coefficient(self, atom: Atom) -> int:
        return next((factor for found, factor in self.terms if found == atom), 0)

    def without(self, atom: Atom) -> Term:
        """This sum without the term of an atom."""
        return Term(tuple(term for term in self.terms if term[0] != atom), self.constant)

    def __add__(self, other: Term | Atom | int) -> Term:
        other = Term.of(other)
        if not other.terms:
            return Term(self.terms, self.constant + other.constant)
        return Term.sum((*self.terms, *other.terms), self.constant + other.constant)

    __radd__ = __add__

    def __neg__(self) -> Term:
        return self * -1

    def __sub__(self, other: Term | Atom | int) -> Term:
        return self + Term.of(other) * -1

    def __rsub__(self, other: Term | Atom | int) -> Term:
        return Term.of(other) - self

    def __mul__(self, other: Term | Atom | int) -> Term:
        other = Term.of(other)
        if not other.terms:
            k = other.constant
            return Term(tuple((a, f * k) for a, f in self.terms) if k else (), self.constant * k)
        if not self.terms:
            return other * self.constant
        terms = [(_product(a, b), f * g) for a, f in self.terms for b, g in other.terms]
        terms += [(a, f * other.constant) for a, f in self.terms]
        terms += [(b, g * self.constant) for b, g in other.terms]
        return Term.sum(terms, self.constant * other.constant)

    __rmul__ = __mul__

    def floor(self, by: Term | Atom | int) -> Term:
        """floor(self / by), with what `by` divides taken out of the floor."""
        by = Term.of(by)
        if by.is_constant and by.constant <= 0:
            raise UsageError(
                "a quotient is rounded down only for positive divisors",
                f"floor({self}/{by})",
                "change the signs of both, or the order of the two",
            )
        whole, rest = _divide(self, by)
        # floor((c*r + k) / (c*b)) = floor((r + floor(k/c)) / b) for integers r and b > 0
        common = math.gcd(by.constant, *(f for _, f in by.terms), *(f for _, f in rest.terms))
        if common > 1:
            rest = Term(tuple((a, f // common) for a, f in rest.terms), rest.constant // common)
            by = Term(tuple((a, f // common) for a, f in by.terms), by.constant // common)
        if by == Term.of(1):
            return whole + rest
        if by.is_constant and rest.is_constant:
            return whole + rest.constant // by.constant
        return whole + _nested(rest, by) if rest != Term() else whole

    def __mod__(self, by: Term | Atom | int) -> Term:
        return self - self.floor(by) * by

    def __str__(self) -> str:
        return self._text

    @computed_once
    def _text(self) -> str:
        text = ""
        for atom, factor in self.terms:
            sign = "-" if factor < 0 else "+" if text else ""
            size = "" if abs(factor) == 1 else f"{abs(factor)}*"
            text += f"{sign}{size}{atom}"
        if self.constant or not text:
            text += f"{'+' if text and self.constant >= 0 else ''}{self.constant}"
        return text


def _factor(term: Term) -> str:
    """The text of a term where only a factor may stand."""
    is_single = (term.atom is not None and not isinstance(term.atom, AtomProduct)) or (
        term.is_constant and term.constant >= 0
    )
    return str(term) if is_single else f"({term})"


def _product(x: Atom, y: Atom) -> Atom:
    factors = [*_factors(x), *_factors(y)]
    return AtomProduct(tuple(sorted(factors, key=lambda factor: factor.order)))


def _factors(atom: Atom) -> tuple[Atom, ...]:
    return atom.factors if isinstance(atom, AtomProduct) else (atom,)


def _divide(x: Term, by: Term) -> tuple[Term, Term]:
    """q and r with x = by*q + r, where q takes every term of x that `by` divides."""
    if by.is_constant:
        k = by.constant
        whole = Term(tuple((a, f // k) for a, f in x.terms if f % k == 0), x.constant // k)
        return whole, Term(tuple((a, f) for a, f in x.terms if f % k), x.constant % k)
    if len(by.terms) > 1 or by.constant:
        # A sum divides only its own multiples.
        atom, factor = by.terms[0]
        times = Term.of(x.coefficient(atom) // factor)
        return (times, Term()) if x == by * times else (Term(), x)
    atom, factor = by.terms[0]
    whole, rest = Term(), Term.of(x.constant)
    for found, count in x.terms:
        quotient = _quotient(found, atom) if count % factor == 0 else None
        if quotient is None:
            rest += Term(((found, count),))
        else:
            whole += quotient * (count // factor)
    return whole, rest


def _quotient(atom: Atom, by: Atom) -> Term | None:
    """`atom / by` where the factors of `by` are among those of `atom`."""
    rest = list(_factors(atom))
    for factor in _factors(by):
        if factor not in rest:
            return None
        rest.remove(factor)
    if not rest:
        return Term.of(1)
    return Term.of(rest[0] if len(rest) == 1 else AtomProduct(tuple(rest)))


def _nested(x: Term, by: Term) -> Term:
    """floor(x / by), by the law floor((floor(y/a) + c)/b) = floor((y + a*c)/(a*b))."""
    if len(x.terms) == 1 and x.terms[0][1] == 1 and isinstance(inner := x.terms[0][0], Floor):
        return (inner.x + inner.by * x.constant).floor(inner.by * by)
    return Term.of(Floor(x, by))


def atoms(term: Term) -> Iterator[Atom]:
    """Every atom of a term, outer ones before those inside them."""
    for atom, _ in term.terms:
        yield from atoms_within(atom)


def atoms_within(atom: Atom) -> Iterator[Atom]:
    """An atom and every atom inside it."""
    yield atom
    match atom:
        case UFCall(args=args):
            for argument in args:
                yield from atoms(argument)
        case Floor(x=x, by=by):
            yield from atoms(x)
            yield from atoms(by)
        case AtomProduct(factors=factors):
            for factor in factors:
                yield from atoms_within(factor)


def variables(term: Term) -> frozenset[str]:
    """The names of the variables in a term."""
    return frozenset(atom.name for atom in atoms(term) if isinstance(atom, TupleVar))


def symbols(term: Term) -> frozenset[str]:
    """The names of the symbolic constants in a term."""
    return frozenset(atom.name for atom in atoms(term) if isinstance(atom, Sym))


def calls(term: Term) -> Iterator[UFCall]:
    """Every call in a term, outer ones before those in their arguments."""
    return (atom for atom in atoms(term) if isinstance(atom, UFCall))


def replace_atoms(term: Term, change: Callable[[Atom], Term | None]) -> Term:
    """`term` with atoms replaced, inner ones first; `change` answers None for those that stay."""
    found: list[tuple[Atom, int]] = []
    constant = term.constant
    is_changed = False
    for atom, factor in term.terms:
        other = _replaced(atom, change)
        if other is None:
            found.append((atom, factor))
            continue
        is_changed = True
        found += [(a, f * factor) for a, f in other.terms]
        constant += other.constant * factor
    return Term.sum(found, constant) if is_changed else term


def _replaced(atom: Atom, change: Callable[[Atom], Term | None]) -> Term | None:
    inner = _replaced_inside(atom, change)
    if inner is None:
        return change(atom)
    found = inner.atom
    # What a value put in place of a factor has left alone is not replaced a second time.
    if found is None or type(found) is not type(atom):
        return inner
    other = change(found)
    return inner if other is None else other


def _replaced_inside(atom: Atom, change: Callable[[Atom], Term | None]) -> Term | None:
    match atom:
        case UFCall(name=name, args=args, result=result):
            others = tuple(replace_atoms(argument, change) for argument in args)
            return None if others == args else Term.of(UFCall(name, others, result))
        case Floor(x=x, by=by):
            dividend, divisor = replace_atoms(x, change), replace_atoms(by, change)
            return None if (dividend, divisor) == (x, by) else dividend.floor(divisor)
        case AtomProduct(factors=factors):
            parts = [_replaced(factor, change) for factor in factors]
            if all(part is None for part in parts):
                return None
            product = Term.of(1)
            for factor, part in zip(factors, parts, strict=True):
                product = product * (factor if part is None else part)
            return product
    return None


def substitute(term: Term, values: Mapping[Atom, Term]) -> Term:
    """`term` with atoms replaced by terms, all at once."""
    return replace_atoms(term, values.get) if values else term
