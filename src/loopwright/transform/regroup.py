"""Regroup: give groups of statements in a loop loops of their own, in an order of choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import ClassVar, assert_never

import islpy as isl

from loopwright.analysis.legality import inside_loop
from loopwright.analysis.relations import ends, maps_of
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
    restricted,
)
from loopwright.ir.walk import fresh_name
from loopwright.transform.copies import with_copies
from loopwright.transform.facts import fact
from loopwright.transform.legal import (
    find_band,
    open_bands,
    relaxed_order,
    reordered,
    require_unmarked,
)
from loopwright.transform.step import Step, refuse

__all__ = ["Regroup", "isolate"]


@dataclass(frozen=True, slots=True)
class Regroup(Step):
    """Give each group of statements inside a loop a copy of the loop, one after the other.

    rewrite:  for i: S(i); for j: T(i, j); U(i)                     with groups (S, U), (T)
              ->  for i: S(i); U(i)
                  for i_2: for j: T(i_2, j)
    needs:    the groups are all statements of the loop
    refuses:  IllegalStep with the reversed dependence
    """

    kind: ClassVar[str] = "regroup"

    loop: str
    statements: tuple[str, ...]  # all of the loop, group by group
    sizes: tuple[int, ...]  # statements of each group

    def __post_init__(self) -> None:
        if min(self.sizes, default=0) < 1 or sum(self.sizes) != len(set(self.statements)):
            raise UsageError("regroup takes different statements and the size of each group")

    def apply(self, schedule: Schedule) -> Schedule:
        root = read_tree(schedule.tree)
        band = find_band(self, schedule, root, self.loop)
        require_unmarked(self, schedule, (inner.loop for inner in bands(band)))
        if band.statements != set(self.statements):
            names = ", ".join(sorted(band.statements))
            refuse(self, f"the statements of loop '{self.loop}' are {names}")
        outside = {other.loop for other in bands(root)} - {other.loop for other in bands(band)}
        seen: set[str] = set(outside)
        taken = {other.loop for other in bands(root)}
        filters = []
        for first, last in pairwise((0, *accumulate(self.sizes))):
            chosen = _instances(schedule, self.statements[first:last])
            part = _named(restricted(band, self.statements[first:last]), seen, taken)
            filters.append(Filter(chosen, part))
        spread = filters[0].child if len(filters) == 1 else Sequence(tuple(filters))
        changed = map_bands(root, lambda b: spread if b.loop == self.loop else b)
        return reordered(self, schedule, changed)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Regroup]:
        """Every statement on its own, others before or after it as they must."""
        for band in open_bands(schedule):
            names = sorted(band.statements) if len(band.statements) > 1 else ()
            found = {isolate(schedule, band.loop, name): None for name in names}
            yield from (step for step in found if step is not None)


def isolate(schedule: Schedule, loop: str, statement: str) -> Regroup | None:
    """The regrouping that leaves a statement alone in its copy of a loop; None when there is none.

    There is none when the statement depends on itself through others in one execution of the loop.
    Others keep their order among themselves: those before it that do not depend on it come first.
    """
    band = next(b for b in bands(read_tree(schedule.tree)) if b.loop == loop)
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
    return Regroup(loop, tuple(name for group in kept for name in group), tuple(map(len, kept)))


def _edges(schedule: Schedule, loop: str) -> set[tuple[str, str]]:
    """Pairs of statements of which one must run before the other in one execution of a loop."""
    relaxed = fact(relaxed_order, schedule.program)
    found = with_copies(relaxed, schedule, free_reductions=True)
    pairs = inside_loop(found.all_, schedule.tree, loop)
    return {ends(m) for m in maps_of(pairs) if ends(m)[0] != ends(m)[1] and not m.is_empty()}


def _reached(edges: Iterable[tuple[str, str]], starts: set[str]) -> set[str]:
    """What follows the starts along one or more edges."""
    edges = set(edges)
    found: set[str] = set()
    fresh = set(starts)
    while fresh:
        fresh = {target for source, target in edges if source in fresh} - found
        found |= fresh
    return found


def _closure(edges: Iterable[tuple[str, str]], starts: set[str]) -> set[str]:
    return starts | _reached(edges, starts)


def _instances(schedule: Schedule, names: Iterable[str]) -> isl.UnionSet:
    """All instances of some statements, without their bounds."""
    found = isl.UnionSet.empty(schedule.program.context.get_space())
    for name in names:
        domain = schedule.program.statement(name).domain
        found = found.union(isl.UnionSet.from_set(isl.Set.universe(domain.get_space())))
    return found


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
