"""Broadcasts from every core of a row or column: each copies what it gives before any of them.

    for p in range(8): broadcast A_box[low(p)] = A_part[...] of p
->  for r: for c: A_box[low(own) + r, c] = A_part[...]      all cores at once, each its own part
    for p in range(8): give A_box[low(p)] = A_part[...] of p

A root that also stores what it sends takes three slots of the second pipeline for a vector, and all
others, who receive and store, wait for it. Now it loads and sends: two on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Buffer,
    For,
    Let,
    LoopNest,
    MeshBroadcast,
    Stmt,
    Store,
)
from loopwright.ir.visit import fresh_name, rebuild, statements, substitute
from loopwright.lower.build import bound_names, seq
from loopwright.lower.linear_forms import normal
from loopwright.lower.mesh_nests.map_to_mesh import COLUMN, ROW

__all__ = ["keep_own_parts"]


def keep_own_parts(nest: LoopNest) -> LoopNest:
    """The nest whose roots have their own copies before they give."""
    taken = bound_names(nest)
    memory = {s.buffer.name: s.buffer for s in statements(nest.body) if isinstance(s, Alloc)}

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For):
            return stmt
        given = _given(stmt.body)
        if given is None or given.is_kept or given.root != Var(stmt.var):
            return stmt
        own = Var(COLUMN if given.axis is Axis.ROW else ROW)
        copied = _in_lets(stmt.body, _copied(given, memory[given.target], taken))
        first = rebuild(copied, expression=lambda expr: _at(expr, stmt.var, own))
        kept = _in_lets(stmt.body, replace(given, is_kept=True))
        return seq(_renamed(first, taken), replace(stmt, body=kept))

    return replace(nest, body=rebuild(nest.body, visit))


def _given(stmt: Stmt) -> MeshBroadcast | None:
    """The broadcast that a loop does, and nothing else."""
    while isinstance(stmt, Let):
        stmt = stmt.body
    return stmt if isinstance(stmt, MeshBroadcast) else None


def _in_lets(stmt: Stmt, body: Stmt) -> Stmt:
    """`body` inside of the bindings of a statement."""
    return replace(stmt, body=_in_lets(stmt.body, body)) if isinstance(stmt, Let) else body


def _at(expr: Expr, name: str, value: Expr) -> Expr:
    return normal(substitute(expr, {name: value}))


def _copied(given: MeshBroadcast, target: Buffer, taken: set[str]) -> Stmt:
    """Loops that copy what a root gives, on the root."""
    offset: list[Expr] = []
    loops: list[For] = []
    for at, extent in enumerate(given.shape):
        name = fresh_name(f"{given.target}_{at}", taken)
        taken.add(name)
        offset.append(Var(name))
        loops.append(For(name, Const(0), extent, given, Const(1)))
    value = Load(given.source, _moved(given.source_start, offset), target.dtype)
    made: Stmt = Store(given.target, _moved(given.target_start, offset), value)
    for loop in reversed(loops):
        made = replace(loop, body=made)
    return made


def _moved(start: Sequence[Expr], offset: Sequence[Expr]) -> tuple[Expr, ...]:
    """Subscripts at an offset along the last dimensions."""
    outer = len(start) - len(offset)
    inner = (normal(at + by) for at, by in zip(start[outer:], offset, strict=True))
    return (*start[:outer], *inner)


def _renamed(stmt: Stmt, taken: set[str]) -> Stmt:
    """Bindings under new names: those of the broadcasts follow."""
    if not isinstance(stmt, Let):
        return stmt
    name = fresh_name(f"{stmt.name}_own", taken)
    taken.add(name)
    here = {stmt.name: Var(name)}
    inner = rebuild(stmt.body, expression=lambda expr: substitute(expr, here))
    return Let(name, stmt.value, _renamed(inner, taken))
