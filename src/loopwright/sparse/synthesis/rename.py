"""A format under other names, so that two of them can stand in one computation."""

from __future__ import annotations

from dataclasses import replace

from loopwright.sparse.format import Format, Index, Rule
from loopwright.sparse.synthesis.renaming import Renaming

__all__ = ["renamed"]


def renamed(
    format: Format, prefix: str, coordinates: tuple[str, ...], sizes: tuple[str, ...]
) -> Format:
    """`format` with its own names prefixed, and dense coordinates and sizes called as given."""
    own = [*(i.name for i in format.indices), *(i.inverse for i in format.indices if i.inverse)]
    functions = {name: prefix + name for name in own}
    symbols = {name: prefix + name for name in format.counts}
    symbols |= {name: prefix + name for name, _ in format.defined}
    symbols |= dict(zip(format.sizes, sizes, strict=True))
    names = {name: prefix + name for name in (*format.variables, *format.access.outputs)}
    names |= dict(zip(format.coordinates, coordinates, strict=True))
    return _format(format, Renaming(functions, symbols, names))


def _format(of: Format, to: Renaming) -> Format:
    return replace(
        of,
        map=to.relation(of.map),
        access=to.relation(of.access),
        indices=tuple(_index(index, to) for index in of.indices),
        places=to.term(of.places),
        order=tuple(map(to.term, of.order)),
        rules=tuple(_rule(rule, to) for rule in of.rules),
        sizes=tuple(to.symbols.get(s, s) for s in of.sizes),
        defined=tuple((to.symbols[s], to.term(t)) for s, t in of.defined),
        counts=tuple(to.symbols[s] for s in of.counts),
    )


def _index(of: Index, to: Renaming) -> Index:
    return replace(
        of,
        name=to.functions[of.name],
        domain=to.set(of.domain),
        range=to.set(of.range),
        extents=tuple(map(to.term, of.extents)),
        inverse=to.functions[of.inverse] if of.inverse else "",
    )


def _rule(of: Rule, to: Renaming) -> Rule:
    premise, conclusion = (tuple(map(to.conj, part)) for part in (of.premise, of.conclusion))
    return Rule(to.variables(of.variables), premise, conclusion, of.text)
