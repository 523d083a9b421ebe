"""Memory that keeps the loops of a program from cores: arrays that are used again, scalars.

    scalars   used at different depths stand between loops that could be tiled: ExpandScalar
    arrays    that iterations use one after another: a copy for each (ExpandArray)
    reads     of what an array held before: from a copy of it (CopyLiveIn)

Values flow as before; the order has more to choose from. Arrays are changed where the order that is
found then takes clearly less time.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from loopwright.analysis.size_estimates import average_trips, bytes_of, likely_sizes
from loopwright.ir.program import Program, Role
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import bands, moved_by, nodes_of
from loopwright.ir.visit import names
from loopwright.planner.draft import Draft
from loopwright.planner.grid_plans.grid_order import parallel_order_seconds
from loopwright.transform.band_dependences import among, carries
from loopwright.transform.copy_live_in import CopyLiveIn
from loopwright.transform.privatize import ExpandArray
from loopwright.transform.scalar_expansion import ExpandScalar, expandable_loops
from loopwright.transform.schedule_legality import accessors, conflicts
from loopwright.transform.step import Step

__all__ = ["plan_mesh_memory"]

_GAIN = 2.0  # by which the order must get faster
_TILED_LOOPS = 2  # that a scalar must stand between: less make no tiles
_MOST_MEMORY = 2.0  # times the largest array of the program, for copies of an array


def plan_mesh_memory(schedule: Schedule, wait_seconds: float) -> tuple[Step, ...]:
    """Steps that give values memory of their own where that makes loops parallel or tileable.

    `wait_seconds` lie between two nests, at least.
    """
    draft = Draft(schedule)
    for scalar in _scalars(schedule):
        after = draft.reach(scalar)
        if after is not None and _is_free(after, accessors(schedule.analyses, scalar.array)):
            draft.take(scalar)
    offered = [*_expansions(draft.schedule), *CopyLiveIn.candidates(draft.schedule)]
    if not offered:
        return tuple(draft.steps)
    seconds = parallel_order_seconds(draft.schedule, wait_seconds)
    for step in offered:
        after = draft.reach(step)
        if after is None:
            continue
        now = parallel_order_seconds(after, wait_seconds)
        if now * _GAIN < seconds and draft.take(step):
            seconds = now
    return tuple(draft.steps)


def _is_free(schedule: Schedule, users: frozenset[str]) -> bool:
    """Whether no loop around all of some statements orders their iterations."""
    pairs = among(schedule.analyses.derive(conflicts).all_, users)
    around = [band for band in bands(nodes_of(schedule)) if users <= band.statements]
    return not any(carries(pairs, band) for band in around)


def _scalars(schedule: Schedule) -> Iterator[ExpandScalar]:
    """Local scalars that statements at different depths share, as arrays over their loops.

    In a scratchpad an element costs what a scalar does, and nests without statements between their
    loops can be tiled as a whole.
    """
    program = schedule.program
    for array in program.arrays:
        if array.role is not Role.LOCAL or array.rank:
            continue
        users = accessors(schedule.analyses, array.name)
        depths = {len(program.statement(name).iterators) for name in users}
        loops = expandable_loops(schedule.analyses, array.name)
        if len(loops) >= _TILED_LOOPS and len(depths) > 1:
            yield ExpandScalar(array.name, loops)


def _expansions(schedule: Schedule) -> Iterator[Step]:
    """Arrays with a copy for each iteration of the loops around all uses that do not index them."""
    program = schedule.program
    sizes = likely_sizes(program)
    trips = average_trips(program, sizes)
    largest = max((bytes_of(array, sizes) for array in program.arrays), default=0)
    for array in program.arrays:
        users = accessors(schedule.analyses, array.name)
        writes = any(s.write.array == array.name for s in program.statements)
        if not array.rank or not writes or len(users) < 2:
            continue
        loops = [band for band in bands(nodes_of(schedule)) if users <= band.statements]
        moved = [moved_by(band, program) for band in loops]
        free = [
            (band, own)
            for band, own in zip(loops, moved, strict=True)
            if not any(_indexes(program, array.name, name, it) for name, it in own.items())
        ]
        if not free:
            continue
        first = min(users)
        copies = prod(trips[first].get(own.get(first, ""), 1.0) for _, own in free)
        if bytes_of(array, sizes) * copies <= _MOST_MEMORY * largest:
            yield ExpandArray(array.name, tuple(band.loop for band, _ in free))


def _indexes(program: Program, array: str, statement: str, iterator: str) -> bool:
    """Whether an iterator stands in a subscript of some access of a statement to an array."""
    own = program.statement(statement)
    return any(
        iterator in names(entry)
        for access in (own.write, *own.reads)
        if access.array == array
        for entry in access.index
    )
