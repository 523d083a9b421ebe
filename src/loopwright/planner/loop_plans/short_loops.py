"""Loops of a few iterations inside a loop whose iterations are independent: copies, and vectors.

    for x: for r in [1, 5): lap += c[r] * u[x + r]   ->   simd for x: four copies of the statement

The short loops are unrolled whole, so that the loop around them is innermost for a backend that
vectorises on its own: windows of filters, points of elements, small blocks. Every element is still
computed in the order of the source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from loopwright.analysis.size_estimates import band_trips, coefficients, likely_trips
from loopwright.ir.analysis_manager import AnalysisManager, DomainAnalysis
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Const, Expr
from loopwright.ir.islkit import context, is_intricate, isl
from loopwright.ir.loops import Mark
from loopwright.ir.program import Access, Program, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, directions, moved_by, nodes_of, path_to
from loopwright.ir.visit import names
from loopwright.planner.draft import Draft
from loopwright.transform.loop_marks import Parallel, Simd, Unroll
from loopwright.transform.schedule_legality import open_bands

__all__ = [
    "has_short_loops",
    "is_brief",
    "repeated",
    "unroll_short_loops",
    "unrolled_inside",
    "unrolled_whole",
]

_MOST_COPIES = 64  # of the statements of a loop, which compilers unroll whole
_LEAST = 32  # iterations of a loop that are worth vectors
_VECTOR_BITS = 128  # of the shortest vectors
_BRIEF = 3  # iterations at most
_MOST_LOOPS = 12  # around a statement whose loops isl is asked about
_LEAST_LANES = 4  # iterations of a short loop that are
_FAR = 1 << 20  # elements between neighbours in a dimension that is not of the row
_MOST_INTERLEAVED = 4  # elements that machines load and store for every lane at once


def unroll_short_loops(draft: Draft, *, parallel: bool) -> None:
    """Unroll short loops where the loop around them then has vectors.

    Loops that threads cut are left to them: outermost ones, and in `parallel` runs those inside of
    serial loops.
    """
    program = draft.schedule.program
    trips = draft.schedule.analyses.get(likely_trips)
    for band in list(open_bands(draft.schedule)):
        if band_trips(band, program, trips) < _LEAST and not _is_whole_vectors(draft, band):
            continue
        path = path_to(nodes_of(draft.schedule), band.loop)
        counts = unrolled_inside(draft, path)
        if counts and not (parallel and _is_cut(draft, path[:-1])):
            unrolled = [Unroll(loop, n) for loop, n in counts.items() if n > 1]
            draft.take(*unrolled, *draft.copies(band), Simd(band.loop))


def has_short_loops(schedule: Schedule) -> bool:
    """Whether an innermost loop has few iterations, the same number whenever it is run."""
    innermost = (band for band in bands(nodes_of(schedule)) if not any(bands(band.child)))
    return any(repeated(schedule.analyses, (band,)) is not None for band in innermost)


def _is_whole_vectors(draft: Draft, band: Band) -> bool:
    """Whether a loop has a constant number of iterations that fills the shortest vectors."""
    program = draft.schedule.program
    (count,) = repeated(draft.schedule.analyses, (band,), _LEAST) or (0,)
    bits = min(program.statement(name).write.dtype.bits for name in band.statements)
    return count >= _LEAST_LANES and count * bits % _VECTOR_BITS == 0


def _is_cut(draft: Draft, around: Sequence[Band]) -> bool:
    """Whether threads share a loop, because none of those around it can be shared."""
    return not any(draft.reach(*draft.copies(band), Parallel(band.loop)) for band in around)


def unrolled_inside(draft: Draft, path: Sequence[Band]) -> dict[str, int]:
    """As `unrolled_whole`, of a loop inside others that nothing has been planned for yet."""
    band = path[-1]
    inner = tuple(bands(band.child))
    outer = {loop for loop, _, _ in draft.schedule.outer_vectors}
    is_open = all(draft.schedule.mark(one.loop) is Mark.SERIAL for one in (band, *inner))
    is_open = is_open and not outer & {one.loop for one in (*path, *inner)}
    return unrolled_whole(draft, band) if is_open and len(path) > 1 else {}


def unrolled_whole(draft: Draft, band: Band) -> dict[str, int]:
    """Iterations of the loops inside one, which are unrolled so that it has vectors; or none."""
    program = draft.schedule.program
    inner = tuple(bands(band.child))
    counts = repeated(draft.schedule.analyses, inner) if inner else None
    if counts is None:
        return {}
    by_iterator = {
        iterator: count
        for one, count in zip(inner, counts, strict=True)
        for iterator in moved_by(one, program).values()
    }
    is_near = _has_neighbours(program, band, by_iterator)
    if not is_near or _has_vectors(draft, dict(zip(inner, counts, strict=True))):
        return {}
    return {one.loop: n for one, n in zip(inner, counts, strict=True)}


def repeated(
    analyses: AnalysisManager, inner: Sequence[Band], most: int = _MOST_COPIES
) -> list[int] | None:
    """Iterations of loops that are few enough to be unrolled whole; else None."""
    counts: list[int] = []
    for band in inner:
        count = _constant_trips(analyses, band)
        if count is None:
            return None
        counts.append(count)
    return counts if math.prod(counts) <= most else None


def is_brief(schedule: Schedule, band: Band) -> bool:
    """Whether a loop has at most three iterations, now more, now less: compilers write it out.

    Rows of a small triangle are such loops. As vectors they would have masks or remainders.
    """
    at = directions(band)
    if at.keys() != band.statements:
        return False
    ends = [schedule.analyses.get(_Trips(name, place)) for name, (place, _) in at.items()]
    return all(end is not None and end[0] < end[1] <= _BRIEF for end in ends)


def _constant_trips(analyses: AnalysisManager, band: Band) -> int | None:
    """Iterations of a loop that is the same for all statements and in all iterations around it."""
    found = set()
    at = directions(band)
    if at.keys() != band.statements:
        return None
    for name, (place, _) in at.items():
        found.add(analyses.get(_Extent(name, place)))
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class _Trips(DomainAnalysis):
    """The fewest and the most values of an iterator, where they are known numbers of neighbours."""

    statement: str
    at: int  # the place of the iterator

    def __call__(self, program: Program) -> tuple[int, int] | None:
        if _is_hard(program.statement(self.statement)):
            return None
        inside = _values(program, self.statement, self.at)
        lengths = inside.lexmin().reverse().apply_range(inside.lexmax()).deltas()
        ends = lengths.dim_min_val(0), lengths.dim_max_val(0)
        if not all(end.is_int() for end in ends):
            return None
        fewest, most = (int(end.to_python()) + 1 for end in ends)
        return fewest, most


def _is_hard(statement: Statement) -> bool:
    """Whether isl may take for ever over the values of an iterator, which no quota ends."""
    return len(statement.iterators) > _MOST_LOOPS or is_intricate(statement.domain)


def _values(program: Program, name: str, at: int) -> isl.Map:
    """{ iterations of the loops around -> values of an iterator } of a statement."""
    statement = program.statement(name)
    later = len(statement.iterators) - at - 1
    values = statement.domain.project_out(isl.dim_type.set, at + 1, later).reset_tuple_id()
    return isl.Map.from_range(values).move_dims(isl.dim_type.in_, 0, isl.dim_type.out, 0, at)


@dataclass(frozen=True, slots=True)
class _Extent(DomainAnalysis):
    """Values of an iterator, where they are as many neighbours in all iterations around it.

    A window that moves along, [x - 3, x + 3], has as many everywhere.
    """

    statement: str
    at: int  # the place of the iterator

    def __call__(self, program: Program) -> int | None:
        if _is_hard(program.statement(self.statement)):
            return None
        inside = _values(program, self.statement, self.at)
        first = inside.lexmin()
        lengths = first.reverse().apply_range(inside.lexmax()).deltas()
        last = lengths.dim_max_val(0)
        if not last.is_int() or not last.eq(lengths.dim_min_val(0)):
            return None
        count = int(last.to_python()) + 1
        neighbours = isl.Map.read_from_str(context(), f"{{ [x] -> [y] : x <= y < x + {count} }}")
        return count if first.apply_range(neighbours).is_subset(inside) else None


def _has_neighbours(program: Program, band: Band, inner: Mapping[str, int]) -> bool:
    """Whether vectors along a loop use elements that are neighbours, in every array written.

    Single elements with gaps between them are, where statements and `inner` loops, unrolled as
    often as told, use those in the gaps as well: [3 x + k] of three k is loaded and stored whole.
    """
    moving = moved_by(band, program)
    found: dict[tuple[str, tuple[Expr, ...], int, bool], set[int]] = {}
    for name in band.statements:
        statement = program.statement(name)
        for access in (statement.write, *statement.reads):
            rows, offset, step = _along(program, access, moving.get(name, ""))
            if not step:
                continue
            gaps = found.setdefault((access.array, rows, step, access is statement.write), set())
            start = int(evaluate(offset, dict.fromkeys(names(offset), 0), {}))
            parts = [[c * k for k in range(inner.get(x, 1))] for x, c in coefficients(offset)]
            gaps.update((start + sum(part)) % step for part in product(*parts))
    near = far = 0
    for (_, _, step, is_written), gaps in found.items():
        is_near = len(gaps) == step <= _MOST_INTERLEAVED
        if is_written and not is_near:
            return False
        near, far = near + is_near, far + (not is_near)
    return near > far


def _along(program: Program, access: Access, iterator: str) -> tuple[tuple[Expr, ...], Expr, int]:
    """The subscripts of a row, the place in it, and how far an iterator moves there.

    A row is made of the last dimensions, as few of them as the iterator moves in.
    """
    shape = program.array(access.array).shape
    offset: Expr = Const(0)
    size = 1
    for at in reversed(range(len(shape))):
        offset = access.index[at] * size + offset
        step = abs(dict(coefficients(offset)).get(iterator, 0))
        extent = shape[at]
        if step or not isinstance(extent, Const) or not isinstance(extent.value, int):
            break
        size *= extent.value
    else:
        return (), offset, 0
    is_far = not step and any(iterator in names(entry) for entry in access.index)
    return access.index[:at], offset, _FAR if is_far else step


def _has_vectors(draft: Draft, inner: Mapping[Band, int]) -> bool:
    """Whether an innermost loop is as good for vectors by itself."""
    program = draft.schedule.program
    return any(
        count >= _LEAST_LANES
        and draft.reach(*draft.copies(band), Simd(band.loop)) is not None
        and _has_neighbours(program, band, {})
        for band, count in inner.items()
        if not any(True for _ in bands(band.child))
    )
