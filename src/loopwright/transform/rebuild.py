"""Parts of schedule trees for planners to build other trees from, and what dependences say of them.

Trees here are values of transform/tree without a domain; `pairs` are the dependences
`{ S[i] -> T[j] }` between their statements that no loop around orders yet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import islpy as isl

from loopwright.analysis.relations import ends, maps_of
from loopwright.ir.islkit import context
from loopwright.ir.islparts import functions_in, sets_in
from loopwright.ir.program import Program
from loopwright.transform.symbolic import large_numbers
from loopwright.transform.tree import (
    Band,
    Branch,
    Leaf,
    Node,
    bands,
    followed_name,
    fresh_name,
    map_bands,
    rename_band,
    sequence,
)
from loopwright.transform.tree import Sequence as InOrder

__all__ = [
    "among",
    "carries",
    "edges",
    "goes_back",
    "has_same_range",
    "is_strided",
    "joined",
    "names_of",
    "parted",
    "parted_nest",
    "restricted",
    "scheduled",
    "split_among",
    "unmoved",
    "unordered",
    "wave_of",
    "without_loop",
]


def edges(pairs: isl.UnionMap) -> frozenset[tuple[str, str]]:
    """Which statement must come before which other one."""
    return frozenset(ends(part) for part in maps_of(pairs))


def among(pairs: isl.UnionMap, names: Collection[str]) -> isl.UnionMap:
    """The pairs between the given statements."""
    kept = isl.UnionMap.empty(pairs.get_space())
    for part in maps_of(pairs):
        if set(ends(part)) <= set(names):
            kept = kept.union(isl.UnionMap.from_map(part))
    return kept


def split_among(pairs: isl.UnionMap, groups: Sequence[Collection[str]]) -> tuple[isl.UnionMap, ...]:
    """`among(pairs, group)` for each group of statements, in one pass."""
    places: dict[str, set[int]] = {}
    for at, group in enumerate(groups):
        for name in group:
            places.setdefault(name, set()).add(at)
    kept = [isl.UnionMap.empty(pairs.get_space())] * len(groups)
    for part in maps_of(pairs):
        first, second = ends(part)
        for at in places.get(first, set()) & places.get(second, set()):
            kept[at] = kept[at].union(isl.UnionMap.from_map(part))
    return tuple(kept)


def names_of(instances: isl.UnionSet) -> frozenset[str]:
    """The statements that instances belong to."""
    return frozenset(part.get_tuple_name() for part in sets_in(instances))


def unmoved(band: Band) -> frozenset[str]:
    """The statements all of whose instances stand in one iteration of a loop."""
    found: set[str] = set()
    for function in functions_in(band.partial.get_union_pw_aff(0)):
        count = function.dim(isl.dim_type.in_)
        if not function.involves_dims(isl.dim_type.in_, 0, count):
            found.add(function.get_tuple_id(isl.dim_type.in_).get_name())
    return frozenset(found)


def has_same_range(program: Program, outer: Sequence[Band], first: Band, second: Band) -> bool:
    """Whether two loops run through the same values in every iteration of those around them."""

    def values(band: Band) -> isl.UnionSet:
        names = band.statements
        instances = _instances(program, names)
        total = band.partial.intersect_domain(instances)
        for loop in reversed(outer):
            around = loop.partial.intersect_domain(instances)
            total = around.flat_range_product(total)
        return isl.UnionMap.from_multi_union_pw_aff(total.reset_tuple_id(isl.dim_type.set)).range()

    one, other = values(first), values(second)
    # Where one of them never runs, because of other loops, nothing is lost.
    both = one.params().intersect(other.params())
    return bool(one.intersect_params(both).is_equal(other.intersect_params(both)))


def _instances(program: Program, names: Collection[str]) -> isl.UnionSet:
    found = isl.UnionSet.empty(program.context.get_space())
    for statement in program.statements:
        if statement.name in names:
            inside = statement.domain.intersect_params(program.context)
            found = found.union(isl.UnionSet.from_set(inside))
    return found


def unordered(pairs: isl.UnionMap, band: Band) -> isl.UnionMap:
    """The pairs that meet in one iteration of a loop: `{ S[i] -> T[j] : f(S[i]) = f(T[j]) }`."""
    return pairs.eq_at_multi_union_pw_aff(band.partial)


def goes_back(pairs: isl.UnionMap, band: Band) -> bool:
    """Whether a loop put outermost would run the target of some pair before its source."""
    return not pairs.lex_gt_at_multi_union_pw_aff(band.partial).is_empty()


def carries(pairs: isl.UnionMap, band: Band) -> bool:
    """Whether some pair stands in different iterations of a loop."""
    return not pairs.is_subset(pairs.eq_at_multi_union_pw_aff(band.partial))


def is_strided(program: Program, names: Collection[str]) -> bool:
    """Whether some of the statements run at every second, third, ... value of a loop only."""
    found = False
    for statement in program.statements:
        if statement.name in names:
            parts = statement.domain.get_basic_sets()
            found = found or any(part.dim(isl.dim_type.div) for part in parts)
    return found


def restricted(node: Node, names: Collection[str]) -> Node:
    """`node` for some of its statements only."""
    match node:
        case Leaf():
            return node
        case Band(loop=loop, partial=partial, child=child):
            kept = _universe_of(partial.domain(), names)
            return Band(loop, partial.intersect_domain(kept), restricted(child, names))
        case InOrder(branches=branches):
            parts = []
            for branch in branches:
                kept = _universe_of(branch.filter, names)
                if not kept.is_empty():
                    inside = branch.filter.intersect(kept)
                    parts.append(Branch(inside, restricted(branch.child, names)))
            return sequence(parts) if parts else Leaf()
        case _:
            assert_never(node)


def _universe_of(instances: isl.UnionSet, names: Collection[str]) -> isl.UnionSet:
    """All instances, inside their domains or not, of those of `names` that occur."""
    kept = isl.UnionSet.empty(instances.get_space())
    for part in sets_in(instances):
        if part.get_tuple_name() in names:
            kept = kept.union(isl.UnionSet.from_set(isl.Set.universe(part.get_space())))
    return kept


def without_loop(node: Node, loop: str) -> Node:
    """`node` with the band `loop` taken out."""
    match node:
        case Leaf():
            return node
        case Band(child=child):
            if node.loop == loop:
                return child
            return replace(node, child=without_loop(child, loop))
        case InOrder(branches=branches):
            return sequence(replace(b, child=without_loop(b.child, loop)) for b in branches)
        case _:
            assert_never(node)


def parted(program: Program, parts: Sequence[tuple[Collection[str], Node]]) -> Node:
    """The parts one after the other, each with the statements it is made of."""
    return sequence(Branch(_domains(program, names), node) for names, node in parts)


def _domains(program: Program, names: Collection[str]) -> isl.UnionSet:
    """All instances of some statements, inside their domains or not."""
    found = isl.UnionSet.empty(program.context.get_space())
    for statement in program.statements:
        if statement.name in names:
            whole = isl.Set.universe(statement.domain.get_space())
            found = found.union(isl.UnionSet.from_set(whole))
    return found


def parted_nest(
    root: Node, nest: Band, first: isl.UnionSet, second: isl.UnionSet, *, renamed: int = 1
) -> Node:
    """`root` with a nest run for the instances of `first` and then for those of `second`.

    The loops of one of them, by its number, get new names.
    """
    taken = {band.loop for band in bands(root)}
    new: dict[str, str] = {}
    for loop in (band.loop for band in bands(nest)):
        new[loop] = fresh_name(loop, taken)
        taken.add(new[loop])
    parts = []
    for number, instances in enumerate((first, second)):
        part = restricted(nest, names_of(instances))
        parts.append(Branch(instances, _renamed(part, new) if number == renamed else part))
    apart = InOrder(tuple(parts))
    return map_bands(root, lambda band: apart if band.loop == nest.loop else band)


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    """`node` with some of its loops called by other names."""
    match node:
        case Leaf():
            return node
        case Band(loop=loop):
            inner = replace(node, child=_renamed(node.child, names))
            return rename_band(inner, names.get(loop, loop))
        case InOrder(branches=branches):
            return InOrder(tuple(replace(b, child=_renamed(b.child, names)) for b in branches))
        case _:
            assert_never(node)


def joined(first: Band, second: Band, body: Node) -> Band:
    """One loop over the iterations of two, with the given body."""
    other = second.partial.set_tuple_name(isl.dim_type.set, first.loop)
    return Band(first.loop, first.partial.union_add(other), body)


def wave_of(first: Band, second: Band, name: str) -> Band:
    """Two loops, the second directly inside the first, by waves of equal sums of their values.

    In a wave the first one tells the second.
    """
    plain = [band.partial.set_tuple_name(isl.dim_type.set, name) for band in (first, second)]
    return Band(name, plain[0].add(plain[1]), replace(first, child=second.child))


def scheduled(
    program: Program, names: Collection[str], pairs: isl.UnionMap, source: Node
) -> Band | None:
    """The outermost loops that isl's scheduler finds for some statements, around `source`.

    They are interchangeable; None when they are fewer than two.
    """
    instances = _instances(program, names)
    numbers = large_numbers(instances)
    pairs = numbers.pairs(pairs)
    constraints = isl.ScheduleConstraints.on_domain(numbers.domain(instances))
    constraints = constraints.set_validity(pairs).set_proximity(pairs)
    # Of the schedules that isl may give, the same one for the same input.
    context().set_schedule_serialize_sccs(0)
    node = constraints.compute_schedule().get_root().child(0)
    if isl.schedule_node_type(node.get_type()) != isl.schedule_node_type.band:
        return None
    partial = node.band_get_partial_schedule()
    count = node.band_n_member()
    if count < 2 or not node.band_get_permutable():
        return None
    found = source
    taken = {band.loop for band in bands(source)}
    for member in reversed(range(count)):
        function = numbers.back(partial.get_union_pw_aff(member))
        one = isl.MultiUnionPwAff.from_union_pw_aff(function)
        name = fresh_name(followed_name(Band("", one, found), program), taken)
        taken.add(name)
        found = Band(name, one.set_tuple_name(isl.dim_type.set, name), found)
    assert isinstance(found, Band)
    return found
