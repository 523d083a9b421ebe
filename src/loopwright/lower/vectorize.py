"""Give vector loops their lanes: constant extent, plain bodies, a serial remainder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.loops import Block, For, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import rebuild, statements
from loopwright.lower.chunk import chunk_marked

__all__ = ["vectorize"]


def vectorize(nest: LoopNest, lanes: Mapping[str, int]) -> LoopNest:
    """`nest` with each VECTOR loop named in `lanes` cut into loops over exactly that many lanes.

    A vector loop whose body holds guards or loops becomes serial: lanes that part company would
    need masks. So below this pass a VECTOR loop holds stores and lets only.
    """
    return chunk_marked(replace(nest, body=rebuild(nest.body, _serial)), Mark.VECTOR, lanes, "v")


def _serial(node: Stmt) -> Stmt:
    """A vector loop that has no lanes made serial; any other statement as it is."""
    if not isinstance(node, For) or node.mark is not Mark.VECTOR:
        return node
    if all(isinstance(inner, Store | Let | Block) for inner in statements(node.body)):
        return node
    return replace(node, mark=Mark.SERIAL)
