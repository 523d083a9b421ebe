"""MeshProgram: a nest as what one core of a mesh runs, and what the host does around it."""

from __future__ import annotations

from math import prod

from loopwright.ir.expr import Const, Expr
from loopwright.ir.loops import Alloc, Block, Buffer, For, If, Let, Space, Stmt
from loopwright.lazy_dataclass import dataclass

__all__ = ["LINE", "MeshProgram", "scratchpad_need", "scratchpad_part"]

LINE = 128  # bytes: boxes begin at multiples in the scratchpad


@dataclass(frozen=True, slots=True)
class MeshProgram:
    """One spawn of all cores. In `body` the coordinates of the core are `thread.row` and `.column`.

    The host allocates `memory`, which all cores share, runs what comes `before`, starts the cores,
    and waits for their end.
    """

    name: str
    buffers: tuple[Buffer, ...]  # arguments in call order
    scalars: tuple[str, ...]  # run-time int64 values in call order
    memory: tuple[tuple[Buffer, tuple[Expr, ...]], ...]  # of main memory, with extents
    rows: int  # of cores that take part
    columns: int
    body: Stmt
    before: Stmt = Block(())


def scratchpad_part(alloc: Alloc) -> int:
    """Bytes of a scratchpad that an allocation takes."""
    extents = [int(extent.value.real) for extent in alloc.shape if isinstance(extent, Const)]
    size = prod(extents) * alloc.buffer.dtype.bytes
    return -(-size // LINE) * LINE


def scratchpad_need(stmt: Stmt) -> int:
    """Bytes of a scratchpad that a statement takes at a time, at most."""
    match stmt:
        case Alloc(buffer=buffer, body=body):
            own = scratchpad_part(stmt) if buffer.space is Space.SCRATCHPAD else 0
            return own + scratchpad_need(body)
        case Block(body=children):
            return max(map(scratchpad_need, children), default=0)
        case For(body=body) | Let(body=body):
            return scratchpad_need(body)
        case If(body=body, orelse=orelse):
            other = 0 if orelse is None else scratchpad_need(orelse)
            return max(scratchpad_need(body), other)
    return 0
