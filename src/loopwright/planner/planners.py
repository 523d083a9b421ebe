"""Plans by request: the model's, tiles of given sizes, schedule trees or steps of a user.

A planner gives a plan and the schedule that it makes of a program's source order. Where planning
fails by a fault of ours (`faults`), the next simpler plan is taken: the model's without the planner
that failed, then the source order with its marks, then without them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeAlias

from loopwright.diagnostics import UsageError, WrongTypeError
from loopwright.faults import survive
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.islkit import ISL_QUOTA, OUTER_QUOTA, GaveUp, bounded
from loopwright.ir.machine import Machine
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.planner.draft import Draft
from loopwright.planner.generic import default_plan, extend_plan
from loopwright.planner.given_tiles import given_tiles
from loopwright.planner.grid_plans.grid_layout import plan_grid_layout
from loopwright.planner.grid_plans.grid_staging import plan_grid_registers, plan_grid_staging
from loopwright.planner.guard import guarded
from loopwright.planner.mesh_plans.mesh import plan_given_order
from loopwright.planner.plan_choice import choose_plan
from loopwright.planner.source_order import source_order
from loopwright.transform.machine_kinds import GPU, MESH, PROCESSOR, machine_kinds
from loopwright.transform.plan import Plan, apply_plan, apply_steps, initial_schedule
from loopwright.transform.reschedule import Reschedule
from loopwright.transform.step import Step, Text

__all__ = [
    "GivenPlan",
    "Planner",
    "checked_plan",
    "given_planner",
    "loaded_planners",
    "model_planner",
    "plans_from_text",
    "plans_text",
    "repeated_planner",
    "tell_gave_up",
    "text_planner",
    "tile_planner",
    "unchanged_planner",
    "unweighed_text_planner",
]

# Of a program, the machine that its code is for (of the kind that the target takes), and the number
# of threads that will run it.
AnyMachine: TypeAlias = Machine | GpuMachine | MeshMachine
Planner: TypeAlias = Callable[[Program, Any, int], tuple[Plan, Schedule]]


def model_planner(
    program: Program, machine: Machine, threads: int, *, text: bool = False
) -> tuple[Plan, Schedule]:
    """What the model of the machine decides, for any affine program (planner/plan_choice).

    `text`: it is to be printed as C. Planners keep to quotas of their own. When isl gives up on
    what they have found together, the program runs in the order it was written.
    """

    def chosen() -> tuple[Plan, Schedule]:
        found = choose_plan(program, machine, threads, text=text)
        return found.plan, found.schedule

    plainly = partial(source_order, program, machine, threads)
    return guarded(chosen, plainly, "the plan", program, OUTER_QUOTA)


def text_planner(program: Program, machine: Machine, threads: int) -> tuple[Plan, Schedule]:
    """What the model decides for C, which a compiler vectorises by its own judgement."""
    return model_planner(program, machine, threads, text=True)


def unweighed_text_planner(
    program: Program, machine: Machine, threads: int
) -> tuple[Plan, Schedule]:
    """What all planners make of a program for C, whatever it is expected to take."""
    return default_plan(program, machine, parallel=threads > 1, text=True, on_fault=survive)


def unchanged_planner(program: Program, machine: Machine, threads: int) -> tuple[Plan, Schedule]:
    """No step at all: a region of C stays as it stands."""
    return Plan(()), initial_schedule(program)


def tell_gave_up(program: Program, error: GaveUp) -> None:
    log("plan", lambda: f"'{program.name}' is left in source order: isl gave up, {error}")


def _marks_or_none(
    schedule: Schedule, machine: AnyMachine, threads: int, mesh: tuple[int, int] | None
) -> tuple[Step, ...]:
    """Threads and vectors for the loops of `schedule`, or a grid, or the cores of a mesh.

    No steps where planners fail. `mesh` are rows and columns of cores; None for all of them.
    """
    mark: Callable[[], tuple[Step, ...]]
    if isinstance(machine, GpuMachine):
        mark = partial(_grid_marks, schedule, machine)
    elif isinstance(machine, MeshMachine):
        shape = mesh or (machine.rows, machine.columns)
        return guarded(
            partial(plan_given_order, schedule, machine, shape),
            tuple,
            "the marks",
            schedule.program,
            OUTER_QUOTA,
        )
    else:
        mark = partial(extend_plan, schedule, machine, parallel=threads > 1)
    return guarded(mark, tuple, "the marks", schedule.program, ISL_QUOTA)


def _grid_marks(schedule: Schedule, machine: GpuMachine) -> tuple[Step, ...]:
    """A grid for the loops of `schedule`, in the order they stand in."""
    draft = Draft(schedule)
    for planner in (plan_grid_layout, plan_grid_staging, plan_grid_registers):
        draft.take(*planner(draft.schedule, machine))
    return tuple(draft.steps)


# -- plans of users -------------------------------------------------------------------------------


def checked_plan(plan: object) -> Plan:
    """What a user passes as plan=; refuses all else than a Plan."""
    if not isinstance(plan, Plan):
        hint = "what plan(...) or einsum_plan(...) gives, or Plan.loads(text)"
        raise WrongTypeError("plan must be a Plan", found=repr(plan)[:60], hint=hint)
    return plan


@dataclass(frozen=True, slots=True)
class GivenPlan:
    """A planner: the steps of a plan for the loops of a program, each of which must be legal.

    A whole contraction has no loops in a nest: its kernel takes offset tables of a call.
    """

    plan: Plan
    mesh: tuple[int, int] | None = None  # rows and columns of cores that were asked for

    def __call__(
        self, program: Program, machine: AnyMachine, threads: int = 1
    ) -> tuple[Plan, Schedule]:
        def too_hard(error: GaveUp) -> NoReturn:
            reason = f"the plan of '{program.name}' is too hard to check"
            raise UsageError(reason, found=str(error)) from error

        schedule = bounded(lambda: apply_plan(program, self.plan), too_hard)
        _require_machine(program, schedule, machine)
        _require_mesh(program, schedule, self.mesh)
        if schedule.whole_contraction is not None:
            raise UsageError(
                f"a plan for the loops of '{program.name}' cannot take out the whole of them",
                found=str(self.plan),
                hint="contract for three loops of it, or the plan 'model', by which a function of "
                "C that is one contraction runs as its kernel",
            )
        return self.plan, schedule


def given_planner(plan: Plan, mesh: tuple[int, int] | None = None) -> Planner:
    """The planner of a plan; `mesh`, where it is not None, must be the plan's rows and columns."""
    return GivenPlan(plan, mesh)


def repeated_planner(plan: Plan) -> Planner:
    """The steps that the model has decided on before for the same program, machine and threads.

    To apply them takes a small part of the time of planning. The model decides anew where isl gives
    up on all of them together.
    """

    def planned(program: Program, machine: Machine, threads: int) -> tuple[Plan, Schedule]:
        again = partial(apply_plan, program, plan)
        anew = partial(model_planner, program, machine, threads)
        return guarded(lambda: (plan, again()), anew, "the plan", program, ISL_QUOTA)

    return planned


_TARGETS = {PROCESSOR: "'host', 'openmp' or 'c'", GPU: "'cuda' or 'opencl'", MESH: "'athread'"}


def _require_machine(program: Program, schedule: Schedule, machine: object) -> None:
    """Refuse decisions that are for another kind of machine than the target's."""
    wanted = PROCESSOR
    if isinstance(machine, GpuMachine):
        wanted = GPU
    elif isinstance(machine, MeshMachine):
        wanted = MESH
    for kind, reason in machine_kinds(schedule).items():
        if kind != wanted:
            raise UsageError(
                f"the plan of '{program.name}' is for a {kind}, and the target is for a {wanted}",
                found=reason,
                hint=f"the target {_TARGETS[kind]}, or a plan that was made for this target",
            )


def _require_mesh(program: Program, schedule: Schedule, mesh: tuple[int, int] | None) -> None:
    """Refuse a plan that is for other rows and columns of cores than were asked for."""
    if mesh is None or schedule.mesh is None or schedule.mesh == mesh:
        return
    planned, asked = ("{}x{}".format(*shape) for shape in (schedule.mesh, mesh))
    raise UsageError(
        f"the plan of '{program.name}' is for {planned} cores",
        found=f"--threads {asked}",
        hint=f"--threads {planned}, or a plan that was made with --threads {asked}",
    )


def plans_text(plans: Sequence[Plan]) -> str:
    """Plans of the regions of a file as JSON: of one region the plan, of several a list."""
    texts = [plan.dumps() for plan in plans]
    return f"{texts[0]}\n" if len(texts) == 1 else "[\n" + ",\n".join(texts) + "\n]\n"


def plans_from_text(text: str, count: int) -> list[Plan]:
    """The plans that `plans_text` wrote, for a file of `count` regions; refuses anything else."""
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError("plans are JSON text", found=str(error)) from error
    plans = [Plan.from_json(part) for part in (data if isinstance(data, list) else [data])]
    if len(plans) != count:
        regions = f"{count} region{'s' if count > 1 else ''}"
        raise UsageError(f"the file has {regions}", found=f"{len(plans)} plans")
    return plans


def tile_planner(sizes: Sequence[int], mesh: tuple[int, int] | None = None) -> Planner:
    """Tiles of given sizes for every nest of loops that allows them, then the usual marks.

    Of a nest the longest run of loops that may be tiled is, outermost first; a nest of more loops
    than sizes is tiled in its outermost ones. Statements get loops of their own where only that
    allows tiles. Raises UsageError when no loops can be tiled. On a
    mesh the cores take the tiles: of `mesh` rows and columns, or all that there are.
    """

    def first(program: Program) -> tuple[Step, ...]:
        steps, reason = given_tiles(initial_schedule(program), tuple(sizes))
        if not steps:
            raise UsageError(f"no loops of '{program.name}' can be tiled", reason)
        return steps

    return partial(_marked, first, mesh)


def loaded_planners(text: str, count: int, mesh: tuple[int, int] | None = None) -> list[Planner]:
    """Schedule trees in YAML, one document per region, each followed by the usual marks.

    A tree that is not legal is refused with the pair of instances that forbids it. `mesh` as in
    `tile_planner`.
    """
    documents = [part for part in re.split(r"^---[ \t]*$", text, flags=re.MULTILINE) if _says(part)]
    if len(documents) != count:
        raise UsageError(
            f"the file has {count} region{'s' if count > 1 else ''}",
            found=f"{len(documents)} schedule trees",
            hint="one YAML document per region, with --- between them, as --dump-schedule writes",
        )

    def tree(document: str, program: Program) -> tuple[Step, ...]:
        return (Reschedule(Text(document)),)

    return [partial(_marked, partial(tree, part), mesh) for part in documents]


def _says(document: str) -> bool:
    """Whether a document holds more than comments."""
    lines = (line.strip() for line in document.splitlines())
    return any(line and not line.startswith("#") for line in lines)


def _marked(
    first: Callable[[Program], tuple[Step, ...]],
    mesh: tuple[int, int] | None,
    program: Program,
    machine: AnyMachine,
    threads: int,
) -> tuple[Plan, Schedule]:
    """The user's steps, then what runs the loops they leave: vectors and threads, or cores."""

    def marked() -> tuple[Plan, Schedule]:
        steps = first(program)
        schedule = apply_plan(program, steps)
        marks = _marks_or_none(schedule, machine, threads, mesh)
        return Plan((*steps, *marks)), apply_steps(schedule, marks)

    def too_hard(error: GaveUp) -> NoReturn:
        reason = f"the order that was asked of '{program.name}' is too hard to check"
        raise UsageError(reason, found=str(error)) from error

    return bounded(marked, too_hard)
