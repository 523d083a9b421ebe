"""Traversal of expressions: children, walks and bottom-up rewriting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from loopwright.ir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
)

__all__ = ["children", "loads", "names", "rewrite", "substitute", "walk"]


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions, subscripts of a load included."""
    match expr:
        case Const() | Var():
            return ()
        case Load(index=index):
            return index
        case Unary(x=x) | Cast(x=x):
            return (x,)
        case Binary(x=x, y=y):
            return (x, y)
        case Select(cond=cond, x=x, y=y):
            return (cond, x, y)
        case Call(args=args):
            return args
        case _:
            assert_never(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """`expr` and everything below it, parents first."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def loads(expr: Expr) -> tuple[Load, ...]:
    """Every distinct load in `expr`, in order of appearance."""
    return tuple(dict.fromkeys(x for x in walk(expr) if isinstance(x, Load)))


def names(expr: Expr) -> set[str]:
    """The variables `expr` depends on, those in subscripts included."""
    if isinstance(expr, Var):
        return {expr.name}
    return set().union(*map(names, children(expr)))


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuild `expr` bottom-up, passing every node through `change`."""

    def down(node: Expr) -> Expr:
        return rewrite(node, change)

    match expr:
        case Const() | Var():
            return change(expr)
        case Load(index=index):
            return change(replace(expr, index=tuple(map(down, index))))
        case Unary(x=x) | Cast(x=x):
            return change(replace(expr, x=down(x)))
        case Binary(x=x, y=y):
            return change(replace(expr, x=down(x), y=down(y)))
        case Select(cond=cond, x=x, y=y):
            return change(Select(down(cond), down(x), down(y)))
        case Call(args=args):
            return change(replace(expr, args=tuple(map(down, args))))
        case _:
            assert_never(expr)


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with variables replaced by name."""

    def change(node: Expr) -> Expr:
        return values.get(node.name, node) if isinstance(node, Var) else node

    return rewrite(expr, change)
