"""SplitAt: part a nest where one of its loops has gone some way beyond a loop around."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import islpy as isl

from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import context
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Leaf,
    Node,
    bands,
    perfect_nest,
    read_tree,
    split_nest,
    statements_in,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.transform.legal import find_band, open_bands, reordered, require_unmarked
from loopwright.transform.step import Step, refuse

__all__ = ["SplitAt"]

# What `candidates` offers; `apply` takes any distance.
_DISTANCE = 32


@dataclass(frozen=True, slots=True)
class SplitAt(Step):
    """Part the iterations of a nest up to some distance from a loop around from those beyond it.

    rewrite:  for t: for k in [t, t + D): for i in [k, n): S(k, i)
              ->  for t: for k in [t, t + D): for i in [k, min(t + D, n)): S(k, i)
                         for k_2 in [t, t + D): for i_2 in [t + D, n): S(k_2, i_2)
    needs:    a nest inside the loop around; iterations near and far are both not empty
    refuses:  IllegalStep with the reversed dependence

    What is near runs before what is far, for all iterations of the nest.
    """

    kind: ClassVar[str] = "split_at"

    nest: str  # the outermost loop of the nest
    loop: str  # the loop of it that is parted
    around: str
    distance: int  # the first value of `loop` that is far is the one of `around` plus this

    def __post_init__(self) -> None:
        if self.distance < 1:
            raise UsageError("split_at takes a distance of at least 1", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        root = read_tree(schedule.tree)
        whole = find_band(self, schedule, root, self.nest)
        inner, outer = (find_band(self, schedule, root, x) for x in (self.loop, self.around))
        loops = [band.loop for band in bands(whole)]
        if self.loop not in loops:
            refuse(self, f"loop '{self.loop}' is not in the nest of '{self.nest}'")
        if self.nest not in {band.loop for band in bands(outer.child)}:
            refuse(self, f"loop '{self.around}' does not stand around '{self.nest}'")
        require_unmarked(self, schedule, loops)
        if whole.statements != inner.statements:
            refuse(self, f"loop '{self.loop}' does not hold all statements of '{self.nest}'")
        for core in schedule.loop_cores:
            if set(core.loops) & set(loops):
                refuse(self, f"{core} is in the nest")
        near, far = self._parts(inner, outer)
        reached = _reaching(root, self.nest, schedule.tree.get_domain())
        for part, word in ((near, "near"), (far, "far")):
            if statements_in(part.intersect(reached)) == frozenset():
                refuse(self, f"nothing in the nest is {word}")
        present = [part.intersect(reached.intersect(part).universe()) for part in (near, far)]
        return reordered(self, schedule, split_nest(root, whole, present[0], present[1]))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[SplitAt]:
        """Every inner loop of a nest, by the loop directly around the nest."""
        for band in open_bands(schedule):
            if isinstance(band.child, Band):
                for inner in perfect_nest(band.child)[1:]:
                    yield cls(band.child.loop, inner.loop, band.loop, _DISTANCE)

    def _parts(self, inner: Band, outer: Band) -> tuple[isl.UnionSet, isl.UnionSet]:
        """`{ S : inner(S) - outer(S) < distance }` and what does not satisfy it."""
        one, other = (
            band.partial.intersect_domain(inner.partial.domain()).get_union_pw_aff(0)
            for band in (inner, outer)
        )
        apart = isl.UnionMap.from_union_pw_aff(one.sub(other))
        limit = self.distance - 1
        near, far = (
            isl.UnionSet(text, context=context())
            for text in (f"{{ [d] : d <= {limit} }}", f"{{ [d] : d > {limit} }}")
        )
        return apart.intersect_range(near).domain(), apart.intersect_range(far).domain()


def _reaching(node: Node, loop: str, instances: isl.UnionSet) -> isl.UnionSet:
    """The instances among the given ones that a loop runs."""
    match node:
        case Leaf():
            return isl.UnionSet.empty(instances.get_space())
        case Band(child=child):
            return instances if node.loop == loop else _reaching(child, loop, instances)
        case InOrder(filters=filters):
            for branch in filters:
                if loop in {band.loop for band in bands(branch.child)}:
                    return _reaching(branch.child, loop, instances.intersect(branch.instances))
    return isl.UnionSet.empty(instances.get_space())
