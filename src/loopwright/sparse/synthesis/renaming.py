"""Terms, sets and relations under other names of functions, symbols and variables, all at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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

__all__ = ["Renaming"]


@dataclass(frozen=True)
class Renaming:
    """Other names for some functions, symbolic constants and variables; the rest keep theirs."""

    functions: Mapping[str, str]
    symbols: Mapping[str, str]
    names: Mapping[str, str]

    def term(self, term: Linear) -> Linear:
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

    def variables(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.names.get(name, name) for name in names)

    def conj(self, conj: Conj) -> Conj:
        constraints = (c.of_term(self.term(c.term)) for c in conj.constraints)
        return Conj.of(constraints, self.variables(conj.exists))

    def set(self, of: IntegerSet) -> IntegerSet:
        return IntegerSet(self.variables(of.variables), tuple(map(self.conj, of.conjs)))

    def relation(self, of: Relation) -> Relation:
        inputs, outputs = self.variables(of.inputs), self.variables(of.outputs)
        return Relation(inputs, outputs, tuple(map(self.conj, of.conjs)))
