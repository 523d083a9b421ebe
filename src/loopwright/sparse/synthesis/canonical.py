"""Stages under plain names: stages that differ in names alone share their code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from loopwright.ir.expr import Expr, Load
from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.walk import rewrite
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.uf import (
    Atom,
    Call,
    Conj,
    IntegerSet,
    Linear,
    Sym,
    Var,
    replace_atoms,
)
from loopwright.sparse.uf.facts import Clause, Facts, FunctionFacts, Rule

__all__ = ["Canonical", "canonical"]


@dataclass(frozen=True)
class Canonical:
    """A computation under plain names, and what they stand for."""

    computation: Computation
    arrays: Mapping[str, str]  # name of the stage -> plain name
    symbols: Mapping[str, str]


def canonical(computation: Computation) -> Canonical:
    """The same computation with spaces s0, s1, ..., symbols n0, ..., variables v0, ..."""
    spaces = {space.name: f"s{k}" for k, space in enumerate(computation.spaces)}
    symbols = {name: f"n{k}" for k, name in enumerate(computation.symbols)}
    plain = _Plain(spaces, symbols)
    stmts = tuple(plain.statement(s, f"t{k}") for k, s in enumerate(computation.statements))
    shapes = tuple(
        replace(space, name=spaces[space.name], shape=tuple(map(plain.term, space.shape)))
        for space in computation.spaces
    )
    named = {s.name: f"t{k}" for k, s in enumerate(computation.statements)}
    marks = tuple((named[name], loop, mark) for name, loop, mark in computation.marks)
    facts = plain.facts(computation.facts)
    found = Computation("stage", shapes, stmts, tuple(symbols.values()), facts, marks)
    return Canonical(found, spaces, symbols)


class _Plain:
    def __init__(self, spaces: Mapping[str, str], symbols: Mapping[str, str]) -> None:
        self.spaces = spaces
        self.symbols = symbols
        self.names: dict[str, str] = {}

    def term(self, term: Linear) -> Linear:
        return replace_atoms(term, self._atom)

    def _atom(self, atom: Atom) -> Linear | None:
        match atom:
            case Var(name=name) if name in self.names:
                return Linear.of(Var(self.names[name]))
            case Sym(name=name) if name in self.symbols:
                return Linear.of(Sym(self.symbols[name]))
            case Call(name=name, args=args, result=result) if name in self.spaces:
                return Linear.of(Call(self.spaces[name], args, result))
        return None

    def _conj(self, conj: Conj) -> Conj:
        exists = tuple(self.names.get(name, name) for name in conj.exists)
        return Conj.of((c.of_term(self.term(c.term)) for c in conj.constraints), exists)

    def _expr(self, expr: Expr) -> Expr:
        def change(part: Expr) -> Expr:
            match part:
                case ExprVar(name=name):
                    found = self.names.get(name, self.symbols.get(name, name))
                    return ExprVar(found, part.dtype)
                case Load(array=array):
                    return replace(part, array=self.spaces[array])
            return part

        return rewrite(expr, change)

    def statement(self, stmt: Stmt, name: str) -> Stmt:
        self.names = {v: f"v{k}" for k, v in enumerate(stmt.variables)}
        variables = tuple(self.names.values())
        domain = IntegerSet(variables, tuple(map(self._conj, stmt.domain.conjs)))
        found = Stmt(
            name,
            domain,
            tuple(map(self.term, stmt.schedule)),
            self.spaces[stmt.target],
            tuple(map(self.term, stmt.index)),
            self._expr(stmt.value),
            None if stmt.guard is None else self._expr(stmt.guard),
        )
        self.names = {}
        return found

    def facts(self, facts: Facts) -> Facts:
        """What is known of the names that the computation uses."""
        functions = tuple(self._function(f) for f in facts.functions if f.name in self.spaces)
        known = tuple(
            c.of_term(self.term(c.term))
            for c in facts.known
            if all(a.name in self.symbols for a, _ in c.term.terms if isinstance(a, Sym))
        )
        further = tuple(map(self._rule, facts.further))
        return Facts(functions, further, known)

    def _function(self, facts: FunctionFacts) -> FunctionFacts:
        sets = [
            of and IntegerSet(of.variables, tuple(map(self._conj, of.conjs)))
            for of in (facts.domain, facts.range)
        ]
        return replace(facts, name=self.spaces[facts.name], domain=sets[0], range=sets[1])

    def _rule(self, rule: Rule) -> Rule:
        clause = rule.clause
        premises = tuple(c.of_term(self.term(c.term)) for c in clause.premises)
        ends = tuple(tuple(c.of_term(self.term(c.term)) for c in end) for end in clause.conclusions)
        return Rule(rule.variables, Clause(premises, ends))
