"""Which outer loops to unroll into the innermost ones, and how often.

Nests are those whose statements are all open: whole nests of the program, and what stands beside
products inside of a loop. Rows of the latter are jammed as the former are,

    for h: product; for i: (z = 0; for j: z += S[i, j]; for d: O[i, d] /= z)

where four sums in order take the time of one. What products leave is beyond the second cache as a
rule: more than eight rows side by side come late from there (three arrays, four rows of each, on a
Sapphire Rapids: 0.65 times as fast as row by row; one array 1.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from loopwright.ir.expr import Var
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import Band, Leaf, Node, bands, nodes_of, statements_in
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.cost.affine_cost import CostModel
from loopwright.planner.cost.streams import streams_of
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.shared_copies import do_copies_share
from loopwright.planner.loop_plans.skipped_loops import loses_skips
from loopwright.transform.band_dependences import has_gaps
from loopwright.transform.unroll_and_jam import UnrollAndJam

__all__ = ["jam_loops", "total_of_nests"]

Pairs = Any  # isl.UnionMap, { S[i] -> T[j] }
_FACTORS = (2, 4)
_WORTH = 0.92  # a jam must bring the cost of its nest down to this share
_MOST = 2  # jams that a nest gets
_MOST_ROWS = 8  # side by side, beside products


@dataclass(frozen=True, slots=True)
class _Nest:
    """A nest of open statements."""

    band: Band
    pairs: Pairs  # of its instances that loops around it leave unordered
    around: Mapping[str, frozenset[str]]  # the iterators that these loops fix, by statement
    is_beside: bool  # products of the program

    def total(self, model: CostModel, jams: Mapping[str, int]) -> float:
        return model.total(self.band, self.band.statements, self.pairs, self.around, jams)

    def has_room(self, model: CostModel, jams: Mapping[str, int]) -> bool:
        """Whether copies of loops go through few enough rows of arrays."""
        if not self.is_beside:
            return True
        copies: dict[str, dict[str, float]] = {name: {} for name in self.band.statements}
        inside = list(bands(self.band))
        for band in inside:
            for name, iterator in model.followed(band).items():
                copies[name][iterator] = jams.get(band.loop, 1)
        for band in inside:
            if not any(bands(band.child)):
                moving = {Var(iterator) for iterator in model.followed(band).values()}
                streams = streams_of(model.program, band.statements, copies)
                if sum(not moving.isdisjoint(dict(x.last.terms)) for x in streams) > _MOST_ROWS:
                    return False
        return True


def total_of_nests(
    model: CostModel,
    root: Node,
    names: frozenset[str],
    pairs: Pairs,
    jams: Mapping[str, int] = MappingProxyType({}),
) -> float:
    """Cycles of all statements of `names`, or of the nests that have no others."""
    if names == frozenset(s.name for s in model.program.statements):
        return model.total(root, names, pairs, None, jams)
    return sum(nest.total(model, jams) for nest in _open_nests(model, root, names, pairs))


def jam_loops(
    draft: Draft, model: CostModel, names: Collection[str], pairs: Pairs
) -> dict[str, int]:
    """Take the jams that pay, nest by nest, the best first; the loops and their factors."""
    jams: dict[str, int] = {}
    for nest in list(_open_nests(model, nodes_of(draft.schedule), frozenset(names), pairs)):
        is_plain = all(model.followed(b).keys() >= b.statements for b in bands(nest.band))
        # Of a loop with gaps no block is whole.
        if is_plain and not has_gaps(model.program, nest.band.statements):
            jams |= _jam_nest(draft, model, nest)
    return jams


def _open_nests(
    model: CostModel,
    node: Node,
    names: frozenset[str],
    pairs: Pairs,
    around: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> Iterator[_Nest]:
    """The outermost loops all of whose statements are in `names`."""
    match node:
        case Leaf():
            return
        case Band():
            own = model.known.among(pairs, node.statements)
            if node.statements <= names:
                yield _Nest(node, own, around, len(names) < len(model.program.statements))
            elif node.statements & names:
                followed = model.followed(node)
                inside = {x: around.get(x, frozenset()) | {followed.get(x, "")} for x in names}
                left = model.known.unordered(own, node)
                yield from _open_nests(model, node.child, names, left, inside)
        case _:
            for branch in node.filters:
                if statements_in(branch.instances) & names:
                    yield from _open_nests(model, branch.child, names, pairs, around)


def _jam_nest(draft: Draft, model: CostModel, nest: _Nest) -> dict[str, int]:
    # Copies with buffers of their own are weighed as a whole, with the room that these take.
    is_open = model.has_buffers(nest.band)
    outer = [
        band.loop
        for band in bands(nest.band)
        if _may_have_copies(model.program, band)
        and (is_open or do_copies_share(model.program, band, model.machine))
    ]
    chosen: dict[str, int] = {}
    best = nest.total(model, {})
    while outer and len(chosen) < _MOST:
        options = [
            (nest.total(model, chosen | {loop: factor}), loop, factor)
            for loop in outer
            for factor in _FACTORS
            if nest.has_room(model, chosen | {loop: factor})
        ]
        if not options:
            break
        cost, loop, factor = min(options)
        if cost > _WORTH * best:
            break
        outer.remove(loop)
        if draft.take(UnrollAndJam(loop, factor)):
            chosen[loop] = factor
            best = cost
    return chosen


def _may_have_copies(program: Program, band: Band) -> bool:
    """Whether loops are inside of a loop, and no rows of them that data leave out one by one."""
    inner = list(bands(band.child))
    return bool(inner) and not any(loses_skips(program, band, one) for one in inner)
