"""Which variables a piece of syntax uses and changes."""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.frontends.c.loops import counter_of
from loopwright.frontends.c.syntax import (
    AssignExpr,
    Declaration,
    ForStmt,
    IndexExpr,
    Name,
    StepExpr,
    SyntaxStmt,
    declarations_in,
    expressions_in,
    statements_in,
)

__all__ = ["assigned_in", "changed_by", "counters_in", "used_in"]


def used_in(body: Iterable[SyntaxStmt]) -> list[Declaration]:
    """Every variable that statements name, in order of first use."""
    return list(dict.fromkeys(declarations_in(body)))


def assigned_in(body: Iterable[SyntaxStmt]) -> frozenset[Declaration]:
    """Every variable or array that statements assign, the heads of loops aside."""
    statements = list(statements_in(body))
    heads: set[int] = set()
    for statement in statements:
        if isinstance(statement, ForStmt) and counter_of(statement) is not None:
            heads.update(id(part) for part in (statement.init, statement.step))
    found: set[Declaration] = set()
    for expr in expressions_in(statements, deep=False):
        if id(expr) in heads:
            continue
        match expr:
            case AssignExpr(target=target) | StepExpr(x=target):
                is_element = isinstance(target, IndexExpr)
                while isinstance(target, IndexExpr):
                    target = target.base
                match target:
                    case Name(meaning=Declaration() as declaration):
                        if declaration.type.derivations or not is_element:
                            found.add(declaration)
    return frozenset(found)


def counters_in(body: Iterable[SyntaxStmt]) -> frozenset[Declaration]:
    """Every variable that counts a loop."""
    loops = (s for s in statements_in(body) if isinstance(s, ForStmt))
    return frozenset(c for c in map(counter_of, loops) if c is not None)


def changed_by(body: Iterable[SyntaxStmt]) -> frozenset[Declaration]:
    """Every variable whose value may differ after the statements."""
    body = list(body)
    return assigned_in(body) | counters_in(body)
