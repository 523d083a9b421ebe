"""What of a kernel's data goes to shared memory and to registers.

Lanes of a warp that walk rows of their own, A[i][j] with i along x and j serial, transfer a sector
each for one element. There the serial loop is cut into strips, and threads bring the rows of a
strip into shared memory together, neighbours along the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from loopwright.analysis.size_estimates import band_trips, likely_trips, references
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.islkit import bounded
from loopwright.ir.loops import Axis, Mark
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, moved_by, nodes_of, path_to
from loopwright.planner.draft import Draft
from loopwright.planner.grid_plans.register_budget import fits_registers
from loopwright.planner.loop_plans.affine import promote_to_registers
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.schedule_legality import open_bands
from loopwright.transform.stage import StageArray
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine

__all__ = ["plan_grid_registers", "plan_grid_staging", "rows_of_lanes"]

_STRIP = 32  # iterations whose elements of a row lie in a box: a warp copies a row at once
_LEAST_STRIPS = 4  # of a loop that is worth it
_QUOTA = 1_000_000  # elementary isl operations for one loop
_BUFFERS = (4, 3, 2)  # boxes at a time where copies are asynchronous, the most that fit


def plan_grid_staging(schedule: Schedule, machine: GpuMachine) -> tuple[Step, ...]:
    """Steps that cut serial loops of kernels into strips and stage the rows that lanes walk."""
    draft = Draft(schedule)
    program = schedule.program
    trips = schedule.analyses.get(likely_trips)
    boxes: list[StageArray] = []
    for band in list(open_bands(schedule)):
        lanes = _lanes(schedule, band)
        if lanes is None or any(True for _ in bands(band.child)):
            continue
        if band_trips(band, program, trips) < _LEAST_STRIPS * _STRIP:
            continue
        rows = rows_of_lanes(program, lanes, band, machine)
        find = partial(_strips_and_boxes, draft, band, rows, machine)
        found = bounded(find, lambda _: None, _QUOTA)
        if found is not None:
            cut, steps = found
            draft.take(cut)
            boxes += steps
    # All loops are cut by now: what is staged fixes their order.
    for step in boxes:
        bounded(partial(draft.take, step), lambda _: False, _QUOTA)
    return tuple(draft.steps)


def plan_grid_registers(schedule: Schedule, machine: GpuMachine) -> tuple[Step, ...]:
    """Steps that keep elements in registers, across the strips of loops that stage too."""
    draft = Draft(schedule)
    cap = schedule.registers or machine.registers_per_thread

    def has_room(band: Band, statement: str) -> bool:
        inside = {statement, *(name for name, loop in draft.schedule.promoted if loop == band.loop)}
        return fits_registers(sum(_promoted_bytes(schedule.program, x) for x in inside), cap)

    for loop in dict.fromkeys(staged.loop for staged in schedule.staged):
        band = path_to(nodes_of(schedule), loop)[-1]
        for statement in sorted(band.statements):
            if has_room(band, statement):
                draft.take(PromoteToRegisters(statement, loop))
    promote_to_registers(draft, has_room)
    return tuple(draft.steps)


def _promoted_bytes(program: Program, name: str) -> int:
    """Bytes of the elements that an instance of a statement reads and writes."""
    found = references(program.statement(name))
    return sum(x.element * max(x.reads, int(x.is_written)) for x in found)


def rows_of_lanes(
    program: Program, lanes: Band, serial: Band, machine: GpuMachine
) -> tuple[str, ...]:
    """The arrays of which every iteration of `lanes` reads a row of its own, along `serial`.

    Such that lanes beside each other meet in no sector, and iterations beside each other do.
    """
    found: dict[str, None] = {}
    across: Mapping[str, str] = moved_by(lanes, program)
    along: Mapping[str, str] = moved_by(serial, program)
    for name in sorted(serial.statements & across.keys() & along.keys()):
        for reference in references(program.statement(name)):
            far = abs(reference.stride(across[name])) * reference.element >= machine.sector
            if reference.reads and far and abs(reference.stride(along[name])) == 1:
                found[reference.array] = None
    return tuple(found)


def _lanes(schedule: Schedule, band: Band) -> Band | None:
    """The loop along x around a serial loop of a kernel."""
    if schedule.mark(band.loop) is not Mark.SERIAL:
        return None
    path = path_to(nodes_of(schedule), band.loop)
    mapped = (b for b in path if schedule.mark(b.loop) is Mark.THREAD)
    return next((b for b in mapped if schedule.axis(b.loop) is Axis.X), None)


def _strips_and_boxes(
    draft: Draft, band: Band, arrays: tuple[str, ...], machine: GpuMachine
) -> tuple[StripMine, tuple[StageArray, ...]] | None:
    """The strips of a loop with as many of the arrays, and boxes of each, as can be."""
    known = {b.loop for b in bands(nodes_of(draft.schedule))}
    cut = StripMine(band.loop, _STRIP)
    after = draft.reach(cut)
    if not arrays or after is None:
        return None
    strips = next(b.loop for b in bands(nodes_of(after)) if b.loop not in known)
    for count in (*(_BUFFERS if machine.has_async_copy else ()), 1):
        steps = [StageArray(array, strips, "shared", count) for array in arrays]
        legal = tuple(step for step in steps if draft.reach(cut, step) is not None)
        if legal and draft.reach(cut, *legal) is not None:
            return cut, legal
    return None
