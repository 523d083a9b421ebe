"""Which variables a piece of syntax uses and changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loopwright.frontends.c.loops import counter_of
from loopwright.frontends.c.syntax import (
    AssignExpr,
    BinaryExpr,
    BlockStmt,
    CallExpr,
    CastExpr,
    Comma,
    Declaration,
    DeclarationStmt,
    ExprStmt,
    ForStmt,
    IfStmt,
    IndexExpr,
    InitList,
    Name,
    RefusedStmt,
    StepExpr,
    SyntaxExpr,
    SyntaxStmt,
    TernaryExpr,
    UnaryExpr,
)

__all__ = ["assigned_in", "changed_by", "counters_in", "used_in"]


def used_in(body: Iterable[SyntaxStmt]) -> list[Declaration]:
    """Every variable that statements name, in order of first use."""
    found: dict[Declaration, None] = {}
    for expr in _expressions(body):
        if isinstance(expr, Name) and isinstance(expr.meaning, Declaration):
            found[expr.meaning] = None
    return list(found)


def assigned_in(body: Iterable[SyntaxStmt]) -> frozenset[Declaration]:
    """Every variable or array that statements assign, the heads of loops aside."""
    statements = list(_statements(body))
    heads: set[int] = set()
    for statement in statements:
        if isinstance(statement, ForStmt) and counter_of(statement) is not None:
            heads.update(id(part) for part in (statement.init, statement.step))
    found: set[Declaration] = set()
    for expr in _expressions(statements, deep=False):
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
    loops = (s for s in _statements(body) if isinstance(s, ForStmt))
    return frozenset(c for c in map(counter_of, loops) if c is not None)


def changed_by(body: Iterable[SyntaxStmt]) -> frozenset[Declaration]:
    """Every variable whose value may differ after the statements."""
    body = list(body)
    return assigned_in(body) | counters_in(body)


def _statements(body: Iterable[SyntaxStmt]) -> Iterator[SyntaxStmt]:
    for statement in body:
        yield statement
        match statement:
            case BlockStmt(body=inner) | RefusedStmt(body=inner):
                yield from _statements(inner)
            case ForStmt(body=one):
                yield from _statements((one,))
            case IfStmt(body=one, orelse=orelse):
                yield from _statements((one,) if orelse is None else (one, orelse))
            case ExprStmt() | DeclarationStmt():
                pass


def _expressions(body: Iterable[SyntaxStmt], deep: bool = True) -> Iterator[SyntaxExpr]:
    """Every expression in statements, parts included; `deep`: also of statements inside them."""
    for statement in _statements(body) if deep else body:
        for expr in _direct(statement):
            yield from _walk(expr)


def _direct(statement: SyntaxStmt) -> Iterator[SyntaxExpr]:
    match statement:
        case ExprStmt(expr=expr) if expr is not None:
            yield expr
        case DeclarationStmt(declarations=declarations):
            for declaration in declarations:
                if declaration.init is not None and not isinstance(declaration.init, InitList):
                    yield declaration.init
        case ForStmt(init=init, cond=cond, step=step):
            if isinstance(init, DeclarationStmt):
                yield from _direct(init)
            elif init is not None:
                yield init
            yield from (part for part in (cond, step) if part is not None)
        case IfStmt(cond=cond):
            yield cond
        case RefusedStmt(conditions=conditions):
            yield from conditions
        case _:
            return


def _walk(expr: SyntaxExpr) -> Iterator[SyntaxExpr]:
    """An expression and its parts; with a stack of its own, so any depth will do."""
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(_parts(node))


def _parts(expr: SyntaxExpr) -> tuple[SyntaxExpr, ...]:
    match expr:
        case IndexExpr(base=base, index=index):
            return base, index
        case CallExpr(function=function, args=args):
            return (function, *args)
        case UnaryExpr(x=x) | StepExpr(x=x) | CastExpr(x=x):
            return (x,)
        case BinaryExpr(x=x, y=y):
            return x, y
        case AssignExpr(target=target, value=value):
            return target, value
        case TernaryExpr(cond=cond, x=x, y=y):
            return cond, x, y
        case Comma(parts=parts):
            return parts
        case _:
            return ()
