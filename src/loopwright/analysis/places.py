"""Elements of arrays that the points of a site touch: subscripts, overlaps, limits.

Points are `[o, x]`: the loops outside and the loops i, j, p of a core; see site.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from loopwright.analysis.relations import affine_expr
from loopwright.analysis.site import LOOPS, Member, Site
from loopwright.ir.expr import Expr, Load
from loopwright.ir.islkit import affine, affine_map, context
from loopwright.ir.islparts import pieces_in
from loopwright.ir.program import Access, Program
from loopwright.ir.visit import substitute

__all__ = [
    "Place",
    "Subscripts",
    "clash",
    "element_map",
    "is_inside",
    "own_elements",
    "place_at",
    "subscripts_of",
]


@dataclass(frozen=True, slots=True)
class Place:
    """An element of an array by subscripts over the names of [o, x] and the parameters."""

    array: str
    index: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Subscripts:
    """The subscripts of an access: `base + sum of steps[x] * x` over the loops x."""

    base: tuple[Expr, ...]  # over the loops outside and the parameters
    steps: Mapping[str, tuple[int, ...]]  # by the names of LOOPS


def clash(
    site: Site, out: Place, reads: Iterable[Place], rights: Iterable[Place] = ()
) -> str | None:
    """Why the instances of one execution of the loops may not run in the order of a core.

    They may when those that write one element agree in i and j, and no element they write is read
    by another of them but as the element itself. `reads` are all others but `rights`, which a core
    copies for a block of steps before the first of these steps writes anything: elements of theirs
    may be written by instances of the same j that come later, with the same or later steps.
    """
    element = element_map(site, out)
    space, outer = site.points.get_space(), len(site.outer)
    same = _same(space, range(outer))
    both = element.apply_range(element.reverse()).intersect(same)
    if not both.is_subset(_same(space, range(outer + 2))):
        return f"several results are stored to one element of '{out.array}'"
    is_late = _later(space, [outer + k for k in site.order])
    is_late = is_late.intersect(_same(space, [outer + 1])).intersect(_from(space, outer + 2))
    for is_right, places in ((False, reads), (True, rights)):
        for place in (x for x in places if x.array == out.array):
            pairs = element_map(site, place).apply_range(element.reverse()).intersect(same)
            if not (pairs.is_subset(is_late) if is_right else pairs.is_empty()):
                return f"it reads elements of '{place.array}' that it also writes"
    return None


def place_at(member: Member, access: Access | Load) -> Place:
    """An access of a statement in terms of the loops."""
    return Place(access.array, tuple(substitute(x, member.point) for x in access.index))


def element_map(site: Site, place: Place) -> isl.Map:
    """`{ [o, x] -> A[index] }` for all points of a site."""
    return affine_map(site.points, place.array, place.index)


def is_inside(site: Site, place: Place) -> bool:
    """Whether a place lies inside its array for all values of i, j and p, whatever counts.

    Elements of points that count do: between two subscripts of theirs there are no others.
    """
    first = len(site.outer)
    whole = _free(site.points, {first}, first)
    for position in (first + 1, first + 2):
        whole = whole.intersect(_free(site.points, {position}, first))
    for position, name in enumerate((*site.outer, *LOOPS)):
        whole = whole.set_dim_name(isl.dim_type.set, position, name)
    for entry in place.index:
        read, known = (affine_map(points, "", (entry,)).range() for points in (whole, site.points))
        space = read.get_space()
        below, above = isl.Map.lex_ge(space), isl.Map.lex_le(space)
        if not read.is_subset(known.apply(below).intersect(known.apply(above))):
            return False
    return True


def _free(points: isl.Set, kept: set[int], first: int) -> isl.Set:
    """`points` with the dimensions from `first` on that are not kept set free."""
    for position in range(first, points.dim(isl.dim_type.set)):
        if position not in kept:
            points = points.project_out(isl.dim_type.set, position, 1)
            points = points.insert_dims(isl.dim_type.set, position, 1)
    return points


def own_elements(program: Program, member: Member, access: Access | Load) -> isl.Map:
    """`{ [o, x] -> A[index] }` for the points of one statement, by its own subscripts."""
    domain = program.statement(member.name).domain
    return member.time.reverse().apply_range(affine_map(domain, access.array, access.index))


def _same(space: isl.Space, positions: Iterable[int]) -> isl.Map:
    """`{ [x] -> [y] : the entries at some positions are equal }`."""
    same = isl.Map.universe(space.map_from_set())
    for position in positions:
        same = same.equate(isl.dim_type.in_, position, isl.dim_type.out, position)
    return same


def _from(space: isl.Space, position: int) -> isl.Map:
    """`{ [x] -> [y] : x <= y at a position }`."""
    every = isl.Map.universe(space.map_from_set())
    return every.order_le(isl.dim_type.in_, position, isl.dim_type.out, position)


def _later(space: isl.Space, positions: Sequence[int]) -> isl.Map:
    """`{ [x] -> [y] : x comes before y in the lexicographic order of some positions }`."""
    found = isl.Map.empty(space.map_from_set())
    for count, position in enumerate(positions):
        smaller = _same(space, positions[:count])
        found = found.union(
            smaller.order_lt(isl.dim_type.in_, position, isl.dim_type.out, position)
        )
    return found


def subscripts_of(site: Site, place: Place) -> Subscripts | str:
    """How the subscripts of a place grow with the loops x, or why they do not do so evenly."""
    uneven = f"the subscripts of '{place.array}' do not grow evenly with the loops"
    first, kind, zero = len(site.outer), isl.dim_type.in_, isl.Val.zero(context())
    base: list[Expr] = []
    steps: list[list[int]] = [[] for _ in LOOPS]
    for entry in place.index:
        pieces = [piece for _, piece in pieces_in(affine(entry, site.points.get_space()))]
        if len(pieces) != 1 or pieces[0].involves_locals():
            return uneven
        function = pieces[0]
        for k, growth in enumerate(steps):
            growth.append(function.get_coefficient_val(kind, first + k).to_python())
            function = function.set_coefficient_val(kind, first + k, zero)
        found = affine_expr(function, (*site.outer, *LOOPS))
        if found is None:
            return uneven
        base.append(found)
    return Subscripts(tuple(base), dict(zip(LOOPS, map(tuple, steps), strict=True)))
