"""Renaming of functions, symbols and variables: in terms, formats and computations.

A format under prefixed names can stand beside another in one computation. A computation under
canonical names (s0, n0, v0, ...) shares its code with all that differ from it in names alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.expr import Expr, Load
from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.visit import rewrite
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.format import Format, Index, Invariant
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.uf import (
    Atom,
    Conj,
    IntegerSet,
    Relation,
    Sym,
    Term,
    TupleVar,
    UFCall,
    replace_atoms,
)
from loopwright.sparse.uf.axioms import Clause, Facts, FunctionFacts, Rule

__all__ = ["Canonical", "Renaming", "canonical", "rename_format"]


@dataclass(frozen=True)
class Renaming:
    """Other names for some functions, symbolic constants and variables; the rest keep theirs."""

    functions: Mapping[str, str]
    symbols: Mapping[str, str]
    names: Mapping[str, str]

    def term(self, term: Term) -> Term:
        return replace_atoms(term, self._atom)

    def _atom(self, atom: Atom) -> Term | None:
        match atom:
            case TupleVar(name=name) if name in self.names:
                return Term.of(TupleVar(self.names[name]))
            case Sym(name=name) if name in self.symbols:
                return Term.of(Sym(self.symbols[name]))
            case UFCall(name=name, args=args, result=result) if name in self.functions:
                return Term.of(UFCall(self.functions[name], args, result))
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


def rename_format(
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
    return _renamed_format(format, Renaming(functions, symbols, names))


def _renamed_format(of: Format, to: Renaming) -> Format:
    return replace(
        of,
        map=to.relation(of.map),
        access=to.relation(of.access),
        indices=tuple(_index(index, to) for index in of.indices),
        places=to.term(of.places),
        order=tuple(map(to.term, of.order)),
        invariants=tuple(_invariant(rule, to) for rule in of.invariants),
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


def _invariant(of: Invariant, to: Renaming) -> Invariant:
    premise, conclusion = (tuple(map(to.conj, part)) for part in (of.premise, of.conclusion))
    return Invariant(to.variables(of.variables), premise, conclusion, of.text)


@dataclass(frozen=True)
class Canonical:
    """A computation under canonical names, and the mapping to them."""

    computation: Computation
    arrays: Mapping[str, str]  # name of the stage -> plain name
    symbols: Mapping[str, str]


def canonical(computation: Computation) -> Canonical:
    """The same computation with spaces s0, s1, ..., symbols n0, ..., variables v0, ..."""
    spaces = {space.name: f"s{k}" for k, space in enumerate(computation.spaces)}
    symbols = {name: f"n{k}" for k, name in enumerate(computation.symbols)}
    plain = Renaming(spaces, symbols, {})
    stmts = tuple(_statement(s, f"t{k}", plain) for k, s in enumerate(computation.statements))
    shapes = tuple(
        replace(space, name=spaces[space.name], shape=tuple(map(plain.term, space.shape)))
        for space in computation.spaces
    )
    named = {s.name: f"t{k}" for k, s in enumerate(computation.statements)}
    marks = tuple((named[name], loop, mark) for name, loop, mark in computation.marks)
    facts = _facts(computation.facts, plain)
    found = Computation("stage", shapes, stmts, tuple(symbols.values()), facts, marks)
    return Canonical(found, spaces, symbols)


def _statement(stmt: Stmt, name: str, plain: Renaming) -> Stmt:
    to = replace(plain, names={v: f"v{k}" for k, v in enumerate(stmt.variables)})
    return Stmt(
        name,
        to.set(stmt.domain),
        tuple(map(to.term, stmt.schedule)),
        to.functions[stmt.target],
        tuple(map(to.term, stmt.index)),
        _expr(stmt.value, to),
        None if stmt.guard is None else _expr(stmt.guard, to),
        stmt.ahead,
    )


def _expr(expr: Expr, to: Renaming) -> Expr:
    def change(part: Expr) -> Expr:
        match part:
            case ExprVar(name=name):
                return ExprVar(to.names.get(name, to.symbols.get(name, name)), part.dtype)
            case Load(array=array):
                return replace(part, array=to.functions[array])
        return part

    return rewrite(expr, change)


def _facts(facts: Facts, to: Renaming) -> Facts:
    """What is known of the names that the computation uses."""
    functions = tuple(_function(f, to) for f in facts.functions if f.name in to.functions)
    known = tuple(
        c.of_term(to.term(c.term))
        for c in facts.known
        if all(a.name in to.symbols for a, _ in c.term.terms if isinstance(a, Sym))
    )
    return Facts(functions, tuple(_rule(rule, to) for rule in facts.further), known)


def _function(facts: FunctionFacts, to: Renaming) -> FunctionFacts:
    domain, values = (of and to.set(of) for of in (facts.domain, facts.range))
    return replace(facts, name=to.functions[facts.name], domain=domain, range=values)


def _rule(rule: Rule, to: Renaming) -> Rule:
    clause = rule.clause
    premises = tuple(c.of_term(to.term(c.term)) for c in clause.premises)
    ends = tuple(tuple(c.of_term(to.term(c.term)) for c in end) for end in clause.conclusions)
    quick = None if rule.quick is None else _rule(rule.quick, to)
    return Rule(rule.variables, Clause(premises, ends), quick=quick)
