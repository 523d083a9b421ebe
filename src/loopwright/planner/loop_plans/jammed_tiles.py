"""Rows of a tile that run beside each other, in tiles that go to threads in waves.

    for i in tile: for j in tile: a[i, j] = f(a[i - 1, j], a[i, j - 1], a[i - 1, j - 1])
->  for i in steps of 4: for j in tile: four rows, each of which waits for its own last element

An element of a row waits for the one before it. Rows beside each other wait at the same time, and
what a row hands on to the next one stays in registers. Two loops of a tile may be interchanged, or
there were no waves, so that this is legal wherever tiles are. One thread alone takes the rows of
such a nest so where that is expected to pay (cost/schedule_cost), and so do threads in tiles.
Machine code has tiles as they are: one thread takes rows as they are there, too.
"""

from __future__ import annotations

from functools import partial

from loopwright.analysis.size_estimates import likely_sizes
from loopwright.ir.machine import Machine
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.shared_copies import do_copies_share
from loopwright.transform.band_dependences import has_gaps
from loopwright.transform.step import Step
from loopwright.transform.unroll_and_jam import UnrollAndJam

__all__ = ["rows_beside"]

_FACTORS = (2, 4)
_WORTH = 0.95  # of the time as it is: what one thread may take with rows beside each other


def rows_beside(schedule: Schedule, machine: Machine, rows: Band) -> tuple[Step, ...]:
    """The step that takes rows of tiles together; none where that does not pay.

    `rows` is the outer loop of two in `schedule`, before they are cut into tiles.
    """
    program, names = schedule.program, rows.statements
    inside = list(bands(rows.child))
    is_plain = len(inside) == 1 and inside[0].statements == names and not has_gaps(program, names)
    if not is_plain or not do_copies_share(program, rows, machine):
        return ()
    price = partial(schedule_seconds, machine=machine, sizes=likely_sizes(program), text=True)
    best: tuple[Step, ...] = ()
    least = _WORTH * price(schedule)
    for factor in _FACTORS:
        draft = Draft(schedule)
        if draft.take(UnrollAndJam(rows.loop, factor)) and price(draft.schedule) <= least:
            best, least = tuple(draft.steps), price(draft.schedule)
    return best
