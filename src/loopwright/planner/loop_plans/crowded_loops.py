"""Innermost loops that go through too many rows at a time become several loops.

    for k: S(k); T(k)   ->   for k: S(k)
                             for k: T(k)

The rows stay in the nearest caches from one loop to the next. Taken are loops of several statements
whose rows crowd (planner/cost/streams), where each statement alone has clearly fewer.
"""

from __future__ import annotations

from loopwright.ir.machine import Machine
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, Leaf, Sequence, statements_in
from loopwright.planner.cost.streams import crowding
from loopwright.planner.draft import Draft
from loopwright.transform.loop_fusion import Distribute
from loopwright.transform.schedule_legality import open_bands
from loopwright.transform.step import Step

__all__ = ["plan_crowded_loops"]

_WORTH = 0.7  # of the crowd of the whole loop: what each part may have


def plan_crowded_loops(schedule: Schedule, machine: Machine, *, parallel: bool) -> tuple[Step, ...]:
    """Steps that give every statement of a crowded innermost loop a loop of its own."""
    draft = Draft(schedule)
    for band in open_bands(schedule):
        if _is_crowded(schedule, machine, band):
            draft.take(Distribute(band.loop))
    return tuple(draft.steps)


def _is_crowded(schedule: Schedule, machine: Machine, band: Band) -> bool:
    """Whether a loop has fewer rows to go through in parts, none of which needs a scalar."""
    program = schedule.program
    if not isinstance(band.child, Sequence):
        return False
    parts = band.child.filters
    if not all(isinstance(part.child, Leaf) for part in parts):
        return False
    if any(not program.statement(name).write.index for name in band.statements):
        return False
    whole = crowding(program, machine, band.statements, {})
    if whole == 1.0:
        return False
    apart = (crowding(program, machine, statements_in(part.instances), {}) for part in parts)
    return max(apart) <= _WORTH * whole
