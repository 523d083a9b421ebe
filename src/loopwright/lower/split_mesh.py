"""LoopNest -> MeshProgram: the loops over rows and columns of cores become a spawn."""

from __future__ import annotations

from loopwright.diagnostics import InternalError
from loopwright.ir.expr import Const, Expr
from loopwright.ir.loops import Alloc, Axis, Buffer, For, LoopNest, Mark, Space, Stmt
from loopwright.ir.mesh_program import MeshProgram
from loopwright.ir.text import stmt_text

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
    return MeshProgram(nest.name, nest.buffers, nest.scalars, tuple(memory), rows, columns, body)
