"""The schedule and the loops of a program that is one contraction, for a new kernel.

A kernel from memory or disk was proven when it was made; only compiling a new one comes here, so
that calls of known kernels never load isl.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.calls.unproven import Unproven, unproven
from loopwright.diagnostics import IllegalStep, InternalError
from loopwright.faults import FAULTS, survive
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.frontends.einsum_tree import contraction_tree
from loopwright.frontends.extract import program_of
from loopwright.ir.islkit import bounded
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.text import program_text, schedule_text
from loopwright.kernels import ENTRY
from loopwright.log import dump
from loopwright.lower.contraction_parts import kernel_of
from loopwright.lower.passes import lower_schedule
from loopwright.planner.analytical import Choice
from loopwright.transform.apply import apply_plan
from loopwright.transform.contract import Contract

__all__ = ["contraction_nest", "contraction_program", "contraction_schedule", "einsum_nest"]


def einsum_nest(names: EinsumSubscripts, choice: Choice, *, is_given: bool) -> LoopNest:
    """The loops of a choice for an einsum of one or two operands; as `contraction_nest`."""
    try:
        program = bounded(lambda: contraction_program(names, choice), unproven)
        return contraction_nest(program, choice, is_given=is_given)
    except FAULTS as error:
        if is_given and isinstance(error, IllegalStep):
            raise
        survive(error, f"the kernel of einsum '{names.text}'")
        raise Unproven(str(error)) from error


def contraction_program(names: EinsumSubscripts, choice: Choice) -> Program:
    """An einsum of one or two operands as a program; sums may be taken in any order."""
    return program_of(contraction_tree(names, choice.kernel.algebra), reassoc=True)


def contraction_nest(program: Program, choice: Choice, *, is_given: bool) -> LoopNest:
    """The loops of the choice for a program that is one contraction.

    Raises Unproven when isl gives up, and when a plan of the model that is not legal is survived;
    IllegalStep for a plan of the user, which `is_given`.
    """
    try:
        schedule = bounded(lambda: contraction_schedule(program, choice), unproven)
    except IllegalStep as error:
        if is_given:
            raise
        fault = InternalError(f"a plan is not legal: {error}", program_text(program))
        survive(fault, f"the schedule of '{program.name}'")
        raise Unproven(str(error)) from error
    dump("schedule", lambda: schedule_text(schedule))
    return replace(lower_schedule(schedule), name=ENTRY)


def contraction_schedule(program: Program, choice: Choice) -> Schedule:
    """The legal schedule of the choice; raises IllegalStep where it is not legal."""
    schedule = apply_plan(program, (Contract((), (choice.variant,), choice.blocks),))
    (scheduled,) = schedule.contractions
    kernel = kernel_of(scheduled, program)
    if kernel != choice.kernel:
        found = f"{kernel}\n{choice.kernel}"
        raise InternalError("a kernel is not the one that was planned", found)
    return schedule
