"""Traversal of loop nests, and of the expressions in them (see walk)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

from loopwright.ir.expr import Expr
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Copy,
    For,
    If,
    Let,
    Prefetch,
    Stmt,
    Store,
)
from loopwright.ir.walk import (
    children,
    fresh_name,
    loads,
    names,
    operands,
    rewrite,
    substitute,
    walk,
)

__all__ = [
    "children",
    "expressions",
    "fresh_name",
    "loads",
    "loop_depth",
    "names",
    "operands",
    "rebuild",
    "rewrite",
    "statements",
    "substitute",
    "walk",
]


def statements(stmt: Stmt) -> Iterator[Stmt]:
    """`stmt` and every statement below it, parents first."""
    waiting = [stmt]  # a stack: generators inside each other would cost a step per level
    while waiting:
        here = waiting.pop()
        yield here
        match here:
            case Block(body=body):
                waiting += reversed(body)
            case For(body=inner) | Let(body=inner) | Alloc(body=inner):
                waiting.append(inner)
            case If(body=inner, orelse=orelse):
                if orelse is not None:
                    waiting.append(orelse)
                waiting.append(inner)
            case Store() | Copy() | Barrier() | Prefetch():
                pass
            case _:
                assert_never(here)


def loop_depth(stmt: Stmt) -> int:
    """How many loops stand inside each other at most."""
    match stmt:
        case For(body=inner):
            return 1 + loop_depth(inner)
        case Block(body=body):
            return max(map(loop_depth, body), default=0)
        case Let(body=inner) | Alloc(body=inner):
            return loop_depth(inner)
        case If(body=inner, orelse=orelse):
            return max(loop_depth(inner), 0 if orelse is None else loop_depth(orelse))
        case Store() | Copy() | Barrier() | Prefetch():
            return 0
        case _:
            assert_never(stmt)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that stand directly in `stmt`, not in statements below it."""
    match stmt:
        case For(start=start, stop=stop, step=step, until=until):
            return (start, stop, step) if until is None else (start, stop, step, until)
        case If(cond=cond):
            return (cond,)
        case Let(value=value):
            return (value,)
        case Store(index=index, value=value):
            return (*index, value)
        case Alloc(shape=shape):
            return shape
        case Copy(target_start=target, source_start=source, shape=shape):
            return (*target, *source, *shape)
        case Prefetch(index=index):
            return index
        case Block() | Barrier():
            return ()
        case _:
            assert_never(stmt)


def rebuild(
    stmt: Stmt,
    statement: Callable[[Stmt], Stmt] = lambda s: s,
    expression: Callable[[Expr], Expr] = lambda e: e,
) -> Stmt:
    """Rebuild `stmt` bottom-up: expressions through `expression`, then nodes through `statement`.

    `expression` sees the whole expressions that stand in a statement, not their parts.
    """

    def down(child: Stmt) -> Stmt:
        return rebuild(child, statement, expression)

    def each(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(map(expression, index))

    match stmt:
        case Block(body=body):
            return statement(Block(tuple(map(down, body))))
        case For(start=start, stop=stop, step=step, until=until, body=inner):
            bounds = expression(start), expression(stop), expression(step)
            ends = None if until is None else expression(until)
            changed = replace(stmt, start=bounds[0], stop=bounds[1], step=bounds[2], until=ends)
            return statement(replace(changed, body=down(inner)))
        case If(cond=cond, body=inner, orelse=orelse):
            other = None if orelse is None else down(orelse)
            return statement(If(expression(cond), down(inner), other))
        case Let(value=value, body=inner):
            return statement(replace(stmt, value=expression(value), body=down(inner)))
        case Store(index=index, value=value):
            return statement(replace(stmt, index=each(index), value=expression(value)))
        case Alloc(shape=shape, body=inner):
            return statement(replace(stmt, shape=each(shape), body=down(inner)))
        case Copy(target_start=target, source_start=source, shape=shape):
            changed_copy = replace(stmt, target_start=each(target), source_start=each(source))
            return statement(replace(changed_copy, shape=each(shape)))
        case Prefetch(index=index):
            return statement(replace(stmt, index=each(index)))
        case Barrier():
            return statement(stmt)
        case _:
            assert_never(stmt)
