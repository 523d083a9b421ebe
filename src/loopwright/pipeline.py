"""The compiler: the arrows from a program to code, in order.

    SourceTree --frontends--> Program --planner--> Plan, Schedule --lower--> LoopNest
               --targets--> Module

`compile_program` is all arrows but the first, which is `frontends/extract`; `kernels` takes nests
to loaded code. Every arrow is timed (LOG=time), its result printed (DUMP=schedule, loops:PASS;
`kernels` prints loops, c, llvm and asm of what it loads) and checked (CHECK=1: the program, the
schedule by its steps, the nest after every pass).

isl's quota bounds the effort of every arrow; where it is spent, and where an arrow fails by a fault
of ours (`faults`), the next simpler plan is taken: see planner/planners, and below.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NoReturn, TypeVar

from loopwright.analysis.dependences import require_few_remainders
from loopwright.diagnostics import IllegalStep, InternalError, UsageError
from loopwright.faults import FAULTS, survive
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.frontends.einsum_tree import contraction_tree
from loopwright.frontends.extract import program_of
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.islkit import ISL_QUOTA, GaveUp, bounded
from loopwright.ir.loops import LoopNest, Mark
from loopwright.ir.machine import Machine
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.mesh_program import scratchpad_need
from loopwright.ir.module import Module
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.text import program_text, schedule_text
from loopwright.kernels import ENTRY, Unproven
from loopwright.lazy_dataclass import dataclass
from loopwright.log import dump, log
from loopwright.lower.buffers import specialise
from loopwright.lower.contraction_nests.contraction_kernel import kernel_of
from loopwright.lower.passes import lower_plainly, lower_schedule
from loopwright.planner.contraction_plans.choice import Choice
from loopwright.planner.loop_plans.vector_width import (
    arrays_near,
    loop_vector_bits,
    loops_of_one_vector,
    loops_to_lines,
)
from loopwright.planner.mesh_plans.mesh import scratchpad_room
from loopwright.planner.planners import (
    Planner,
    model_planner,
    tell_gave_up,
)
from loopwright.planner.source_order import source_order
from loopwright.targets import TARGETS
from loopwright.time_limit import stage, time_limit
from loopwright.transform.contract import Contract
from loopwright.transform.plan import Plan, apply_plan, initial_schedule

__all__ = [
    "Compilation",
    "TooHard",
    "compile_contraction",
    "compile_einsum",
    "compile_program",
    "contraction_schedule",
]

T = TypeVar("T")

_MOST_PLANS = 4  # for less and less memory of a core
_SOURCE_QUOTA = 20_000_000  # for writing down the loops of the source, the last resort


class TooHard(UsageError):  # noqa: N818, names what happened
    """The loops of a program cannot be written down with bounded effort."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """A program, and what each arrow has made of it."""

    program: Program
    plan: Plan  # the one that was taken in the end
    schedule: Schedule
    nest: LoopNest
    module: Module | None  # None where no target was asked for


def compile_program(
    program: Program,
    machine: Machine | GpuMachine | MeshMachine,
    threads: int,
    planner: Planner | None = None,
    target: str | None = None,
    *,
    unit: Mapping[str, int] | None = None,
) -> Compilation:
    """All arrows, for a machine one need not own.

    `target` is one of `targets.TARGETS`, the machine of the kind that it takes, and the planner,
    where none is given, that of its model; without a target that of processors. `unit` has the
    short strides of the arrays of a call; without it the nest serves all strides. Raises TooHard,
    and TimeLimitError after the seconds that a compilation may take.
    """
    if target is not None and target not in TARGETS:
        raise UsageError("unknown target", found=repr(target), hint=", ".join(TARGETS))
    usual: Planner = model_planner if target is None else TARGETS[target].planner
    with time_limit(program.name):
        return _compiled(program, machine, threads, planner or usual, target, unit)


def _compiled(
    program: Program,
    machine: Machine | GpuMachine | MeshMachine,
    threads: int,
    chosen: Planner,
    target: str | None,
    unit: Mapping[str, int] | None,
) -> Compilation:
    bounded(lambda: require_few_remainders(program), partial(_refuse_loops, program))
    plan, schedule, nest = _loops_of(program, machine, threads, chosen)
    if isinstance(machine, MeshMachine):
        plan, schedule, nest = _that_fits(program, machine, chosen, (plan, schedule, nest))
    steps = "; ".join(map(str, plan)) or "loops in source order"
    log("plan", lambda: f"loops of '{program.name}': {steps}")
    dump("schedule", lambda: schedule_text(schedule))
    if isinstance(machine, Machine) and nest.leave_to_llvm:
        nest = replace(
            nest,
            vector_bits=loop_vector_bits(program, machine),
            of_one_vector=loops_of_one_vector(schedule, machine),
            to_lines=loops_to_lines(schedule, machine),
            near=arrays_near(program, machine),
        )
    if unit is not None:
        nest = replace(specialise(nest, unit), name=ENTRY)
    module = None
    if target is not None:
        emit = TARGETS[target].emit
        module = _timed("emitted", program, lambda: emit(program, nest, machine))
    return Compilation(program, plan, schedule, nest, module)


def _loops_of(
    program: Program, machine: Machine | GpuMachine | MeshMachine, threads: int, planner: Planner
) -> tuple[Plan, Schedule, LoopNest]:
    planned = _timed("planned", program, lambda: planner(program, machine, threads))
    return _timed("lowered", program, lambda: _lowered(program, *planned, machine))


def _that_fits(
    program: Program,
    machine: MeshMachine,
    planner: Planner,
    found: tuple[Plan, Schedule, LoopNest],
) -> tuple[Plan, Schedule, LoopNest]:
    """Loops whose memory fits into scratchpads, planned anew for less where it does not.

    Planners do not foresee all that vectors need: factors are written down, once loops are known.
    """
    smaller = machine
    for _ in range(_MOST_PLANS):
        excess = scratchpad_need(found[2].body) - scratchpad_room(machine)
        if excess <= 0:
            break
        reserved = smaller.scratchpad_reserved + excess
        smaller = replace(smaller, scratchpad_reserved=reserved)
        if scratchpad_room(smaller) <= 0:
            break
        found = _loops_of(program, smaller, 1, planner)
    return found


def _timed(word: str, program: Program, arrow: Callable[[], T]) -> T:
    start = time.perf_counter()
    with stage(word):
        made = arrow()
    milliseconds = 1e3 * (time.perf_counter() - start)
    log("time", lambda: f"'{program.name}' is {word} in {milliseconds:.1f} ms")
    return made


# -- Schedule -> LoopNest -------------------------------------------------------------------------


def _lowered(
    program: Program, plan: Plan, schedule: Schedule, machine: Machine | GpuMachine | MeshMachine
) -> tuple[Plan, Schedule, LoopNest]:
    """The loops of a schedule of `program`.

    Those of a simpler one where a pass of the lowering is at fault, and those of the source where
    they are too hard to write down. Raises TooHard where these are as well.
    """

    def in_source_order(error: GaveUp) -> tuple[Plan, Schedule, LoopNest]:
        tell_gave_up(program, error)
        return _source_loops(program)

    try:
        lower = partial(lower_schedule, schedule)
        return bounded(lambda: (plan, schedule, lower()), in_source_order, ISL_QUOTA)
    except FAULTS as error:
        survive(error, f"the loops of '{program.name}'")
    if isinstance(machine, GpuMachine | MeshMachine):
        return _source_loops(program)
    simpler = source_order(program, machine, 2 if _is_parallel(schedule) else 1)
    if len(plan) and len(simpler[0]) and simpler[0] != plan:
        return _lowered(program, *simpler, machine)
    return _source_loops(program)


def _source_loops(program: Program) -> tuple[Plan, Schedule, LoopNest]:
    """The loops as they were written, the last resort; raises TooHard."""

    def loops() -> tuple[Plan, Schedule, LoopNest]:
        source = initial_schedule(program)
        try:
            return Plan(()), source, lower_schedule(source)
        except FAULTS as error:
            survive(error, f"the source order of '{program.name}'")
            return Plan(()), source, lower_plainly(source)

    return bounded(loops, partial(_refuse_loops, program), _SOURCE_QUOTA)


def _refuse_loops(program: Program, error: GaveUp) -> NoReturn:
    message = f"the loops of '{program.name}' are too hard to write down"
    raise TooHard(message, str(error), "simpler conditions, or several functions") from None


def _is_parallel(schedule: Schedule) -> bool:
    """Whether threads share out some loop."""
    marks = {mark for _, mark in schedule.marks}
    return Mark.PARALLEL in marks or any(x.is_parallel for x in schedule.contractions)


# -- whole contractions ---------------------------------------------------------------------------


def compile_einsum(names: EinsumSubscripts, choice: Choice, *, is_given: bool) -> LoopNest:
    """The kernel of a choice for an einsum of one or two operands; as `compile_contraction`."""
    try:
        tree = contraction_tree(names, choice.kernel.algebra)
        with time_limit(tree.name):
            program = bounded(lambda: program_of(tree, reassoc=True), _unproven)
            return compile_contraction(program, choice, is_given=is_given)
    except FAULTS as error:
        if is_given and isinstance(error, IllegalStep):
            raise
        survive(error, f"the kernel of einsum '{names.text}'")
        raise Unproven(str(error)) from error


def compile_contraction(program: Program, choice: Choice, *, is_given: bool) -> LoopNest:
    """The loops of the kernel that was chosen for a program that is one contraction.

    Raises Unproven when isl gives up, and when a plan of the model that is not legal is survived:
    such a program runs as loops. IllegalStep is for a plan of the user, which `is_given`.
    """
    with time_limit(program.name):
        schedule = _proven_contraction(program, choice, is_given=is_given)
        dump("schedule", lambda: schedule_text(schedule))
        return replace(lower_schedule(schedule), name=ENTRY)


def _proven_contraction(program: Program, choice: Choice, *, is_given: bool) -> Schedule:
    try:
        return bounded(lambda: contraction_schedule(program, choice), _unproven)
    except IllegalStep as error:
        if is_given:
            raise
        fault = InternalError(f"a plan is not legal: {error}", program_text(program))
        survive(fault, f"the schedule of '{program.name}'")
        raise Unproven(str(error)) from error


def contraction_schedule(program: Program, choice: Choice) -> Schedule:
    """The legal schedule of the choice; raises IllegalStep where it is not legal."""
    schedule = apply_plan(program, (Contract((), (choice.variant,), choice.blocks),))
    (scheduled,) = schedule.contractions
    kernel = kernel_of(scheduled, program)
    if kernel != choice.kernel:
        found = f"{kernel}\n{choice.kernel}"
        raise InternalError("a kernel is not the one that was planned", found)
    return schedule


def _unproven(error: GaveUp) -> NoReturn:
    raise Unproven(str(error)) from error
