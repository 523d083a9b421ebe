"""Loops that count several variables: the one in the condition counts, the others are variables.

for (i = 0, j = n; i < n; i++, j--) S      ->      j = n; for (i = 0; i < n; i++) { S j--; }
"""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.frontends.c.syntax import (
    AssignExpr,
    BlockStmt,
    Comma,
    Declaration,
    DeclarationStmt,
    ExprStmt,
    ForStmt,
    InitList,
    Name,
    StepExpr,
    SyntaxExpr,
    SyntaxStmt,
    declarations_in,
)

__all__ = ["with_one_counter"]


def with_one_counter(loop: ForStmt) -> SyntaxStmt:
    """The same loop with one variable in its head; itself where there is only one."""
    starts, steps = _starts(loop), _parts(loop.step)
    if starts is None or loop.cond is None or (len(starts) < 2 and len(steps) < 2):
        return loop
    tested = list(_mentioned(loop.cond))
    counter = next((d for d in tested if d in starts), None)
    own = [part for part in steps if _target(part) is counter]
    if counter is None or len(own) != 1:
        return loop
    others = [part for part in steps if part is not own[0]]
    first = [start for d, start in starts.items() if d is not counter]
    if any(counter in _uses(start) for start in first):
        return loop
    if any(counter in set(_mentioned(part)) for part in others):
        return loop
    body = loop.body
    if others:
        body = BlockStmt((body, *(ExprStmt(part, part.at) for part in others)), body.at)
    plain = ForStmt(_start_of(starts[counter]), loop.cond, own[0], body, loop.at, loop.head)
    return BlockStmt((*first, plain), loop.at)


def _starts(loop: ForStmt) -> dict[Declaration, SyntaxStmt] | None:
    """The statements that give the variables of a head their first values."""
    match loop.init:
        case DeclarationStmt(declarations=declarations, at=at):
            return {d: DeclarationStmt((d,), at) for d in declarations}
        case AssignExpr() | Comma():
            found: dict[Declaration, SyntaxStmt] = {}
            for part in _parts(loop.init):
                target = _target(part)
                if not isinstance(part, AssignExpr) or part.op != "=" or target is None:
                    return None
                if target in found:
                    return None
                found[target] = ExprStmt(part, part.at)
            return found
        case _:
            return None


def _start_of(start: SyntaxStmt) -> DeclarationStmt | SyntaxExpr | None:
    match start:
        case DeclarationStmt():
            return start
        case ExprStmt(expr=expr):
            return expr
    raise AssertionError(start)


def _parts(expr: SyntaxExpr | None) -> tuple[SyntaxExpr, ...]:
    match expr:
        case None:
            return ()
        case Comma(parts=parts):
            return parts
        case _:
            return (expr,)


def _target(expr: SyntaxExpr) -> Declaration | None:
    match expr:
        case AssignExpr(target=Name(meaning=Declaration() as declaration)):
            return declaration
        case StepExpr(x=Name(meaning=Declaration() as declaration)):
            return declaration
        case _:
            return None


def _mentioned(expr: SyntaxExpr) -> Iterable[Declaration]:
    return declarations_in((ExprStmt(expr, expr.at),))


def _uses(start: SyntaxStmt) -> set[Declaration]:
    """The variables that a first value is computed from."""
    match start:
        case DeclarationStmt(declarations=(Declaration(init=init),)):
            return set() if init is None or isinstance(init, InitList) else set(_mentioned(init))
        case ExprStmt(expr=AssignExpr(value=value)):
            return set(_mentioned(value))
        case _:
            return set()
