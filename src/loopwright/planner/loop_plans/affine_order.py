"""Another order for the loops of an affine program: distributed, interchanged, fused again.

Statements that depend on each other in circles stay together; all others get loops of their own,
by recursion over the loops. Every group takes the loop order that the cost model likes best among
those that keep the dependences. Then neighbours are fused where that saves moving data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loopwright.analysis.dependences import strongly_connected_components
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    bands,
    fused,
    in_sequence,
    map_bands,
    perfect_nest,
    restricted,
    reversed_band,
    sequence,
    statements_in,
    without_loop,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.cost.affine_cost import CostModel
from loopwright.planner.loop_plans.aligned_loops import aligned_bands
from loopwright.transform.band_dependences import edges, goes_back, has_same_range
from loopwright.transform.isl_scheduler import is_schedulable, scheduled_band

__all__ = ["OrderSearch"]

Pairs = Any  # isl.UnionMap, { S[i] -> T[j] }
Fixed = Mapping[str, frozenset[str]]  # the iterators of each statement that loops around set

_WORTH = 0.9  # another order must cost this share of the source's to be taken
_FUSED = 0.98  # likewise a fused loop of the two it is made of
_SAME = 1.01  # parts of one loop of the source, and outer loops, go together at no cost
_MOST_FREE = 3  # nested loops of which every order is looked at


@dataclass(frozen=True, slots=True)
class OrderSearch:
    """The search for an order of one program's statements."""

    program: Program
    model: CostModel

    def improved(self, names: Collection[str], pairs: Pairs, source: Node) -> Node | None:
        """A better tree for some statements than `source`; None when it is good enough."""
        ordered = [s.name for s in self.program.statements if s.name in names]
        found = self._built(ordered, pairs, source, {})
        found = self._fused(found, ordered, pairs, ())
        before = self.model.total(source, ordered, pairs)
        after = self.model.total(found, ordered, pairs)
        return found if after < _WORTH * before else None

    # -- distribution and order -------------------------------------------------------------------

    def _built(self, names: Sequence[str], pairs: Pairs, source: Node, fixed: Fixed) -> Node:
        """The statements in groups, each in its best order."""
        groups = strongly_connected_components(names, edges(pairs))
        if len(groups) == 1:
            return self._group(names, pairs, source, fixed)
        parts = []
        for group in groups:
            inner = restricted(source, group)
            own = self.model.known.among(pairs, group)
            parts.append((group, self._group(group, own, inner, fixed)))
        return in_sequence(self.program, parts)

    def _group(self, names: Sequence[str], pairs: Pairs, source: Node, fixed: Fixed) -> Node:
        """Statements of one circle, or a single one, in the best order of the loops they share.

        Where circles of statements in different loops walk far through memory, isl's scheduler may
        know loops that fit them together; it is asked once, for all loops.
        """
        source = self._without_fixed(source, fixed)
        if not isinstance(source, Band):
            return source
        found = self._aligned(names, pairs, source, fixed)
        if fixed or len(names) == 1 or not is_schedulable(self.program, names):
            return found
        if not self.model.has_far(found, names):
            return found
        other = scheduled_band(self.program, names, pairs, source)
        if other is None:
            return found
        tree = self._ordered(names, pairs, other, fixed, is_source=False)
        before = self.model.total(found, names, pairs)
        return tree if self.model.total(tree, names, pairs) < _WORTH * before else found

    def _aligned(self, names: Sequence[str], pairs: Pairs, source: Band, fixed: Fixed) -> Node:
        """The best order of the loops that stand inside each other, or of one made for all.

        See planner/loop_plans/aligned_loops.
        """
        found = self._ordered(names, pairs, source, fixed)
        depths = {len(self.program.statement(name).iterators) for name in names}
        if len(depths) == 1 or not self.model.has_far(found, names):
            return found
        cost = self.model.total(found, names, pairs, fixed)
        for band in aligned_bands(self.program, names, pairs, fixed, source.loop):
            inside = self._fixed_by(band, names, fixed)
            rest = self._without_all_fixed(source, inside)
            inner = self._built(names, self.model.known.unordered(pairs, band), rest, inside)
            tree = replace(band, child=inner)
            other = self.model.total(tree, names, pairs, fixed)
            if other < _WORTH * cost:
                found, cost = tree, other
        return found

    def _ordered(
        self,
        names: Sequence[str],
        pairs: Pairs,
        source: Band,
        fixed: Fixed,
        *,
        is_source: bool = True,
    ) -> Node:
        """The best order of the loops that stand directly inside each other in `source`."""
        options: list[tuple[float, Node]] = []
        run = perfect_nest(source)
        # All orders of three loops; of more those that move loops inwards only.
        for loop in run if len(run) <= _MOST_FREE else run[:2]:
            band = self._forward(loop, pairs)
            if band is None:
                continue
            rest = without_loop(source, band.loop)
            inside = self._fixed_by(band, names, fixed)
            inner = self._built(names, self.model.known.unordered(pairs, band), rest, inside)
            tree = replace(band, child=inner)
            options.append((self.model.total(tree, names, pairs, fixed), tree))
        if not options:
            return source
        cost, best = min(options, key=lambda option: option[0])
        if is_source and options[0][0] * _WORTH <= cost:
            return options[0][1]  # what was written stays unless another order is clearly better
        return best

    def _forward(self, band: Band, pairs: Pairs) -> Band | None:
        """A loop in the direction that keeps the dependences; None where neither does."""
        return next((b for b in (band, reversed_band(band)) if not goes_back(pairs, b)), None)

    def _fixed_by(self, band: Band, names: Sequence[str], fixed: Fixed) -> Fixed:
        followed = self.model.followed(band)
        return {n: fixed.get(n, frozenset()) | {followed.get(n, "")} for n in names}

    def _without_fixed(self, node: Node, fixed: Fixed) -> Node:
        """`node` without outer loops that make one iteration, because others set their iterator."""
        if not isinstance(node, Band):
            return node
        followed = self.model.followed(node)
        moved = [n for n in node.statements if followed.get(n) not in fixed.get(n, ())]
        return node if moved else self._without_fixed(node.child, fixed)

    def _without_all_fixed(self, node: Node, fixed: Fixed) -> Node:
        """`node` without any loop that makes one iteration, because others set its iterator."""

        def change(band: Band) -> Node:
            followed = self.model.followed(band)
            moved = [n for n in band.statements if followed.get(n) not in fixed.get(n, ())]
            return band if moved else self._without_all_fixed(band.child, fixed)

        return map_bands(node, change)

    # -- fusion -----------------------------------------------------------------------------------

    def _fused(
        self, node: Node, names: Collection[str], pairs: Pairs, outer: tuple[Band, ...]
    ) -> Node:
        match node:
            case Leaf():
                return node
            case Band(child=child):
                inside = self.model.known.unordered(pairs, node)
                return replace(node, child=self._fused(child, names, inside, (*outer, node)))
            case InOrder(filters=filters):
                return self._neighbours(filters, pairs, outer)

    def _neighbours(
        self, filters: tuple[Filter, ...], pairs: Pairs, outer: tuple[Band, ...]
    ) -> Node:
        """Branches with neighbours made one where that pays."""
        done: list[Filter] = []
        for branch in filters:
            inside = statements_in(branch.instances)
            own = self.model.known.among(pairs, inside)
            child = self._fused(branch.child, inside, own, outer)
            self._append(done, replace(branch, child=child), pairs, outer)
        return sequence(done)

    def _append(
        self, done: list[Filter], branch: Filter, pairs: Pairs, outer: tuple[Band, ...]
    ) -> bool:
        """Add a branch to those before it; whether it was made one with them, where that pays."""
        is_one = False
        while done:
            one = self._one(done[-1], branch, pairs, outer)
            if one is None:
                break
            done.pop()
            branch, is_one = one, True
        done.append(branch)
        return is_one

    def _bodies(self, left: Filter, right: Filter, pairs: Pairs, outer: tuple[Band, ...]) -> Node:
        """The bodies of two loops one after the other, fused where they meet.

        Inside each of them all was tried before; to try again would take quadratic time.
        """
        done, rest = _parts(left), _parts(right)
        for at, branch in enumerate(rest, 1):
            if not self._append(done, branch, pairs, outer):
                return sequence((*done, *rest[at:]))
        return sequence(done)

    def _one(
        self, left: Filter, right: Filter, pairs: Pairs, outer: tuple[Band, ...]
    ) -> Filter | None:
        """Two branches as one loop; None when that is not legal or does not pay."""
        first, second = left.child, right.child
        if not isinstance(first, Band) or not isinstance(second, Band):
            return None
        was_one = bool(self._followed(first) & self._followed(second))
        is_outer = any(True for band in (first, second) for _ in bands(band.child))
        # Conditions for iterations that one of them lacks cost nothing outside innermost loops.
        if not (was_one and is_outer) and not has_same_range(self.program, outer, first, second):
            return None
        limit = _SAME if was_one or is_outer else _FUSED
        bodies = replace(left, child=first.child), replace(right, child=second.child)
        names = statements_in(left.instances) | statements_in(right.instances)
        here = self.model.known.among(pairs, names)
        both = fused(first, second, sequence(bodies))
        if goes_back(here, both):
            return None
        inside = self.model.known.unordered(here, both)
        tree = replace(both, child=self._bodies(*bodies, inside, (*outer, both)))
        apart = self.model.total(sequence((left, right)), names, here)
        if self.model.total(tree, names, here) > limit * apart:
            return None
        return Filter(left.instances.union(right.instances), tree)

    def _followed(self, band: Band) -> set[str]:
        """The loops of the source that a loop runs through: iterators are called after them."""
        return {iterator for iterator in self.model.followed(band).values() if iterator}


def _parts(branch: Filter) -> list[Filter]:
    """A branch, or if it is a sequence, the branches of that."""
    match branch.child:
        case InOrder(filters=filters):
            return [replace(b, instances=b.instances.intersect(branch.instances)) for b in filters]
        case _:
            return [branch]
