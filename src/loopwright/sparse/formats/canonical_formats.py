"""Formats under canonical names: two descriptors that differ in names alone are one format.

    rows: {[r,e] -> [i,j] : ... cols(e) ...}   --canonical-->   {[v0,v1] -> [c0,c1] : ... f1(v1)
    ...}

The table was verified, and with it every descriptor that says the same: whether code may rely on a
format is decided by its canonical form, never by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product

from loopwright.diagnostics import UsageError
from loopwright.sparse.format import Format, Index, Invariant
from loopwright.sparse.synthesis.renaming import Renaming
from loopwright.sparse.uf import Floor, IntegerSet, Relation, Sym, UFCall, atoms

from . import BUILT_IN, Family, find, is_built_in

__all__ = ["canonical_format", "is_verified"]

_MOST_NUMBERS = 12  # in a descriptor that may have parameters of the table


@lru_cache(maxsize=64)
def is_verified(format: Format) -> bool:
    """Whether a format is one of the table, with any parameters and under any names.

    Index arrays are compared in the order in which they were declared.
    """
    if is_built_in(format):
        return True
    wanted = canonical_format(format)
    return any(canonical_format(other) == wanted for other in _candidates(format))


def _candidates(format: Format) -> Iterator[Format]:
    """Formats of the table that have as many arrays and variables, with all likely parameters."""
    for family in BUILT_IN.values():
        if format.rank not in family.ranks:
            continue
        example = find(family.example, format.rank)
        if _outline(example) == _outline(format):
            yield from _with_parameters(family, format)


def _outline(format: Format) -> tuple[object, ...]:
    """What parameters do not change."""
    parts = (format.variables, format.indices, format.invariants, format.counts, format.defined)
    return (*map(len, parts), format.is_unique, format.padding)


def _with_parameters(family: Family, format: Format) -> Iterator[Format]:
    """The formats of a family whose parameters are numbers in a descriptor."""
    name, _, rest = family.example.partition("(")
    words = [word.strip() for word in rest.rstrip(")").split(",") if word.strip()]
    numbers = sorted(_numbers(format))[:_MOST_NUMBERS]
    choices = [numbers if word.isdecimal() else ("row", "column") for word in words]
    for chosen in product(*choices):
        text = f"{name}({','.join(map(str, chosen))})" if chosen else name
        try:
            yield find(text, format.rank)
        except UsageError:
            continue  # no parameters of this family


def _numbers(format: Format) -> set[int]:
    """The factors and divisors in the maps, premises and definitions of a format."""
    found = {1}
    conjs = (
        *format.map.conjs,
        *format.access.conjs,
        *(c for r in format.invariants for c in r.premise),
    )
    terms = [c.term for conj in conjs for c in conj.constraints]
    for term in (*terms, *(t for _, t in format.defined)):
        inner = [a for a in atoms(term) if isinstance(a, Floor | UFCall)]
        divisors = [a.by.constant for a in inner if isinstance(a, Floor) and a.by.is_constant]
        arguments = [x for a in inner for x in (a.args if isinstance(a, UFCall) else (a.x,))]
        factors = [factor for part in (term, *arguments) for _, factor in part.terms]
        found |= {abs(number) for number in (*divisors, *factors)}
    return found - {0}


@lru_cache(maxsize=512)
def canonical_format(format: Format) -> Format:
    """The format with names that say nothing but the order in which they were declared."""
    functions = {index.name: f"f{n}" for n, index in enumerate(format.indices)}
    functions |= {i.inverse: f"g{n}" for n, i in enumerate(format.indices) if i.inverse}
    symbols = {name: f"s{n}" for n, name in enumerate(format.sizes)}
    symbols |= {name: f"d{n}" for n, (name, _) in enumerate(format.defined)}
    symbols |= {name: f"n{n}" for n, name in enumerate(_counts(format))}
    names = {name: f"v{n}" for n, name in enumerate(format.variables)}
    names |= {name: f"c{n}" for n, name in enumerate(format.coordinates)}
    to = Renaming(functions, symbols, names)
    places = {name: f"p{n}" for n, name in enumerate(format.access.outputs)}
    return Format(
        "",
        _relation(format.map, to),
        _relation(format.access, replace(to, names={**names, **places})),
        tuple(_index(index, to) for index in format.indices),
        to.term(format.places),
        tuple(map(to.term, format.order)),
        format.is_unique,
        format.padding,
        tuple(_invariant(rule, to) for rule in format.invariants),
        tuple(symbols[name] for name in format.sizes),
        tuple((symbols[name], to.term(term)) for name, term in format.defined),
        tuple(sorted(symbols[name] for name in format.counts)),
    )


def _counts(format: Format) -> list[str]:
    """The symbols that depend on the data, in the order in which arrays mention them."""
    terms = [extent for index in format.indices for extent in index.extents]
    for index in format.indices:
        terms += [c.term for conj in index.range.conjs for c in conj.constraints]
    named = [a.name for term in (*terms, format.places) for a in atoms(term) if isinstance(a, Sym)]
    found = dict.fromkeys(name for name in named if name in format.counts)
    return [*found, *(name for name in format.counts if name not in found)]


def _bound(to: Renaming, names: tuple[str, ...]) -> Renaming:
    """The renaming where these variables are bound."""
    return replace(to, names={**to.names, **{name: f"w{n}" for n, name in enumerate(names)}})


def _relation(of: Relation, to: Renaming) -> Relation:
    exists = tuple(dict.fromkeys(name for conj in of.conjs for name in conj.exists))
    return _bound(to, exists).relation(of)


def _set(of: IntegerSet, to: Renaming) -> IntegerSet:
    exists = tuple(dict.fromkeys(name for conj in of.conjs for name in conj.exists))
    return _bound(to, (*of.variables, *exists)).set(of)


def _index(of: Index, to: Renaming) -> Index:
    return replace(
        of,
        name=to.functions[of.name],
        domain=_set(of.domain, to),
        range=_set(of.range, to),
        extents=tuple(map(to.term, of.extents)),
        inverse=to.functions[of.inverse] if of.inverse else "",
    )


def _invariant(of: Invariant, to: Renaming) -> Invariant:
    exists = (name for part in (*of.premise, *of.conclusion) for name in part.exists)
    own = _bound(to, (*of.variables, *dict.fromkeys(exists)))
    premise, conclusion = (tuple(map(own.conj, part)) for part in (of.premise, of.conclusion))
    return Invariant(own.variables(of.variables), premise, conclusion, "")
