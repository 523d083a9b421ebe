"""Parts of schedule trees for planners to build other trees from, and what dependences say of them.

Trees here are values of ir/schedule_tree without a domain; `pairs` are the dependences
`{ S[i] -> T[j] }` between their statements that no loop around orders yet.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import islpy as isl

from loopwright.analysis.relations import ends, maps_of
from loopwright.ir.islkit import context
from loopwright.ir.islparts import functions_in
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Node,
    bands,
    followed_name,
    sequence,
)
from loopwright.ir.walk import fresh_name
from loopwright.transform.symbolic import large_numbers

__all__ = [
    "among",
    "carries",
    "edges",
    "goes_back",
    "has_same_range",
    "is_strided",
    "parted",
    "scheduled",
    "split_among",
    "unmoved",
    "unordered",
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


def parted(program: Program, parts: Sequence[tuple[Collection[str], Node]]) -> Node:
    """The parts one after the other, each with the statements it is made of."""
    return sequence(Filter(_domains(program, names), node) for names, node in parts)


def _domains(program: Program, names: Collection[str]) -> isl.UnionSet:
    """All instances of some statements, inside their domains or not."""
    found = isl.UnionSet.empty(program.context.get_space())
    for statement in program.statements:
        if statement.name in names:
            whole = isl.Set.universe(statement.domain.get_space())
            found = found.union(isl.UnionSet.from_set(whole))
    return found


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
