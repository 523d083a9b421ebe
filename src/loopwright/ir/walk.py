"""Traversal of expressions: children, walks and bottom-up rewriting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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

__all__ = [
    "children",
    "expanded_dot",
    "expanded_extreme",
    "fresh_name",
    "loads",
    "names",
    "operands",
    "rewrite",
    "substitute",
    "walk",
]


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


def operands(op: str, expr: Expr) -> list[Expr]:
    """The operands of nested applications of one operator: a, b, c of `(a + b) + c`."""
    if isinstance(expr, Binary) and expr.op == op:
        return operands(op, expr.x) + operands(op, expr.y)
    return [expr]


def fresh_name(wish: str, taken: Iterable[str]) -> str:
    """`wish`, or `wish_2`, `wish_3`, ... when it is taken."""
    used = set(taken)
    name, count = wish, 1
    while name in used:
        count += 1
        name = f"{wish}_{count}"
    return name


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


def expanded_dot(x: Expr, y: Expr, total: Expr) -> Expr:
    """dot(x, y, total) as sums and products of single elements; see FUNCTIONS of expr."""
    assert isinstance(x, Load)
    assert isinstance(y, Load)
    for q in range(total.dtype.bits // x.dtype.bits):
        factors = (replace(load, index=(*load.index[:-1], load.index[-1] + q)) for load in (x, y))
        first, second = (Cast(factor, total.dtype) for factor in factors)
        total = Binary("add", total, Binary("mul", first, second))
    return total


def expanded_extreme(function: str, x: Expr, y: Expr) -> Expr:
    """min_number(x, y) or max_number(x, y) by min or max, which NaN takes part in."""
    inner = Select(Binary("ne", y, y), x, Binary(function[:3], x, y))
    return Select(Binary("ne", x, x), y, inner)
