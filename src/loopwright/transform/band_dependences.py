"""What dependences say of the bands of a schedule tree, for planners that build other trees.

`pairs` are the dependences `{ S[i] -> T[j] }` between the statements of a band that no loop around
it orders yet. `KnownDependences` are for searches, which ask for the same loops again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias, TypeVar

from loopwright.analysis.relations import ends, maps_of, union
from loopwright.ir.islkit import functions_in, isl
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import (
    Band,
)
from loopwright.memo import IdentityMap

__all__ = [
    "KnownDependences",
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


T = TypeVar("T")
Groups: TypeAlias = tuple[frozenset[str], ...]  # statements of each group


def edges(pairs: isl.UnionMap) -> frozenset[tuple[str, str]]:
    """Pairs of statements with a dependence from the first to the second."""
    return frozenset(ends(part) for part in maps_of(pairs))


def among(pairs: isl.UnionMap, names: Collection[str]) -> isl.UnionMap:
    """The dependences between the given statements."""
    (kept,) = split_among(pairs, (names,))
    return kept


def split_among(pairs: isl.UnionMap, groups: Sequence[Collection[str]]) -> tuple[isl.UnionMap, ...]:
    """`among(pairs, group)` for each group of statements, in one pass; all of them: `pairs`."""
    places: dict[str, set[int]] = {}
    for at, group in enumerate(groups):
        for name in group:
            places.setdefault(name, set()).add(at)
    every = maps_of(pairs)
    kept: list[list[isl.Map]] = [[] for _ in groups]
    for part in every:
        first, second = ends(part)
        for at in places.get(first, set()) & places.get(second, set()):
            kept[at].append(part)
    space = pairs.get_space()
    return tuple(pairs if len(own) == len(every) else union(space, own) for own in kept)


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


class KnownDependences:
    """`unordered`, `carries`, `among`, `split_among`, each computed once for the same objects.

    Trees of a search share their loops and the dependences around these, as objects; equal objects
    would cost isl more to find out than is saved.
    """

    def __init__(self) -> None:
        self._inside: _Known[isl.UnionMap] = IdentityMap()
        self._carried: _Known[bool] = IdentityMap()
        self._parts: IdentityMap[isl.UnionMap, dict[Groups, tuple[isl.UnionMap, ...]]]
        self._parts = IdentityMap()

    def unordered(self, pairs: isl.UnionMap, band: Band) -> isl.UnionMap:
        return _once(self._inside, unordered, pairs, band)

    def carries(self, pairs: isl.UnionMap, band: Band) -> bool:
        return _once(self._carried, self._carries, pairs, band)

    def _carries(self, pairs: isl.UnionMap, band: Band) -> bool:
        return not pairs.is_subset(self.unordered(pairs, band))

    def among(self, pairs: isl.UnionMap, names: Collection[str]) -> isl.UnionMap:
        (kept,) = self.split_among(pairs, (names,))
        return kept

    def split_among(
        self, pairs: isl.UnionMap, groups: Sequence[Collection[str]]
    ) -> tuple[isl.UnionMap, ...]:
        known = self._parts.get(pairs)
        if known is None:
            known = self._parts[pairs] = {}
        key = tuple(map(frozenset, groups))
        if key not in known:
            known[key] = split_among(pairs, groups)
        return known[key]


# Of dependences and the function of a loop.
_Known: TypeAlias = IdentityMap[isl.UnionMap, IdentityMap[isl.MultiUnionPwAff, T]]


def _once(
    table: _Known[T], ask: Callable[[isl.UnionMap, Band], T], pairs: isl.UnionMap, band: Band
) -> T:
    known = table.get(pairs)
    if known is None:
        known = table[pairs] = IdentityMap()
    if band.partial not in known:
        known[band.partial] = ask(pairs, band)
    return known[band.partial]
