"""Fuse and Distribute: make one loop of two that follow each other, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, assert_never

import islpy as isl

from loopwright.diagnostics import UsageError
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    Sequence,
    bands,
    map_bands,
    read_tree,
    rename_band,
    sequence,
)
from loopwright.ir.walk import fresh_name
from loopwright.transform.legal import find_band, open_bands, reordered, require_unmarked
from loopwright.transform.step import Step, refuse

__all__ = ["Distribute", "Fuse"]


@dataclass(frozen=True, slots=True)
class Fuse(Step):
    """Make one loop of two loops that follow each other directly.

    rewrite:  for i: S(i)
              for j: T(j)
              ->  for i: S(i); T(i)
    needs:    nothing stands between the loops
    refuses:  IllegalStep with the reversed dependence
    """

    kind: ClassVar[str] = "fuse"

    first: str  # the loop that stays
    second: str  # the loop that goes

    def __post_init__(self) -> None:
        if self.first == self.second:
            raise UsageError("fuse takes two different loops", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        root = read_tree(schedule.tree)
        for loop in (self.first, self.second):
            find_band(self, schedule, root, loop)
        require_unmarked(self, schedule, (self.first, self.second))
        if (self.first, self.second) not in set(_neighbours(root)):
            refuse(self, f"loop '{self.second}' does not follow loop '{self.first}' directly")
        return reordered(self, schedule, _fused(root, self.first, self.second))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Fuse]:
        allowed = {band.loop for band in open_bands(schedule)}
        for first, second in _neighbours(read_tree(schedule.tree)):
            if {first, second} <= allowed:
                yield cls(first, second)


@dataclass(frozen=True, slots=True)
class Distribute(Step):
    """Give each part of a loop's body a loop of its own.

    rewrite:  for i: S(i); T(i)
              ->  for i: S(i)
                  for i_2: T(i_2)
    needs:    the body of the loop is a sequence
    refuses:  IllegalStep with the reversed dependence
    """

    kind: ClassVar[str] = "distribute"

    loop: str

    def apply(self, schedule: Schedule) -> Schedule:
        root = read_tree(schedule.tree)
        band = find_band(self, schedule, root, self.loop)
        require_unmarked(self, schedule, [self.loop])
        if not isinstance(band.child, Sequence):
            refuse(self, f"the body of loop '{self.loop}' has one part only")
        taken = {other.loop for other in bands(root)}
        parts: list[Filter] = []
        for branch in band.child.filters:
            name = fresh_name(self.loop, taken) if parts else self.loop
            taken.add(name)
            partial = band.partial.intersect_domain(branch.instances.universe())
            part = rename_band(Band(self.loop, partial, branch.child), name)
            parts.append(replace(branch, child=part))
        spread = Sequence(tuple(parts))
        changed = map_bands(root, lambda b: spread if b.loop == self.loop else b)
        return reordered(self, schedule, changed)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Distribute]:
        for band in open_bands(schedule):
            if isinstance(band.child, Sequence):
                yield cls(band.loop)


def _neighbours(node: Node) -> Iterator[tuple[str, str]]:
    """The pairs of loops that follow each other directly."""
    match node:
        case Leaf():
            return
        case Band(child=child):
            yield from _neighbours(child)
        case Sequence(filters=filters):
            children = [branch.child for branch in filters]
            for left, right in pairwise(children):
                if isinstance(left, Band) and isinstance(right, Band):
                    yield left.loop, right.loop
            for child in children:
                yield from _neighbours(child)
        case _:
            assert_never(node)


def _fused(node: Node, first: str, second: str) -> Node:
    """`node` with the neighbours `first` and `second` made one loop."""
    match node:
        case Leaf():
            return node
        case Band(child=child):
            return replace(node, child=_fused(child, first, second))
        case Sequence(filters=filters):
            parts: list[Filter] = []
            for branch in filters:
                band, before = branch.child, parts[-1].child if parts else None
                joins = isinstance(band, Band) and band.loop == second
                if joins and isinstance(before, Band) and before.loop == first:
                    parts[-1] = _joined(parts[-1], branch)
                else:
                    parts.append(replace(branch, child=_fused(branch.child, first, second)))
            return sequence(parts)
        case _:
            assert_never(node)


def _joined(left: Filter, right: Filter) -> Filter:
    """Two branches of one band each as one branch."""
    first, second = left.child, right.child
    assert isinstance(first, Band)
    assert isinstance(second, Band)
    other = second.partial.set_tuple_name(isl.dim_type.set, first.loop)
    body = sequence((replace(left, child=first.child), replace(right, child=second.child)))
    band = Band(first.loop, first.partial.union_add(other), body)
    return Filter(left.instances.union(right.instances), band)
