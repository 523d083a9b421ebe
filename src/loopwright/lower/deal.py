"""Blocks dealt out to hands, so that each gets as much work as any other.

parallel for hand in range(deal): for first in range(0, total, block * deal):
    at = first + (hand or deal - 1 - hand, in turn) * block: body(at)
"""

from __future__ import annotations

from loopwright.ir.expr import Expr, Select, Var
from loopwright.ir.loops import If, Stmt
from loopwright.lower.build import lets, loop

__all__ = ["dealt"]


def dealt(at: Var, total: Expr, block: Expr, hand: Expr, deal: Expr, body: Stmt) -> Stmt:
    """The blocks from `at` on, all below `total`, that one of `deal` hands gets: to and fro.

    Of 2*deal neighbouring blocks hand h has those at h and 2*deal - 1 - h: where work grows evenly
    from block to block, as in triangles, all hands get the same.
    """
    first = Var(f"{at.name}_round")
    is_back = (first // (block * deal) % 2).equals(1)
    place = Select(is_back, deal - 1 - hand, hand)
    inside = lets([(at, first + place * block)], If(at < total, body))
    return loop(first, 0, total, inside, block * deal)
