"""Passes on the loops of a nest that nothing leaves early.

Passes move statements of loops, strip-mine them and run parts of them ahead; all of that is for
loops that run to their end. Where a nest has a Leave, each outermost loop without one is a nest of
its own to them, with all that stands around it as arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    LabelledBlock,
    Leave,
    Let,
    LoopNest,
    Stmt,
)
from loopwright.ir.visit import statements

__all__ = ["beside_leaves"]


def beside_leaves(nest: LoopNest, change: Callable[[LoopNest], LoopNest]) -> LoopNest:
    """The nest with `change` made to the outermost loops that nothing leaves early."""

    def down(stmt: Stmt, buffers: tuple[Buffer, ...], names: tuple[str, ...]) -> Stmt:
        match stmt:
            case For() if not _is_left(stmt):
                return change(replace(nest, buffers=buffers, scalars=names, body=stmt)).body
            case For(var=name, body=body) | Let(name=name, body=body):
                return replace(stmt, body=down(body, buffers, (*names, name)))
            case Alloc(buffer=buffer, body=body):
                return replace(stmt, body=down(body, (*buffers, buffer), names))
            case LabelledBlock(body=body):
                return replace(stmt, body=down(body, buffers, names))
            case Block(body=body):
                return Block(tuple(down(child, buffers, names) for child in body))
            case If(body=body, orelse=orelse):
                other = None if orelse is None else down(orelse, buffers, names)
                return replace(stmt, body=down(body, buffers, names), orelse=other)
        return stmt

    if not _is_left(nest.body):
        return change(nest)
    return replace(nest, body=down(nest.body, nest.buffers, nest.scalars))


def _is_left(stmt: Stmt) -> bool:
    return any(
        isinstance(inner, Leave) or (isinstance(inner, For) and inner.interrupt is not None)
        for inner in statements(stmt)
    )
