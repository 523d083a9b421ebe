"""The compiler: the arrows from a source tree to a loop nest, in order.

    SourceTree --frontends--> Program --planner--> Plan --transform--> Schedule --lower--> LoopNest

and on to a kernel in `kernels`. Effort is bounded by isl's operation quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright import options
from loopwright.frontends.extract import extract
from loopwright.frontends.tree import SourceTree
from loopwright.ir.check import check_program
from loopwright.ir.islkit import GaveUp, attempt
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.text import schedule_text
from loopwright.kernels import ENTRY, dump
from loopwright.lower.astgen import lower_schedule
from loopwright.lower.specialise import specialise
from loopwright.machines.host import host
from loopwright.planner.generic import default_plan
from loopwright.transform.plan import Plan, apply_plan

__all__ = ["generic_nest", "generic_schedule", "program_of"]

ISL_QUOTA = 5_000_000  # elementary isl operations per compile, some seconds at most


def program_of(tree: SourceTree, *, reassoc: bool) -> Program:
    """What a source tree means; `reassoc` allows floating sums in another order."""
    program = replace(extract(tree), reassoc=reassoc)
    if options.current().check:
        check_program(program)
    return program


def generic_nest(program: Program, unit: Mapping[str, int], *, parallel: bool) -> LoopNest:
    """The nest of any affine program; `unit` names the strides that are 1 in the call's arrays."""
    _, schedule = generic_schedule(program, parallel=parallel)
    dump("schedule", lambda: schedule_text(schedule))
    nest = lower_schedule(schedule)
    return replace(specialise(nest, unit), name=ENTRY)


def generic_schedule(program: Program, *, parallel: bool) -> tuple[Plan, Schedule]:
    """A legal plan for any affine program and the schedule it makes.

    When isl gives up, or would need more work than the quota allows, the plan is empty: the
    program runs in the order it was written.
    """
    try:
        with attempt(ISL_QUOTA):
            plan = default_plan(program, host(), parallel=parallel)
            return plan, apply_plan(program, plan)
    except GaveUp:
        return Plan(()), apply_plan(program, Plan(()))
