"""Array elements accessed at the points of a product nest: subscripts, conflicts, bounds.

Points are `[o, x]`: the values of the outer loops and of the loops i, j, p; see product_nest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import islpy as isl

from loopwright.analysis.product_nest import NestStatement, ProductNest
from loopwright.analysis.relations import affine_expr
from loopwright.ir.contraction import LOOPS, AffineSubscripts, ElementIndex
from loopwright.ir.expr import Expr, Load
from loopwright.ir.islkit import affine, affine_map, context
from loopwright.ir.islparts import pieces_in
from loopwright.ir.program import Access, Program
from loopwright.ir.visit import substitute

__all__ = [
    "accessed_elements",
    "affine_subscripts",
    "element_index",
    "element_map",
    "is_inside",
    "reordering_conflict",
]


def reordering_conflict(
    nest: ProductNest,
    out: ElementIndex,
    reads: Iterable[ElementIndex],
    rights: Iterable[ElementIndex] = (),
) -> str | None:
    """Why the instances of one execution of the nest may not run in a macro-kernel's order.

    They may if instances that write one element agree in i and j, and if no instance reads an
    element that another one writes, except as the element it updates. `reads` are all other reads
    but `rights`. A macro-kernel packs the right operand for a block of p before any instance of
    that block writes: its elements may be written by later instances of the same j and the same or
    a larger p.
    """
    written = element_map(nest, out)
    space, outer = nest.points.get_space(), len(nest.outer)
    same = _same(space, range(outer))
    both = written.apply_range(written.reverse()).intersect(same)
    if not both.is_subset(_same(space, range(outer + 2))):
        return f"several results are stored to one element of '{out.array}'"
    is_late = _later(space, [outer + k for k in nest.order])
    is_late = is_late.intersect(_same(space, [outer + 1])).intersect(_from(space, outer + 2))
    for is_right, elements in ((False, reads), (True, rights)):
        for read in (x for x in elements if x.array == out.array):
            pairs = element_map(nest, read).apply_range(written.reverse()).intersect(same)
            if not (pairs.is_subset(is_late) if is_right else pairs.is_empty()):
                return f"it reads elements of '{read.array}' that it also writes"
    return None


def element_index(member: NestStatement, access: Access | Load) -> ElementIndex:
    """The element of an access as a function of the loops [o, x]."""
    return ElementIndex(access.array, tuple(substitute(x, member.point) for x in access.index))


def element_map(nest: ProductNest, element: ElementIndex) -> isl.Map:
    """`{ [o, x] -> A[index] }` for all points of a nest."""
    return affine_map(nest.points, element.array, element.index)


def is_inside(nest: ProductNest, element: ElementIndex) -> bool:
    """Whether an element lies inside its array for all values of i, j and p, guards aside.

    The elements of executed points do, and so do the subscripts between two of theirs.
    """
    first = len(nest.outer)
    whole = _free(nest.points, {first}, first)
    for position in (first + 1, first + 2):
        whole = whole.intersect(_free(nest.points, {position}, first))
    for position, name in enumerate((*nest.outer, *LOOPS)):
        whole = whole.set_dim_name(isl.dim_type.set, position, name)
    for entry in element.index:
        read, known = (affine_map(points, "", (entry,)).range() for points in (whole, nest.points))
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


def accessed_elements(program: Program, member: NestStatement, access: Access | Load) -> isl.Map:
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


def affine_subscripts(nest: ProductNest, element: ElementIndex) -> AffineSubscripts | str:
    """The subscripts as affine functions of the loops x, or why they are none."""
    uneven = f"the subscripts of '{element.array}' do not grow evenly with the loops"
    first, kind, zero = len(nest.outer), isl.dim_type.in_, isl.Val.zero(context())
    base: list[Expr] = []
    steps: list[list[int]] = [[] for _ in LOOPS]
    for entry in element.index:
        pieces = [piece for _, piece in pieces_in(affine(entry, nest.points.get_space()))]
        if len(pieces) != 1 or pieces[0].involves_locals():
            return uneven
        function = pieces[0]
        for k, growth in enumerate(steps):
            growth.append(function.get_coefficient_val(kind, first + k).to_python())
            function = function.set_coefficient_val(kind, first + k, zero)
        found = affine_expr(function, (*nest.outer, *LOOPS))
        if found is None:
            return uneven
        base.append(found)
    return AffineSubscripts(tuple(base), dict(zip(LOOPS, map(tuple, steps), strict=True)))
