"""A format under other names, so that two of them can stand in one computation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.sparse.format import Format, Index, Rule
from loopwright.sparse.uf import (
    Atom,
    Call,
    Conj,
    IntegerSet,
    Linear,
    Relation,
    Sym,
    Var,
    replace_atoms,
)

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
    return _Renaming(functions, symbols, names).format(format)


class _Renaming:
    def __init__(
        self, functions: Mapping[str, str], symbols: Mapping[str, str], names: Mapping[str, str]
    ) -> None:
        self.functions = functions
        self.symbols = symbols
        self.names = names

    def format(self, of: Format) -> Format:
        return replace(
            of,
            map=self._relation(of.map),
            access=self._relation(of.access),
            indices=tuple(map(self._index, of.indices)),
            places=self._term(of.places),
            order=tuple(map(self._term, of.order)),
            rules=tuple(map(self._rule, of.rules)),
            sizes=tuple(self.symbols.get(s, s) for s in of.sizes),
            defined=tuple((self.symbols[s], self._term(t)) for s, t in of.defined),
            counts=tuple(self.symbols[s] for s in of.counts),
        )

    def _term(self, term: Linear) -> Linear:
        return replace_atoms(term, self._atom)

    def _atom(self, atom: Atom) -> Linear | None:
        match atom:
            case Var(name=name) if name in self.names:
                return Linear.of(Var(self.names[name]))
            case Sym(name=name) if name in self.symbols:
                return Linear.of(Sym(self.symbols[name]))
            case Call(name=name, args=args, result=result) if name in self.functions:
                return Linear.of(Call(self.functions[name], args, result))
        return None

    def _conj(self, conj: Conj) -> Conj:
        exists = tuple(self.names.get(name, name) for name in conj.exists)
        return Conj.of((c.of_term(self._term(c.term)) for c in conj.constraints), exists)

    def _relation(self, of: Relation) -> Relation:
        inputs, outputs = (
            tuple(self.names.get(name, name) for name in names) for names in (of.inputs, of.outputs)
        )
        return Relation(inputs, outputs, tuple(map(self._conj, of.conjs)))

    def _set(self, of: IntegerSet) -> IntegerSet:
        names = tuple(self.names.get(name, name) for name in of.variables)
        return IntegerSet(names, tuple(map(self._conj, of.conjs)))

    def _index(self, of: Index) -> Index:
        return replace(
            of,
            name=self.functions[of.name],
            domain=self._set(of.domain),
            range=self._set(of.range),
            extents=tuple(map(self._term, of.extents)),
            inverse=self.functions[of.inverse] if of.inverse else "",
        )

    def _rule(self, of: Rule) -> Rule:
        return Rule(
            tuple(self.names.get(name, name) for name in of.variables),
            tuple(map(self._conj, of.premise)),
            tuple(map(self._conj, of.conclusion)),
            of.text,
        )
