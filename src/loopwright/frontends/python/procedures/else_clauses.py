"""Loops with an `else` clause as loops without one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

__all__ = ["without_else"]


def without_else(stmt: ast.For | ast.While, flag: str) -> tuple[ast.stmt, ...]:
    """The statements that do what a loop with an `else` clause does.

    `flag` is a name of their own, which says whether no break has ended the loop. Everything but
    the statements around breaks is the very nodes of the loop.
    """
    body, has_break = _marked(stmt.body, flag)
    fields = {**_fields(stmt), "body": body, "orelse": []}
    loop = ast.copy_location(type(stmt)(**fields), stmt)
    if not has_break:
        return (loop, *stmt.orelse)
    return (
        _assigned(flag, True, stmt),
        loop,
        ast.copy_location(ast.If(_name(flag, stmt), list(stmt.orelse), []), stmt),
    )


def _marked(body: Sequence[ast.stmt], flag: str) -> tuple[list[ast.stmt], bool]:
    """Statements that clear the flag before a break of their loop; whether there is one."""
    found: list[ast.stmt] = []
    has_break = False
    for stmt in body:
        if isinstance(stmt, ast.Break):
            found += [_assigned(flag, False, stmt), stmt]
            has_break = True
            continue
        # Of an inner loop only what follows it without a break belongs to this one.
        inside = ("orelse",) if isinstance(stmt, ast.For | ast.While) else ("body", "orelse")
        parts = {name: _marked(getattr(stmt, name, []), flag) for name in inside}
        if any(is_left for _, is_left in parts.values()):
            fields = {**_fields(stmt), **{name: part for name, (part, _) in parts.items()}}
            stmt = ast.copy_location(type(stmt)(**fields), stmt)
            has_break = True
        found.append(stmt)
    return found, has_break


def _fields(node: ast.AST) -> dict[str, Any]:
    return dict(ast.iter_fields(node))


def _assigned(flag: str, value: bool, at: ast.stmt) -> ast.stmt:
    target = ast.copy_location(ast.Name(flag, ast.Store()), at)
    constant = ast.copy_location(ast.Constant(value), at)
    return ast.copy_location(ast.Assign([target], constant), at)


def _name(flag: str, at: ast.stmt) -> ast.expr:
    return ast.copy_location(ast.Name(flag, ast.Load()), at)
