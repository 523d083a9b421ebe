"""Nests of loops that may be interchanged, found by isl's scheduler."""

from __future__ import annotations

import islpy as isl

from loopwright.analysis.legality import inside_loop
from loopwright.ir.islkit import with_option
from loopwright.ir.islparts import nodes_in, sets_in
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    bands,
    directions,
    map_bands,
    read_tree,
    sequence,
)
from loopwright.transform.copies import with_copies
from loopwright.transform.facts import fact
from loopwright.transform.legal import relaxed_order
from loopwright.transform.reschedule import Reschedule, named_tree, tree_text
from loopwright.transform.symbolic import Numbers, large_numbers

__all__ = ["permutable_nest"]

_Kind = isl.schedule_node_type


def permutable_nest(schedule: Schedule, loop: str, statement: str) -> Reschedule | None:
    """The step that runs a statement by permutable loops, one for each of its iterators.

    Everything inside the outermost loop `loop` is put into the order of isl's scheduler: statements
    that depend on each other run at points of the same loops, others before or after them. None
    when isl finds no such nest.
    """
    root = read_tree(schedule.tree)
    band = next(b for b in bands(root) if b.loop == loop)
    if any(loop in {inner.loop for inner in bands(b.child)} for b in bands(root)):
        return None
    numbers, tree = _scheduled(schedule, band)
    iterators = schedule.program.statement(statement).iterators
    if not _is_permutable(tree.get_root(), statement, len(iterators)):
        return None
    node = _read(tree.get_root().child(0), numbers)
    own = [b for b in bands(node) if statement in b.statements]
    if any(directions(b).get(statement, (0, 0))[1] != 1 for b in own):
        return None
    changed = map_bands(root, lambda b: node if b.loop == loop else b)
    named = named_tree(changed, schedule.program)
    return Reschedule(tree_text(schedule.tree.get_domain(), named))


def _scheduled(schedule: Schedule, band: Band) -> tuple[Numbers, isl.Schedule]:
    """All statements of a loop in the order of isl's scheduler, and what it took for parameters."""
    relaxed = fact(relaxed_order, schedule.program)
    found = with_copies(relaxed, schedule, free_reductions=True)
    pairs = inside_loop(found.all_, schedule.tree, band.loop)
    domain = schedule.tree.get_domain().intersect(band.partial.domain().universe())
    domain = domain.intersect_params(schedule.program.context)
    numbers = large_numbers(domain)
    pairs = numbers.pairs(pairs)
    constraints = isl.ScheduleConstraints.on_domain(numbers.domain(domain)).set_validity(pairs)
    constraints = constraints.set_proximity(pairs)
    name = "schedule_maximize_band_depth"
    return numbers, with_option(name, 1, constraints.compute_schedule)


def _is_permutable(root: isl.ScheduleNode, statement: str, depth: int) -> bool:
    """Whether all loops around a statement are one permutable band of the given depth."""
    found: list[bool] = []
    for node in nodes_in(root):
        if _Kind(node.get_type()) != _Kind.band:
            continue
        if any(part.get_tuple_name() == statement for part in sets_in(node.get_domain())):
            is_innermost = _Kind(node.child(0).get_type()) == _Kind.leaf
            is_whole = node.band_n_member() == depth and bool(node.band_get_permutable())
            found.append(is_innermost and is_whole)
    return found == [True]


def _read(node: isl.ScheduleNode, numbers: Numbers) -> Node:
    """isl's node as ours; loops have no names yet."""
    kind = _Kind(node.get_type())
    if kind == _Kind.leaf:
        return Leaf()
    if kind == _Kind.band:
        inner = _read(node.child(0), numbers)
        partial = node.band_get_partial_schedule()
        for member in reversed(range(node.band_n_member())):
            function = numbers.back(partial.get_union_pw_aff(member))
            one = isl.MultiUnionPwAff.from_union_pw_aff(function)
            inner = Band("", one, inner)
        return inner
    parts = [node.child(k) for k in range(node.n_children())]
    return sequence(
        Filter(numbers.universe(p.filter_get_filter()), _read(p.child(0), numbers)) for p in parts
    )
