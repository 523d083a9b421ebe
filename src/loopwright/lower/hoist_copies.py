"""Parts that are the same in every iteration of a loop are brought in once, before it.

    for q_t: alloc C_part: copy C_part = C[...]; S
->  alloc C_part: if there is an iteration: copy C_part = C[...]
                  for q_t: S

Of a panel that cores have in common and that no mapped loop changes (`share_box`) each core keeps
its part from the first tile to the last one. So it does with boxes that are the same in all
iterations of a loop in which boxes are handed on (`hand_on`).
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import Binary, Expr
from loopwright.ir.loops import (
    Alloc,
    Block,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    MeshBroadcast,
    MeshMessage,
    Stmt,
    Store,
)
from loopwright.ir.visit import expressions, names, rebuild, statements
from loopwright.lower.build import seq

__all__ = ["hoist_copies"]


def hoist_copies(nest: LoopNest) -> LoopNest:
    """The nest with parts of panels before the loops that do not change them."""
    given = {s.source for s in statements(nest.body) if isinstance(s, MeshBroadcast)}
    has_messages = _has_messages(nest.body)
    if not given and not has_messages:
        return nest

    def visit(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and has_messages and _has_messages(stmt):
            return _before_messages(stmt)
        return _before(stmt, given) if isinstance(stmt, For) else stmt

    return replace(nest, body=rebuild(nest.body, visit))


def _before(loop: For, given: set[str]) -> Stmt:
    """A loop behind what all of its iterations bring in first, alike."""
    lets: list[Let] = []
    inner = loop.body
    while isinstance(inner, Let):
        lets.append(inner)
        inner = inner.body
    if not isinstance(inner, Alloc) or inner.buffer.name not in given:
        return loop
    if not isinstance(inner.body, Block):
        return loop
    first, *rest = inner.body.body
    copy = _copied(first)
    if copy is None or copy.is_async or copy.target != inner.buffer.name:
        return loop
    used = {name for s in statements(first) for expr in expressions(s) for name in names(expr)}
    used |= {name for expr in expressions(inner) for name in names(expr)}
    if used & {loop.var, *(let.name for let in lets)}:
        return loop
    if any(_written(s) in (copy.target, copy.source) for each in rest for s in statements(each)):
        return loop
    body = seq(*rest)
    for let in reversed(lets):
        body = replace(let, body=body)
    is_run: Expr = Binary("lt", loop.start, loop.stop)
    return replace(inner, body=seq(If(is_run, first), replace(loop, body=body)))


def _has_messages(stmt: Stmt) -> bool:
    return any(isinstance(inner, MeshMessage) for inner in statements(stmt))


def _before_messages(loop: For) -> Stmt:
    """A loop behind the boxes that stand first in it and do not change, with their names."""
    if isinstance(loop.body, Let) and loop.var not in names(loop.body.value):
        whole = _before_messages(replace(loop, body=loop.body.body))
        return loop if isinstance(whole, For) else replace(loop.body, body=whole)
    if not isinstance(loop.body, Alloc):
        return loop
    made = _before(loop, {loop.body.buffer.name})
    if not isinstance(made, Alloc):
        return loop
    assert isinstance(made.body, Block)
    *head, inner = made.body.body
    assert isinstance(inner, For)
    return replace(made, body=seq(*head, _before_messages(inner)))


def _copied(stmt: Stmt) -> Copy | None:
    """The copy that a statement does under some conditions, and nothing else."""
    while isinstance(stmt, If) and stmt.orelse is None:
        stmt = stmt.body
    return stmt if isinstance(stmt, Copy) else None


def _written(stmt: Stmt) -> str:
    match stmt:
        case Store(buffer=name) | Copy(target=name) | MeshBroadcast(target=name):
            return name
    return ""
