"""Loops of a few iterations inside a loop whose iterations are independent: copies, and vectors.

    for x: for r in [1, 5): lap += c[r] * u[x + r]   ->   simd for x: four copies of the statement

The short loops are unrolled whole, so that the loop around them is innermost for a backend that
vectorises on its own: windows of filters, points of elements, small blocks. Every element is still
computed in the order of the source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from loopwright.analysis.size_estimates import average_trips, band_trips, likely_sizes, references
from loopwright.ir.expr import Const
from loopwright.ir.islkit import context, isl
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program, Statement
from loopwright.ir.schedule_tree import Band, bands, directions, moved_by, nodes_of, path_to
from loopwright.planner.draft import Draft
from loopwright.transform.loop_marks import Simd, Unroll
from loopwright.transform.scalar_expansion import iterator_range
from loopwright.transform.schedule_legality import open_bands

__all__ = ["repeated", "unroll_short_loops"]

_MOST_COPIES = 64  # of the statements of a loop, which compilers unroll whole
_LEAST = 32  # iterations of a loop that are worth vectors


def unroll_short_loops(draft: Draft) -> None:
    """Unroll short loops where the loop around them then has vectors.

    Outermost loops are left to threads, which cut them.
    """
    program = draft.schedule.program
    trips = average_trips(program, likely_sizes(program))
    outer = {loop for loop, _, _ in draft.schedule.outer_vectors}
    for band in list(open_bands(draft.schedule)):
        inner = tuple(bands(band.child))
        is_open = all(draft.schedule.mark(one.loop) is Mark.SERIAL for one in (band, *inner))
        if not inner or not is_open or band_trips(band, program, trips) < _LEAST:
            continue
        path = path_to(nodes_of(draft.schedule), band.loop)
        if len(path) < 2 or outer & {one.loop for one in (*path, *inner)}:
            continue
        counts = repeated(program, inner)
        if counts is None:
            continue
        if _has_neighbours(program, band) and not _has_vectors(draft, inner):
            unrolled = [Unroll(one.loop, n) for one, n in zip(inner, counts, strict=True) if n > 1]
            draft.take(*unrolled, *draft.copies(band), Simd(band.loop))


def repeated(program: Program, inner: Sequence[Band]) -> list[int] | None:
    """Iterations of loops that are few enough to be unrolled whole; else None."""
    found = [_constant_trips(program, band) for band in inner]
    counts = [count for count in found if count is not None]
    if len(counts) < len(found) or math.prod(counts) > _MOST_COPIES:
        return None
    return counts


def _constant_trips(program: Program, band: Band) -> int | None:
    """Iterations of a loop that is the same for all statements and in all iterations around it."""
    found = set()
    at = directions(band)
    if at.keys() != band.statements:
        return None
    for name, (place, _) in at.items():
        found.add(_extent(program.statement(name), place))
    return found.pop() if len(found) == 1 else None


def _extent(statement: Statement, at: int) -> int | None:
    """Values of an iterator, where it has the same constant range in all other iterations."""
    limits = iterator_range([statement], statement.iterators[at])
    if limits is None or not all(isinstance(limit, Const) for limit in limits):
        return None
    first, stop = (int(limit.value.real) for limit in limits if isinstance(limit, Const))
    domain = statement.domain
    free = domain.project_out(isl.dim_type.set, at, 1).insert_dims(isl.dim_type.set, at, 1)
    low, high = (isl.Val.int_from_si(context(), value) for value in (first, stop - 1))
    free = free.lower_bound_val(isl.dim_type.set, at, low)
    free = free.upper_bound_val(isl.dim_type.set, at, high).set_tuple_id(domain.get_tuple_id())
    return stop - first if free.is_subset(domain) else None


def _has_neighbours(program: Program, band: Band) -> bool:
    """Whether iterations that follow each other use elements that do, in every array written."""
    moving = moved_by(band, program)
    near = far = 0
    for name in band.statements:
        for reference in references(program.statement(name)):
            stride = abs(reference.stride(moving.get(name, "")))
            if stride == 1:
                near += 1
            elif stride > 1:
                far += 1
                if reference.is_written:
                    return False
    return near > far


def _has_vectors(draft: Draft, inner: tuple[Band, ...]) -> bool:
    """Whether an innermost loop is as good for vectors by itself."""
    program = draft.schedule.program
    return any(
        draft.reach(*draft.copies(band), Simd(band.loop)) is not None
        and _has_neighbours(program, band)
        for band in inner
        if not any(True for _ in bands(band.child))
    )
