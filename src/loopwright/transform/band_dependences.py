"""What dependences say of the bands of a schedule tree, for planners that build other trees.

`pairs` are the dependences `{ S[i] -> T[j] }` between the statements of a band that no loop around
it orders yet.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from loopwright.analysis.relations import ends, maps_of
from loopwright.ir.islkit import functions_in, isl
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import (
    Band,
)

__all__ = [
    "among",
    "carries",
    "edges",
    "goes_back",
    "has_gaps",
    "has_same_range",
    "instances_of",
    "split_among",
    "unmoved",
    "unordered",
]


def edges(pairs: isl.UnionMap) -> frozenset[tuple[str, str]]:
    """Pairs of statements with a dependence from the first to the second."""
    return frozenset(ends(part) for part in maps_of(pairs))


def among(pairs: isl.UnionMap, names: Collection[str]) -> isl.UnionMap:
    """The dependences between the given statements."""
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
    """The statements whose instances all run in one iteration of a loop."""
    found: set[str] = set()
    for function in functions_in(band.partial.get_union_pw_aff(0)):
        count = function.dim(isl.dim_type.in_)
        if not function.involves_dims(isl.dim_type.in_, 0, count):
            found.add(function.get_tuple_id(isl.dim_type.in_).get_name())
    return frozenset(found)


def has_same_range(program: Program, outer: Sequence[Band], first: Band, second: Band) -> bool:
    """Whether two loops take the same values in every iteration of the loops around them."""

    def values(band: Band) -> isl.UnionSet:
        names = band.statements
        instances = instances_of(program, names)
        total = band.partial.intersect_domain(instances)
        for loop in reversed(outer):
            around = loop.partial.intersect_domain(instances)
            total = around.flat_range_product(total)
        return isl.UnionMap.from_multi_union_pw_aff(total.reset_tuple_id(isl.dim_type.set)).range()

    one, other = values(first), values(second)
    # Where one of them never runs, because of other loops, nothing is lost.
    both = one.params().intersect(other.params())
    return bool(one.intersect_params(both).is_equal(other.intersect_params(both)))


def instances_of(program: Program, names: Collection[str]) -> isl.UnionSet:
    found = isl.UnionSet.empty(program.context.get_space())
    for statement in program.statements:
        if statement.name in names:
            inside = statement.domain.intersect_params(program.context)
            found = found.union(isl.UnionSet.from_set(inside))
    return found


def unordered(pairs: isl.UnionMap, band: Band) -> isl.UnionMap:
    """The dependences inside one iteration of a loop: `{ S[i] -> T[j] : f(S[i]) = f(T[j]) }`."""
    return pairs.eq_at_multi_union_pw_aff(band.partial)


def goes_back(pairs: isl.UnionMap, band: Band) -> bool:
    """Whether a loop, put outermost, would reverse some dependence."""
    return not pairs.lex_gt_at_multi_union_pw_aff(band.partial).is_empty()


def carries(pairs: isl.UnionMap, band: Band) -> bool:
    """Whether a loop carries some dependence, in either direction."""
    return not pairs.is_subset(pairs.eq_at_multi_union_pw_aff(band.partial))


def has_gaps(program: Program, names: Collection[str]) -> bool:
    """Whether the domain of some of the statements has a stride, or is in several pieces."""
    domains = (s.domain.coalesce() for s in program.statements if s.name in names)
    pieces = (domain.get_basic_sets() for domain in domains)
    return any(
        len(parts) > 1 or any(part.dim(isl.dim_type.div) for part in parts) for parts in pieces
    )
