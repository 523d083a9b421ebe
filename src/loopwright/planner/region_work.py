"""From how much work on threads share loops inside serial ones, where only calls know sizes.

With R cycles for a meeting of T threads and c cycles for a statement, n of them take n * c on one
thread and n * c / T + R on all. Sharing gains where

    n >= R / c * T / (T - 1)

and is taken from eight times as many on, which two threads do in five eighths of the time: a
meeting takes longer where a thread comes late, lines move to the other core, and pieces of loops
start more often. On Sapphire Rapids two threads took 1.2 to 1.5 times as long as one for the
likeliest paths through 200 states, which have six times as many.
"""

from __future__ import annotations

import math

from loopwright.analysis.size_estimates import bounded_sizes, likely_sizes, trips_at
from loopwright.ir.islkit import isl
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, directions, nodes_of, path_to
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.draft import Draft
from loopwright.transform.loop_marks import ShareFrom
from loopwright.transform.schedule_legality import open_bands
from loopwright.transform.step import Step

__all__ = ["least_shared", "plan_regions"]

_MARGIN = 8  # times the work that sharing it gains by
_SMALL = 256  # of a size that nothing is known of, where loops have about as much work
_LEAST_CYCLES = 0.25  # of a statement: prices of narrow integers are lower than times


def plan_regions(schedule: Schedule, machine: Machine, *, parallel: bool) -> tuple[Step, ...]:
    """A least number of statements for every outermost loop with parallel ones of unknown sizes."""
    draft = Draft(schedule)
    root = nodes_of(schedule)
    found = [
        band
        for band in open_bands(schedule)
        if parallel and len(path_to(root, band.loop)) == 1 and _is_asked_for(schedule, band)
    ]
    if found:
        least = least_shared(schedule, machine)
        for band in found:
            draft.take(ShareFrom(band.loop, least))
    return tuple(draft.steps)


def least_shared(schedule: Schedule, machine: Machine, margin: int = _MARGIN) -> int:
    """From how many statements between two meetings on threads share loops.

    That is `margin` times the work by which sharing begins to gain.
    """
    threads = max(2, machine.cores)
    meeting = machine.parallel_cost.cycles(threads) * threads / (threads - 1)
    return math.ceil(margin * meeting / _statement_cycles(schedule, machine))


def _is_asked_for(schedule: Schedule, band: Band) -> bool:
    """Whether a loop is serial and holds parallel ones whose work depends on parameters.

    Tiles in waves, whose loops follow no iterator by themselves, are large enough to meet for.
    """
    if schedule.mark(band.loop) is Mark.PARALLEL:
        return False
    if any(set(made.loops) & {x.loop for x in bands(band)} for made in schedule.contractions):
        return False
    cut = dict(schedule.factors)
    shared = [
        x
        for x in bands(band.child)
        if schedule.mark(x.loop) is Mark.PARALLEL and (x.loop in cut or directions(x))
    ]
    params = isl.dim_type.param
    domains = [schedule.program.statement(name).domain for x in shared for name in x.statements]
    return any(domain.involves_dims(params, 0, domain.dim(params)) for domain in domains)


def _statement_cycles(schedule: Schedule, machine: Machine) -> float:
    """Cycles of a statement on one thread, in the mean, with all data in near caches."""
    program = schedule.program
    known = bounded_sizes(program)
    sizes = {
        name: size if name in known else min(size, _SMALL)
        for name, size in likely_sizes(program).items()
    }
    trips = trips_at(schedule.analyses, sizes)
    instances = sum(math.prod(found.values()) for found in trips.values())
    seconds = schedule_seconds(schedule, machine, sizes)
    cycles = seconds * (machine.frequency_hz or 1e9) / max(1.0, instances)
    return 1.0 if math.isnan(cycles) else max(_LEAST_CYCLES, cycles)
