"""Stages under plain names: stages that differ in names alone share their code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from loopwright.ir.expr import Expr, Load
from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.walk import rewrite
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.synthesis.renaming import Renaming
from loopwright.sparse.uf import Sym
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
    return Rule(rule.variables, Clause(premises, ends))
