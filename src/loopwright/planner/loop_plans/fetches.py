"""Which loops fetch the rows that they walk down before they use them.

A loop down the columns of a large matrix takes a line from every row. The next row lies pages away,
where the prefetchers of processors do not look, and the window of instructions that wait is too
small for the way to memory: adi beyond the caches takes 9.7 instead of 6.6 ns a point down its
columns (Neoverse N1).
"""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.analysis.reductions import reductions
from loopwright.analysis.size_estimates import (
    bytes_of,
    likely_sizes,
    references,
    row_bytes,
    trips_at,
)
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, moved_by
from loopwright.planner.cost.carried_values import carried_cycles
from loopwright.planner.draft import Draft
from loopwright.transform.loop_marks import PrefetchRows
from loopwright.transform.schedule_legality import open_bands
from loopwright.transform.step import Step

__all__ = ["plan_fetches"]

_AHEAD = 12  # iterations; 8 to 16 are alike, 4 are too few (measured, Neoverse N1)
_LEAST = 8 * _AHEAD  # iterations of a loop that is worth it
_PAGE = 4096  # bytes; nearer rows are foreseen


def plan_fetches(schedule: Schedule, machine: Machine, *, parallel: bool) -> tuple[Step, ...]:
    """A step for every serial innermost loop down the columns of an array beyond L2."""
    draft = Draft(schedule)
    sizes = likely_sizes(schedule.program)
    trips = trips_at(schedule.analyses, sizes)
    for band in open_bands(schedule):
        is_far = _walks_far(schedule.program, machine, band, sizes, trips)
        if is_far and not _has_vectors(schedule.program, machine, band):
            draft.take(PrefetchRows(band.loop, _AHEAD))  # refused unless serial and innermost
    return tuple(draft.steps)


def _has_vectors(program: Program, machine: Machine, band: Band) -> bool:
    """Whether compilers find vectors in a loop without marks, which fetches would keep them from.

    Sums and extrema of integers are such loops: they have any order, and nothing else is carried.
    """
    moving = moved_by(band, program)
    found = [r for r in reductions(program) if r.statement in band.statements and r.is_reorderable]
    statements = [s for s in program.statements if s.name in band.statements]
    is_any_order = any(moving.get(r.statement) in r.loops for r in found)
    return is_any_order and not carried_cycles(statements, moving, machine)


def _walks_far(
    program: Program,
    machine: Machine,
    band: Band,
    sizes: dict[str, int],
    trips: Mapping[str, Mapping[str, float]],
) -> bool:
    """Whether the loop touches a new row, pages away, in every iteration."""
    for name, iterator in moved_by(band, program).items():
        if trips[name].get(iterator, 0.0) < _LEAST:
            continue
        for reference in references(program.statement(name)):
            first, *rest = (dict(subscript) for subscript in reference.subscripts or ((),))
            if iterator not in first or not rest or any(iterator in other for other in rest):
                continue
            array = program.array(reference.array)
            is_beyond = bytes_of(array, sizes) > machine.cache(2).size
            if is_beyond and row_bytes(array, sizes) > _PAGE:
                return True
    return False
