"""Other names for what a piece of a nest binds and uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.expr import Expr, Load, Var
from loopwright.ir.loops import Alloc, Buffer, Copy, For, Let, Prefetch, Stmt, Store
from loopwright.ir.visit import rebuild, rewrite, statements

__all__ = ["names_bound", "renamed", "renamed_expr"]


def names_bound(stmt: Stmt) -> set[str]:
    """The variables and buffers that `stmt` binds."""
    found = set()
    for node in statements(stmt):
        match node:
            case For(var=name) | Let(name=name) | Alloc(buffer=Buffer(name=name)):
                found.add(name)
    return found


def renamed_expr(expr: Expr, names: Mapping[str, str]) -> Expr:
    """`expr` with variables and arrays called by other names."""

    def change(node: Expr) -> Expr:
        match node:
            case Var(name=name) if name in names:
                return replace(node, name=names[name])
            case Load(array=name) if name in names:
                return replace(node, array=names[name])
        return node

    return rewrite(expr, change)


def renamed(stmt: Stmt, names: Mapping[str, str]) -> Stmt:
    """`stmt` with everything that it binds or uses called by other names, all at once."""

    def change(node: Stmt) -> Stmt:
        match node:
            case For(var=name) if name in names:
                return replace(node, var=names[name])
            case Let(name=name) if name in names:
                return replace(node, name=names[name])
            case Alloc(buffer=buffer) if buffer.name in names:
                return replace(node, buffer=replace(buffer, name=names[buffer.name]))
            case Store(buffer=name) | Prefetch(buffer=name) if name in names:
                return replace(node, buffer=names[name])
            case Copy(target=target, source=source):
                target, source = names.get(target, target), names.get(source, source)
                return replace(node, target=target, source=source)
        return node

    return rebuild(stmt, change, lambda expr: renamed_expr(expr, names))
