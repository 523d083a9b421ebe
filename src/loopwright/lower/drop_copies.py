"""Copies of arrays that cores in step do without: they read the array, and meet before they put."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopwright.diagnostics import InternalError
from loopwright.ir.expr import Expr, Load
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    BarrierScope,
    Block,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Stmt,
    Store,
)
from loopwright.ir.schedule import DroppedCopy
from loopwright.ir.text import stmt_text
from loopwright.ir.visit import rebuild, rewrite, statements
from loopwright.lower.build import seq

__all__ = ["drop_copies"]

_MEET = Barrier(BarrierScope.BLOCK)


def drop_copies(nest: LoopNest, in_place: Sequence[DroppedCopy]) -> LoopNest:
    """The nest without the loops that make a copy; what was read from it comes from the array.

        alloc B_old: B_old = B;  thread for i_t: ..copy B_old_part = B_old..; copy B = B_box
    ->  thread for i_t: ..copy B_old_part = B..; barrier; copy B = B_box
    """
    body = nest.body
    for one in in_place:
        body = _met(_read(_without(body, one.copy), one.copy, one.array), one)
    return replace(nest, body=body)


def _without(stmt: Stmt, copy: str) -> Stmt:
    """A statement without the memory of a copy and the loops that make it."""
    match stmt:
        case Alloc(buffer=buffer, body=body):
            inner = _without(body, copy)
            return inner if buffer.name == copy else replace(stmt, body=inner)
        case Block(body=children):
            return seq(*(child for child in children if not _writes(child, copy)))
    return stmt


def _writes(stmt: Stmt, name: str) -> bool:
    return any(
        (isinstance(s, Copy) and s.target == name) or (isinstance(s, Store) and s.buffer == name)
        for s in statements(stmt)
    )


def _read(stmt: Stmt, copy: str, array: str) -> Stmt:
    """A statement that reads the array in place of the copy."""

    def change(node: Expr) -> Expr:
        if isinstance(node, Load) and node.array == copy:
            return replace(node, array=array)
        return node

    def visit(node: Stmt) -> Stmt:
        if isinstance(node, Copy) and node.source == copy:
            return replace(node, source=array)
        return node

    return rebuild(stmt, visit, lambda expr: rewrite(expr, change))


def _met(stmt: Stmt, one: DroppedCopy) -> Stmt:
    """A statement in which all cores meet before they put to the array."""
    match stmt:
        case Copy(target=target) if target == one.array:
            return seq(_MEET, stmt, _MEET) if one.is_closed else seq(_MEET, stmt)
        case If(body=Copy(target=target), orelse=None) if target == one.array:
            return seq(_MEET, stmt, _MEET) if one.is_closed else seq(_MEET, stmt)
        case For(body=body) | Let(body=body) | Alloc(body=body):
            return replace(stmt, body=_met(body, one))
        case Block(body=children):
            return seq(*(_met(s, one) if _writes(s, one.array) else s for s in children))
    raise InternalError(f"cores put '{one.array}' where they do not meet", stmt_text(stmt))
