"""Which outer loops to unroll into the innermost ones, and how often.

Copies of an outer loop share what does not move with it: rows that stay, the other operand of a
product. They also are chains of dependences beside each other, which hide each other's latency.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from loopwright.ir.schedule_tree import Band, Node, bands, nodes_of
from loopwright.planner.affine_cost import CostModel
from loopwright.planner.draft import Draft
from loopwright.transform.band_dependences import among, is_strided
from loopwright.transform.unroll_and_jam import UnrollAndJam

__all__ = ["jam_loops"]

Pairs = Any  # isl.UnionMap, { S[i] -> T[j] }

_FACTORS = (2, 4)
_WORTH = 0.92  # a jam must bring the cost of its nest down to this share
_MOST = 2  # jams that a nest gets


def jam_loops(draft: Draft, model: CostModel, names: Collection[str], pairs: Pairs) -> None:
    """Take the jams that pay, nest by nest, the best first."""
    for nest in _outermost(nodes_of(draft.schedule)):
        inside = nest.statements
        is_plain = all(model.followed(band).keys() >= band.statements for band in bands(nest))
        # Of a loop with gaps no block is whole.
        if inside <= set(names) and is_plain and not is_strided(model.program, inside):
            _jam_nest(draft, model, nest, inside, among(pairs, inside))


def _outermost(node: Node) -> list[Band]:
    found: list[Band] = []
    covered: set[str] = set()
    for band in bands(node):
        if band.loop not in covered:
            found.append(band)
            covered.update(inner.loop for inner in bands(band))
    return found


def _jam_nest(
    draft: Draft, model: CostModel, nest: Band, names: Collection[str], pairs: Pairs
) -> None:
    outer = [b.loop for b in bands(nest) if any(True for _ in bands(b.child))]
    chosen: dict[str, int] = {}
    best = model.total(nest, names, pairs)
    while outer and len(chosen) < _MOST:
        options = [
            (model.total(nest, names, pairs, None, chosen | {loop: factor}), loop, factor)
            for loop in outer
            for factor in _FACTORS
        ]
        cost, loop, factor = min(options)
        if cost > _WORTH * best:
            return
        outer.remove(loop)
        if draft.take(UnrollAndJam(loop, factor)):
            chosen[loop] = factor
            best = cost
