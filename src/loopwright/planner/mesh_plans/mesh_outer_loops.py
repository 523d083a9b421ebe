"""Loops around products that all cores of a mesh run through together.

Cores that take one product of a batch after another give panels of it to each other. Of products
that they take apart, each on its own, every core brings in all that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from loopwright.ir.schedule_tree import Band, Node, nodes_of, path_to, perfect_nest
from loopwright.planner.draft import Draft
from loopwright.transform.loop_fusion import Fuse

__all__ = ["joined_body", "outer_loops"]

_PRODUCT = 3  # loops of a product


def outer_loops(
    band: Band,
    cycles: Callable[[Band], float | None],  # of a nest whose first two loops are dealt out
    trips: Callable[[Band], float],
    wait: float,  # cycles of each iteration beside the product's
) -> int:
    """How many loops of a nest stand around the product that takes the least time in all."""
    nest = perfect_nest(band)
    outer = len(nest) - _PRODUCT
    if outer < 1:
        return 0
    inner = cycles(nest[outer])
    if inner is None:
        return 0
    apart = cycles(band)
    together = prod(map(trips, nest[:outer])) * (inner + wait)
    return outer if apart is None or together < apart else 0


def joined_body(draft: Draft, first: Band, second: Band, outer: int) -> Node | None:
    """The body of the outer loops of two nests, fused in the draft; None where that cannot be.

    What one nest begins and the other one goes on with then has its boxes in common.
    """
    pairs = list(zip(perfect_nest(first)[:outer], perfect_nest(second)[:outer], strict=False))
    if not outer or len(pairs) < outer:
        return None
    if not draft.take(*(Fuse(a.loop, b.loop) for a, b in pairs)):
        return None
    return path_to(nodes_of(draft.schedule), pairs[-1][0].loop)[-1].child
