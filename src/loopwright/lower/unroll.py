"""Give unrolled loops their copies: constant extent and a serial remainder."""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.ir.loops import LoopNest, Mark
from loopwright.lower.chunk import chunk_marked

__all__ = ["unroll"]


def unroll(nest: LoopNest, factors: Mapping[str, int]) -> LoopNest:
    """`nest` with each UNROLL loop named in `factors` cut into loops of exactly that many copies.

    The copies stay a loop with the mark: repeating the text is the backend's business.
    """
    return chunk_marked(nest, Mark.UNROLL, factors, "u")
