"""Fuse, Distribute and DistributeStatements: loop fusion and loop distribution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import ClassVar, assert_never

from loopwright.analysis.legality import inside_loop
from loopwright.analysis.relations import ends, maps_of
from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import isl
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    Sequence,
    bands,
    map_bands,
    nodes_of,
    path_to,
    rename_band,
    restricted,
    sequence,
    universe_of,
)
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import (
    find_band,
    open_bands,
    privatized_dependences,
    reordered,
    require_unmarked,
    validity_dependences,
)
from loopwright.transform.step import Step, refuse

__all__ = [
    "Distribute",
    "DistributeStatements",
    "Fuse",
    "isolate",
]


@dataclass(frozen=True, slots=True)
class Fuse(Step):
    """Fuse two loops that follow each other directly.

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
        root = nodes_of(schedule)
        for loop in (self.first, self.second):
            find_band(self, schedule, root, loop)
        require_unmarked(self, schedule, (self.first, self.second))
        if (self.first, self.second) not in set(_neighbours(root)):
            refuse(self, f"loop '{self.second}' does not follow loop '{self.first}' directly")
        return reordered(self, schedule, _fused(root, self.first, self.second))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Fuse]:
        allowed = {band.loop for band in open_bands(schedule)}
        for first, second in _neighbours(nodes_of(schedule)):
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
        root = nodes_of(schedule)
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


@dataclass(frozen=True, slots=True)
class DistributeStatements(Step):
    """Give each group of statements inside a loop a copy of the loop, one after the other.

    rewrite:  for i: S(i); for j: T(i, j); U(i)                     with groups (S, U), (T)
              ->  for i: S(i); U(i)
                  for i_2: for j: T(i_2, j)
    needs:    the groups are all statements of the loop
    refuses:  IllegalStep with the reversed dependence
    """

    kind: ClassVar[str] = "distribute_statements"

    loop: str
    statements: tuple[str, ...]  # all of the loop, group by group
    sizes: tuple[int, ...]  # statements of each group

    def __post_init__(self) -> None:
        if min(self.sizes, default=0) < 1 or sum(self.sizes) != len(set(self.statements)):
            raise UsageError(
                "distribute_statements takes different statements and the size of each group"
            )

    def apply(self, schedule: Schedule) -> Schedule:
        root = nodes_of(schedule)
        band = find_band(self, schedule, root, self.loop)
        groups = [
            set(self.statements[first:last])
            for first, last in pairwise((0, *accumulate(self.sizes)))
        ]
        split = [b for b in bands(band) if not any(b.statements <= group for group in groups)]
        require_unmarked(self, schedule, [self.loop, *(inner.loop for inner in split)])
        if band.statements != set(self.statements):
            names = ", ".join(sorted(band.statements))
            refuse(self, f"the statements of loop '{self.loop}' are {names}")
        outside = {other.loop for other in bands(root)} - {other.loop for other in bands(band)}
        seen: set[str] = set(outside)
        taken = {other.loop for other in bands(root)}
        filters = []
        for first, last in pairwise((0, *accumulate(self.sizes))):
            chosen = universe_of(schedule.program, self.statements[first:last])
            part = _named(restricted(band, self.statements[first:last]), seen, taken)
            filters.append(Filter(chosen, part))
        spread = filters[0].child if len(filters) == 1 else Sequence(tuple(filters))
        changed = map_bands(root, lambda b: spread if b.loop == self.loop else b)
        return reordered(self, schedule, changed)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[DistributeStatements]:
        """Each statement isolated in its own copy of a loop."""
        for band in open_bands(schedule):
            names = sorted(band.statements) if len(band.statements) > 1 else ()
            found = {isolate(schedule, band.loop, name): None for name in names}
            yield from (step for step in found if step is not None)


def isolate(schedule: Schedule, loop: str, statement: str) -> DistributeStatements | None:
    """The distribution that gives a statement a copy of a loop of its own; None if there is none.

    There is none when the statement depends on itself through others in one execution of the loop.
    The others keep their order: those before it that do not depend on it come first.
    """
    band = path_to(nodes_of(schedule), loop)[-1]
    order = [s.name for s in schedule.program.statements if s.name in band.statements]
    edges = _edges(schedule, loop)
    later = _reached(edges, {statement})
    sooner = _reached({(target, source) for source, target in edges}, {statement})
    if later & sooner:
        return None
    behind = order[order.index(statement) + 1 :]
    after = _closure(edges, later | {name for name in behind if name not in sooner})
    groups = (
        [name for name in order if name not in after and name != statement],
        [statement],
        [name for name in order if name in after],
    )
    kept = [group for group in groups if group]
    if len(kept) == 1:
        return None
    return DistributeStatements(
        loop, tuple(name for group in kept for name in group), tuple(map(len, kept))
    )


def _edges(schedule: Schedule, loop: str) -> set[tuple[str, str]]:
    """Pairs of statements of which one must run before the other in one execution of a loop."""
    relaxed = schedule.analyses.derive(validity_dependences)
    found = privatized_dependences(relaxed, schedule, free_reductions=True)
    pairs = inside_loop(found.all_, schedule.tree, loop)
    return {ends(m) for m in maps_of(pairs) if ends(m)[0] != ends(m)[1] and not m.is_empty()}


def _reached(edges: Iterable[tuple[str, str]], starts: set[str]) -> set[str]:
    """The nodes that a path of one or more edges from `starts` leads to."""
    edges = set(edges)
    found: set[str] = set()
    fresh = set(starts)
    while fresh:
        fresh = {target for source, target in edges if source in fresh} - found
        found |= fresh
    return found


def _closure(edges: Iterable[tuple[str, str]], starts: set[str]) -> set[str]:
    return starts | _reached(edges, starts)


def _named(node: Node, seen: set[str], taken: set[str]) -> Node:
    """`node` with its loops renamed where an earlier copy has their name."""
    match node:
        case Leaf():
            return node
        case Band(loop=loop):
            name = loop if loop not in seen else fresh_name(loop, taken)
            seen.add(name)
            taken.add(name)
            return replace(rename_band(node, name), child=_named(node.child, seen, taken))
        case Sequence(filters=filters):
            return Sequence(tuple(replace(b, child=_named(b.child, seen, taken)) for b in filters))
        case _:
            assert_never(node)
