"""LoopNest -> MeshProgram: the loops over rows and columns of cores become a spawn."""

from __future__ import annotations

from loopwright.diagnostics import InternalError
from loopwright.ir.expr import Const, Expr
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Barrier,
    Block,
    Buffer,
    For,
    If,
    LoopNest,
    Mark,
    Space,
    Stmt,
)
from loopwright.ir.mesh_program import MeshProgram
from loopwright.ir.text import stmt_text
from loopwright.ir.visit import statements
from loopwright.lower.build import seq
from loopwright.lower.mesh_nests.map_to_mesh import is_by_first_core

__all__ = ["split_mesh"]


def split_mesh(nest: LoopNest) -> MeshProgram | None:
    """What the cores of a mesh run for a nest (`map_to_mesh`); None where no loop is mapped."""
    memory: list[tuple[Buffer, tuple[Expr, ...]]] = []
    shape: dict[Axis, int] = {}
    body: Stmt = nest.body
    while True:
        match body:
            case Alloc(buffer=buffer, shape=extents) if buffer.space is Space.SCRATCH:
                memory.append((buffer, extents))
            case For(mark=Mark.THREAD, axis=Axis() as axis, stop=Const(value=int(count))):
                shape[axis] = count
            case _:
                break
        body = body.body
    if not shape:
        return None
    if shape.keys() != {Axis.ROW, Axis.COLUMN}:
        raise InternalError("a nest for a mesh has loops over rows and columns", stmt_text(body))
    rows, columns = shape[Axis.ROW], shape[Axis.COLUMN]
    before, rest = _before_cores(body)
    return MeshProgram(
        nest.name, nest.buffers, nest.scalars, tuple(memory), rows, columns, rest, before
    )


def _before_cores(body: Stmt) -> tuple[Stmt, Stmt]:
    """What the host does before it starts the cores, and the rest.

    Statements of the first core that come before all others are as well done by the host, which
    has caches, and nobody waits for them at a barrier.
    """
    children = list(_flat(body))
    own: list[Stmt] = []
    while children and (_is_for_host(children[0]) or isinstance(children[0], Barrier)):
        head = children.pop(0)
        own += [head.body] if isinstance(head, If) else []
    return seq(*own), seq(*children)


def _is_for_host(stmt: Stmt) -> bool:
    return is_by_first_core(stmt) and not any(
        isinstance(inner, Alloc) and inner.buffer.space is Space.SCRATCHPAD
        for inner in statements(stmt)
    )


def _flat(stmt: Stmt) -> tuple[Stmt, ...]:
    if not isinstance(stmt, Block):
        return (stmt,)
    return tuple(part for child in stmt.body for part in _flat(child))
