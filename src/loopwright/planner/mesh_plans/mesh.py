"""The plan of an affine program for a mesh of cores with scratchpads.

    stencil   the whole program in overlapped tiles of some time steps (mesh_stencils)
    memory    of values that keep loops from being parallel or tiled (mesh_memory)
    values    gathered in the memory that they come from (mesh_kept)
    order     parallel loops outermost (planner/grid_plans/grid_order), then along kept values
    sums      passes over rows, and sums that are handed from core to core (mesh_sums)
    nests     for each: tiles by the DMA model (mesh_tiles), one or two loops of tiles dealt
              out to cores, every array staged at the innermost loop of tiles that changes its box
    copies    arrays that cores read in place

Each planner keeps to a quota of isl operations; what is too hard for one is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import partial

from loopwright.ir.islkit import OUTER_QUOTA, bounded
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import nodes_of
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.draft import Draft
from loopwright.planner.grid_plans.grid_order import plan_parallel_order
from loopwright.planner.guard import guarded
from loopwright.planner.mesh_plans.mesh_kept import keep_values, put_in_order, values_stay
from loopwright.planner.mesh_plans.mesh_memory import plan_mesh_memory
from loopwright.planner.mesh_plans.mesh_room import scratchpad_bytes, scratchpad_room
from loopwright.planner.mesh_plans.mesh_stencils import plan_mesh_stencil
from loopwright.planner.mesh_plans.mesh_sums import plan_mesh_sums
from loopwright.planner.mesh_plans.tiled_nests import NEST_QUOTA, Nests
from loopwright.transform.plan import Plan
from loopwright.transform.read_in_place import ReadInPlace
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step

__all__ = [
    "mesh_planner",
    "mesh_planner_of",
    "plan_given_order",
    "scratchpad_bytes",
    "scratchpad_room",
]

_QUOTA = 4_000_000  # elementary isl operations of a planner


def mesh_planner(program: Program, machine: MeshMachine, threads: int = 1) -> tuple[Plan, Schedule]:
    """What the model of a mesh decides, for all of its cores."""
    return mesh_planner_of((machine.rows, machine.columns))(program, machine, threads)


def mesh_planner_of(
    shape: tuple[int, int],
) -> Callable[[Program, MeshMachine, int], tuple[Plan, Schedule]]:
    """The planner for some rows and columns of cores; with one row or column loops are mapped 1-D.

    `threads` of the host do not matter.
    """

    def planner(program: Program, machine: MeshMachine, threads: int = 1) -> tuple[Plan, Schedule]:
        draft = _planned(program, machine, shape, keeps=True)
        if not values_stay(draft):
            draft = _planned(program, machine, shape, keeps=False)
        return Plan(tuple(draft.steps)), draft.schedule

    return planner


def plan_given_order(
    schedule: Schedule, machine: MeshMachine, shape: tuple[int, int]
) -> tuple[Step, ...]:
    """Cores and boxes for the loops of `schedule`, in their order.

    Nests that have tiles keep them; others get those of the model.
    """
    nests = Nests(Draft(schedule), machine, shape, is_given=True)
    nests.node(nodes_of(schedule))
    nests.stage()
    return tuple(nests.draft.steps)


@dataclass(slots=True)
class _MeshDraft:
    """What the planners of a mesh have made so far, and for what."""

    draft: Draft
    machine: MeshMachine
    shape: tuple[int, int]  # rows and columns of cores
    keeps: bool  # whether values may be gathered in the memory that they come from
    boxes: list[StageBox] = field(default_factory=list)  # of passes and sums, not taken yet
    is_whole: bool = False  # the program as a whole is planned, no planner is left to call

    @property
    def room(self) -> int:
        return scratchpad_room(self.machine)

    @property
    def wait_seconds(self) -> float:
        """A barrier, and the first bytes from memory behind it."""
        wait = (self.machine.barrier_cycles or 0.0) + (self.machine.dma_latency or 0.0)
        return wait / self.machine.frequency_hz


def _planned(
    program: Program, machine: MeshMachine, shape: tuple[int, int], *, keeps: bool
) -> Draft:
    found = _MeshDraft(Draft(initial_schedule(program)), machine, shape, keeps)
    for planner, quota in _PLANNERS.items():
        if found.is_whole:
            break
        name = planner.__name__
        found = guarded(
            partial(_extended, found, planner), partial(_same, found), name, program, quota
        )
    return found.draft


def _extended(found: _MeshDraft, planner: Callable[[_MeshDraft], None]) -> _MeshDraft:
    made = replace(found, draft=found.draft.copy(), boxes=list(found.boxes))
    planner(made)
    return made


def _same(found: _MeshDraft) -> _MeshDraft:
    return found


def _plan_stencil(found: _MeshDraft) -> None:
    schedule = found.draft.schedule
    steps = plan_mesh_stencil(schedule, found.machine, found.shape, found.room)
    found.is_whole = bool(steps) and found.draft.take(*steps)


def _plan_memory(found: _MeshDraft) -> None:
    for step in plan_mesh_memory(found.draft.schedule, found.wait_seconds):
        found.draft.take(step)


def _plan_kept_values(found: _MeshDraft) -> None:
    if found.keeps and min(found.shape) > 1:
        keep_values(found.draft)


def _plan_order(found: _MeshDraft) -> None:
    for step in plan_parallel_order(found.draft.schedule, found.wait_seconds):
        found.draft.take(step)


def _plan_kept_order(found: _MeshDraft) -> None:
    put_in_order(found.draft)


def _plan_sums(found: _MeshDraft) -> None:
    schedule, boxes = found.draft.schedule, list[StageBox]()
    steps = plan_mesh_sums(schedule, found.machine, found.shape, found.room, boxes)
    if found.draft.take(*steps):
        found.boxes = boxes


def _plan_nests(found: _MeshDraft) -> None:
    nests = Nests(found.draft, found.machine, found.shape, list(found.boxes))
    nests.node(nodes_of(found.draft.schedule))
    nests.stage()


def _plan_copies(found: _MeshDraft) -> None:
    for copy in ReadInPlace.candidates(found.draft.schedule):
        bounded(partial(found.draft.take, copy), lambda _: False, NEST_QUOTA)


# In their order, with the elementary isl operations of each, of some between parts.
_PLANNERS: dict[Callable[[_MeshDraft], None], int] = {
    _plan_stencil: _QUOTA,
    _plan_memory: _QUOTA,
    _plan_kept_values: _QUOTA,
    _plan_order: _QUOTA,
    _plan_kept_order: OUTER_QUOTA,
    _plan_sums: _QUOTA,
    _plan_nests: OUTER_QUOTA,
    _plan_copies: OUTER_QUOTA,
}
