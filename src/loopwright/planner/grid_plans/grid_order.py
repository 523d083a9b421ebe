"""An order of the loops of an affine program with its parallel loops outermost, for many threads.

After Allen and Kennedy: statements that depend on each other in circles stay together, all others
get loops of their own. Of the loops that a group shares, those that carry nothing go outermost and
become blocks and threads. Where there is none, the first loop that reverses nothing stays outside
and runs on the host; inside of it, what it orders is forgotten, and the search goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loopwright.analysis.dependences import strongly_connected_components
from loopwright.analysis.size_estimates import band_trips, likely_trips
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.islkit import isl
from loopwright.ir.program import Program, Role
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Leaf,
    Node,
    bands,
    in_sequence,
    nodes_of,
    perfect_nest,
    restricted,
    sequence,
    without_loop,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.draft import Draft
from loopwright.transform.apply import apply_step
from loopwright.transform.band_dependences import (
    among,
    carries,
    edges,
    goes_back,
    unmoved,
    unordered,
)
from loopwright.transform.isl_scheduler import coincident_tree, is_schedulable
from loopwright.transform.reschedule import Reschedule, named_tree, tree_text
from loopwright.transform.scalar_expansion import (
    ExpandScalar,
    SplitLiveRanges,
    expandable_loops,
    fewest_expanded_loops,
)
from loopwright.transform.schedule_legality import accessors, conflicts, validity_dependences
from loopwright.transform.step import Step

__all__ = ["parallel_order_seconds", "plan_grid_order", "plan_parallel_order"]

_LATENCY = 3e-8  # seconds from one instance of a chain to the next, loads from memory included
_NO_GAIN = 1.05  # of the time with arrays for scalars, that scalars may take


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Pairs of instances, each an isl.UnionMap { S[i] -> T[j] }.

    The terms of a sum that may be reordered keep no order, and yet must not be added at once.
    """

    ordered: Any  # the first runs before the second
    conflicting: Any  # they must not run concurrently

    def among(self, names: Collection[str]) -> _Pairs:
        return _Pairs(among(self.ordered, names), among(self.conflicting, names))

    def unordered(self, band: Band) -> _Pairs:
        """Those inside one iteration of a loop."""
        return _Pairs(unordered(self.ordered, band), unordered(self.conflicting, band))


def plan_grid_order(schedule: Schedule, machine: GpuMachine) -> tuple[Step, ...]:
    """Steps to an order with the parallel loops outermost, for a GPU."""
    return plan_parallel_order(schedule, machine.launch_seconds)


def plan_parallel_order(schedule: Schedule, launch_seconds: float) -> tuple[Step, ...]:
    """Steps to an order with the parallel loops outermost; none where the source has it.

    Scalars become arrays where that makes the order faster. `launch_seconds` lie between two nests
    of parallel loops, at least.
    """
    splits: list[Step] = []
    for split in SplitLiveRanges.candidates(schedule):
        schedule = apply_step(schedule, split)
        splits.append(split)
    free = schedule
    most: dict[str, tuple[str, ...]] = {}
    for name in _scalars(schedule.program):
        loops = expandable_loops(schedule.analyses, name)
        if loops:
            most[name] = loops
            free = apply_step(free, ExpandScalar(name, loops))
    found, seconds = _best_order(free, launch_seconds, _together(schedule, most))
    if most:
        kept, kept_seconds = _best_order(schedule, launch_seconds, frozenset())
        if kept_seconds <= seconds * _NO_GAIN:
            free, found, most = schedule, kept, {}
    draft = Draft(free)
    named = named_tree(_without_single(found, ()), free.program)
    if not draft.take(Reschedule(tree_text(free.tree.get_domain(), named))):
        return ()
    spreads: list[Step] = []
    for name, loops in most.items():
        needed = fewest_expanded_loops(schedule.analyses, name, loops, draft.schedule.tree)
        if needed:
            spreads.append(ExpandScalar(name, needed))
    return (*splits, *spreads, *draft.steps)


def parallel_order_seconds(schedule: Schedule, launch_seconds: float) -> float:
    """About how long the order takes that is found for a schedule as it is."""
    return _best_order(schedule, launch_seconds, frozenset())[1]


def _best_order(
    schedule: Schedule, launch_seconds: float, together: frozenset[tuple[str, str]]
) -> tuple[Node, float]:
    """The order that is found for a schedule, and about how long it takes."""
    program = schedule.program
    pairs = _Pairs(
        schedule.analyses.derive(validity_dependences).all_,
        schedule.analyses.derive(conflicts).all_,
    )
    trips = schedule.analyses.get(likely_trips)
    order = _GridOrder(program, launch_seconds, together, trips)
    found = order.built([s.name for s in program.statements], pairs, nodes_of(schedule))
    return found, order.seconds(found, pairs)


def _without_single(node: Node, outer: tuple[Any, ...]) -> Node:
    """`node` without loops of one iteration: of a constant, or of what a loop around counts."""
    match node:
        case Leaf():
            return node
        case InOrder(filters=filters):
            return sequence(replace(b, child=_without_single(b.child, outer)) for b in filters)
        case Band(child=child):
            plain = node.partial.reset_tuple_id(isl.dim_type.set)
            here = [one.intersect_domain(plain.domain()) for one in outer]
            if unmoved(node) >= node.statements or any(map(plain.plain_is_equal, here)):
                return _without_single(child, outer)
            return replace(node, child=_without_single(child, (*outer, plain)))


def _scalars(program: Program) -> list[str]:
    return [a.name for a in program.arrays if a.role is Role.LOCAL and not a.rank]


def _together(schedule: Schedule, scalars: Collection[str]) -> frozenset[tuple[str, str]]:
    """Pairs of statements that share a local scalar, which a thread keeps in a register."""
    found: set[tuple[str, str]] = set()
    for name in scalars:
        users = accessors(schedule.analyses, name)
        found.update((one, other) for one in users for other in users if one != other)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _GridOrder:
    """The search for one program."""

    program: Program
    launch_seconds: float
    together: frozenset[tuple[str, str]]  # statements that are not distributed
    trips: Mapping[str, Mapping[str, float]]  # of the loops of each statement, at likely sizes

    def built(self, names: Sequence[str], pairs: _Pairs, source: Node) -> Node:
        """The statements in groups, in an order that keeps the dependences."""
        linked = edges(pairs.ordered) | {(a, b) for a, b in self.together if {a, b} <= set(names)}
        groups = strongly_connected_components(names, linked)
        if len(groups) == 1:
            return self._group(names, pairs, source)
        parts = []
        for group in groups:
            inner = restricted(source, group)
            parts.append((group, self._group(group, pairs.among(group), inner)))
        return in_sequence(self.program, parts)

    def _group(self, names: Sequence[str], pairs: _Pairs, source: Node) -> Node:
        found = self._ordered(names, pairs, source)
        is_parallel = isinstance(found, Band) and not carries(pairs.conflicting, found)
        if (
            is_parallel
            or not is_schedulable(self.program, names)
            or self._is_by_steps(found, pairs)
        ):
            return found
        # Inside of isl's loops statements are distributed again.
        loops = named_tree(
            coincident_tree(self.program, names, pairs.ordered, pairs.conflicting), self.program
        )
        other = self._ordered(names, pairs, loops)
        return min(found, other, key=lambda tree: self._seconds(tree, pairs, (), 1.0))

    def _is_by_steps(self, node: Node, pairs: _Pairs) -> bool:
        """Whether a tree is one serial loop around nests of parallel loops only, as of a stencil.

        A thread runs one instance in a step. isl's scheduler finds nothing that is faster there,
        and works for seconds on stencils of three dimensions, which no quota ends: it counts few
        operations.
        """
        if not isinstance(node, Band):
            return False
        inside = pairs.unordered(node)
        match node.child:
            case InOrder(filters=filters):
                nests = [branch.child for branch in filters]
            case child:
                nests = [child]
        for nest in nests:
            if not isinstance(nest, Band):
                return False
            run = perfect_nest(nest)
            kept = inside.among(nest.statements).conflicting
            if not isinstance(run[-1].child, Leaf) or any(carries(kept, band) for band in run):
                return False
        return True

    def seconds(self, node: Node, pairs: _Pairs) -> float:
        """About how long a whole program takes, at likely sizes."""
        return self._seconds(node, pairs, (), 1.0)

    def _seconds(self, node: Node, pairs: _Pairs, free: tuple[Band, ...], launches: float) -> float:
        """About how long a tree takes, at likely sizes.

        Each launch costs its distance from the next one, and the chain of instances of the thread
        that has the most; loops are parallel up to the first that is not. `free` are the parallel
        loops around, `launches` the iterations of those that run on the host.
        """
        match node:
            case Leaf():
                return launches * self.launch_seconds
            case InOrder(filters=filters) if not free:
                total, is_serial = 0.0, False
                for branch in filters:
                    total += self._seconds(branch.child, pairs, free, launches)
                    was_serial, is_serial = is_serial, not self._has_parallel(branch.child, pairs)
                    if was_serial and is_serial:  # one kernel of one thread for both
                        total -= launches * self.launch_seconds
                return total
            case Band(child=child) if not carries(pairs.among(node.statements).conflicting, node):
                return self._seconds(child, pairs, (*free, node), launches)
            case Band(child=child) if not free:
                inside = pairs.unordered(node)
                if self._has_parallel(child, inside):
                    return self._seconds(child, inside, (), launches * self._trips(node))
        chain = self._instances(node, pairs)
        return launches * (self.launch_seconds + chain * _LATENCY)

    def _has_parallel(self, node: Node, pairs: _Pairs) -> bool:
        """Whether some loop of a tree carries nothing."""
        match node:
            case Leaf():
                return False
            case Band(child=child):
                return not carries(
                    pairs.among(node.statements).conflicting, node
                ) or self._has_parallel(child, pairs.unordered(node))
            case InOrder(filters=filters):
                return any(self._has_parallel(branch.child, pairs) for branch in filters)

    def _instances(self, node: Node, pairs: _Pairs) -> float:
        """Instances of statements that one run of a tree takes, at likely sizes."""
        match node:
            case Leaf():
                return 1.0
            case Band(child=child):
                return self._trips(node) * self._instances(child, pairs)
            case InOrder(filters=filters):
                return sum(self._instances(branch.child, pairs) for branch in filters)

    def _trips(self, band: Band) -> float:
        return band_trips(band, self.program, self.trips)

    def _ordered(self, names: Sequence[str], pairs: _Pairs, source: Node) -> Node:
        if not isinstance(source, Band):
            return source
        run = perfect_nest(source)
        free = [band for band in run if not carries(pairs.conflicting, band)]
        if free:
            rest: Node = source
            for band in free:
                rest = without_loop(rest, band.loop)
            for band in reversed(free):
                rest = replace(band, child=rest)
            return rest
        for band in run:
            if not goes_back(pairs.ordered, band):
                inner = without_loop(source, band.loop)
                built = self.built(names, pairs.unordered(band), inner)
                return replace(band, child=built) if any(True for _ in bands(inner)) else source
        return source
