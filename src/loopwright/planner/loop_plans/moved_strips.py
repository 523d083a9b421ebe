"""A loop that is moved around others for threads: whole, or in a wide strip for each of them.

    for g: for b: S(g, b)
    ->  parallel for b: for g: S(g, b)                          whole
    ->  parallel for B: for g: for b in strip B: S(g, b)        in strips

Threads meet once either way. Whole, everything that g walks along is read for each b; in strips it
is read once by each thread, and what b walks along is kept for a strip. Prices decide.
"""

from __future__ import annotations

from loopwright.analysis.size_estimates import likely_sizes
from loopwright.diagnostics import UsageError
from loopwright.ir.machine import Machine
from loopwright.ir.schedule import Schedule
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.draft import Draft
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Parallel, ParallelChunks
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine

__all__ = ["take_moved"]

_CLEARLY = 0.9  # of the time that a loop takes whole: what strips of it may take


def take_moved(
    draft: Draft, machine: Machine, loop: str, around: tuple[str, ...], size: int, parts: int
) -> bool:
    """Move a loop around others and share it out, in strips of `size` where these are faster."""
    whole = (Interchange((loop, *around)), Parallel(loop))
    moved = draft.reach(*whole)
    if moved is None:
        return False
    strips = _in_strips(draft, loop, around, size, parts)
    cut = draft.reach(*strips) if strips else None
    if cut is not None and _is_faster(cut, moved, machine):
        return draft.take(*strips)
    return draft.take(*whole)


def _in_strips(
    draft: Draft, loop: str, around: tuple[str, ...], size: int, parts: int
) -> tuple[Step, ...]:
    """Steps that move strips of a loop around others; none where it is not cut."""
    cut = StripMine(loop, size)
    made = draft.loop_made(cut)
    if made is None:
        return ()
    return cut, Interchange((made, *around)), ParallelChunks(made, parts)


def _is_faster(schedule: Schedule, than: Schedule, machine: Machine) -> bool:
    """Whether a schedule is clearly faster on all threads; not where no price is known."""
    sizes, threads = likely_sizes(schedule.program), max(2, machine.cores)
    try:
        one, other = (schedule_seconds(x, machine, sizes, threads) for x in (schedule, than))
    except UsageError:
        return False  # the machine's table has no such operation
    return one < _CLEARLY * other
