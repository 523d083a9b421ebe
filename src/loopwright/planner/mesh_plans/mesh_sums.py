"""Sums over all loops of a nest, for a mesh: cores gather parts, which are added up afterwards.

A dot product, a norm or a maximum has no parallel loop, but where the order of its terms is free,
blocks of its first loop have results of their own (PartialSums), one for each turn of a core:

    for i: s += x[i] * y[i]
    ->  for c: t[c] = 0
        for i_t (dealt out to all cores): t_box = t[i_t / F]
            for i_c: x[i_c : i_c + 512], y[i_c : i_c + 512]; for i: t_box += x[i] * y[i]
        for c: s += t[c]

The parts are added in the order of the blocks: a program computes the same in every run.
"""

from __future__ import annotations

from math import ceil

from loopwright.analysis.reductions import Reduction, reductions
from loopwright.analysis.size_estimates import (
    band_trips,
    bounded_sizes,
    likely_trips,
)
from loopwright.ir.access_names import named_accesses
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, moved_by, nodes_of, path_to, perfect_nest
from loopwright.planner.draft import Draft
from loopwright.planner.mesh_plans.mesh_loops import strips_of
from loopwright.planner.mesh_plans.mesh_passes import plan_mesh_passes
from loopwright.planner.mesh_plans.mesh_room import scratchpad_bytes
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine

__all__ = ["plan_mesh_sums"]

_BOX = 512  # iterations of the innermost loop whose elements come at once
_BOXES = 8  # of them in a block, where nobody knows how many iterations there are


def plan_mesh_sums(
    schedule: Schedule,
    machine: MeshMachine,
    shape: tuple[int, int],
    room: int,
    boxes: list[StageBox],
) -> tuple[Step, ...]:
    """The steps of passes over matrices, then of sums, up to their mapping.

    Their boxes are added to `boxes`: those are taken when all loops have their marks.
    """
    draft = Draft(schedule)
    draft.take(*plan_mesh_passes(schedule, machine, shape, room, boxes))
    for found in reductions(schedule.program):
        nest = _nest_of(draft.schedule, found)
        if nest is not None:
            _take(draft, found, nest, shape, room, boxes)
    return tuple(draft.steps)


def _nest_of(schedule: Schedule, found: Reduction) -> tuple[Band, ...] | None:
    """The loops of a free sum that stand alone, all of which gather."""
    iterators = schedule.program.statement(found.statement).iterators
    if not found.is_reorderable or set(found.loops) != set(iterators):
        return None
    own = [b for b in bands(nodes_of(schedule)) if b.statements == {found.statement}]
    if not own or len(path_to(nodes_of(schedule), own[0].loop)) > 1:
        return None
    nest = perfect_nest(own[0])
    return nest if [b.loop for b in nest] == [b.loop for b in own] else None


def _take(
    draft: Draft,
    found: Reduction,
    nest: tuple[Band, ...],
    shape: tuple[int, int],
    room: int,
    boxes: list[StageBox],
) -> None:
    first, last = nest[0].loop, nest[-1].loop
    iterator = moved_by(nest[0], draft.schedule.program).get(found.statement, "")
    size = _block(draft.schedule, nest, shape[0] * shape[1])
    steps: list[Step] = [PartialSums(found.statement, iterator, size), StripMine(first, size)]
    after = draft.reach(*steps)
    if after is None:
        return
    blocks = strips_of(draft.schedule, after, [first])[first]
    steps += [MapToMesh(blocks, "mesh", *shape), StripMine(last, _BOX)]
    if draft.take(*steps):
        boxes += _boxes(draft.schedule, found.statement, blocks, room)


def _boxes(schedule: Schedule, statement: str, blocks: str, room: int) -> list[StageBox]:
    """A box for each array of the sum, at the outermost loop from `blocks` on where it fits."""
    staged = Draft(schedule)
    inside = perfect_nest(path_to(nodes_of(schedule), blocks)[-1])
    names: dict[str, list[str]] = {}
    for one in named_accesses(schedule.program.statement(statement)):
        names.setdefault(one.access.array, []).append(one.name)
    for array, wanted in names.items():
        for band in inside:
            box = StageBox(array, band.loop, tuple(wanted), 1)
            after = staged.reach(box)
            if after is not None and scratchpad_bytes(after) <= room:
                staged.take(box)
                break
    return [step for step in staged.steps if isinstance(step, StageBox)]


def _block(schedule: Schedule, nest: tuple[Band, ...], cores: int) -> int:
    """Iterations of the first loop in a block."""
    program = schedule.program
    unit = _BOX if len(nest) == 1 else 1
    if set(program.params) != set(bounded_sizes(program)):
        return unit * _BOXES
    trips = band_trips(nest[0], program, likely_trips(program))
    return unit * max(1, ceil(trips / (cores * unit)))
