"""The plan of an affine program for a GPU.

    closures   the whole program as one blocked closure
    stencils   the whole program in overlapped tiles of several time steps
    order      parallel loops outermost
    products   nests that are matrix products
    reductions blocks and threads for the terms of sums of free order
    layout     blocks and threads for them
    staging    rows that lanes walk in shared memory
    registers  elements that a thread uses again

Each planner keeps to a quota of isl operations; what is too hard for one is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from loopwright.diagnostics import UsageError
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.planner.draft import Draft
from loopwright.planner.grid_plans.grid_closures import plan_grid_closure
from loopwright.planner.grid_plans.grid_contractions import plan_grid_contractions
from loopwright.planner.grid_plans.grid_layout import plan_grid_layout
from loopwright.planner.grid_plans.grid_order import plan_grid_order
from loopwright.planner.grid_plans.grid_reductions import plan_grid_reductions
from loopwright.planner.grid_plans.grid_staging import plan_grid_registers, plan_grid_staging
from loopwright.planner.grid_plans.grid_stencils import plan_grid_stencil
from loopwright.planner.guard import guarded
from loopwright.transform.plan import Plan
from loopwright.transform.register_limits import CapRegisters, KeepInMemory
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.step import Step

__all__ = ["gpu_planner"]

_PLANNERS: tuple[Callable[..., tuple[Step, ...]], ...] = (
    plan_grid_closure,
    plan_grid_stencil,
    plan_grid_order,
    plan_grid_contractions,
    plan_grid_reductions,
    plan_grid_layout,
    plan_grid_staging,
    plan_grid_registers,
)
_QUOTA = 4_000_000  # elementary isl operations of each planner


def gpu_planner(
    program: Program,
    machine: GpuMachine,
    threads: int = 1,
    *,
    registers: int | None = None,
    in_registers: bool = True,
    atomics: bool = False,
) -> tuple[Plan, Schedule]:
    """What the model of a GPU decides; `threads` of the host do not matter.

    `registers` caps those of a thread, which limits tiles and what is promoted. Without
    `in_registers` no element lives in one while a loop runs: what privatisation brings can be
    measured so. With `atomics` blocks that share a reduction update its element together, in one
    launch: sums of floating-point numbers may then differ from launch to launch.
    """
    draft = Draft(initial_schedule(program))
    if not in_registers:
        draft.take(KeepInMemory())
    if registers is not None:
        if registers > machine.registers_per_thread:
            raise UsageError(
                f"a thread of {machine.name} has {machine.registers_per_thread} registers",
                found=str(registers),
            )
        draft.take(CapRegisters(registers))
    for planner in _PLANNERS:
        if draft.schedule.closure is not None or draft.schedule.time_tiles is not None:
            break
        own = {"atomics": atomics} if planner is plan_grid_reductions else {}
        find = partial(planner, draft.schedule, machine, **own)
        draft = guarded(
            partial(_extended, draft, find),
            partial(_same, draft),
            planner.__name__,
            program,
            _QUOTA,
        )
    return Plan(tuple(draft.steps)), draft.schedule


def _extended(draft: Draft, find: Callable[[], tuple[Step, ...]]) -> Draft:
    """A draft with the steps that a planner finds, if they are legal."""
    made = draft.copy()
    made.take(*find())
    return made


def _same(draft: Draft) -> Draft:
    return draft
