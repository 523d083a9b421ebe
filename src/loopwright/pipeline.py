"""The compiler: the arrows from a program to a loop nest, in order.

    Program --planner--> Plan --transform--> Schedule --lower--> LoopNest

and on to a kernel in `kernels`. Effort is bounded by isl's operation quota.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopwright.ir.contraction import LoopRange
from loopwright.ir.expr import Expr
from loopwright.ir.islkit import QuotaExceeded, quota
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Access, Array, Program
from loopwright.kernels import ENTRY
from loopwright.lower.astgen import lower_schedule
from loopwright.lower.elementwise import lower_elementwise
from loopwright.lower.specialise import specialise
from loopwright.machines.host import host
from loopwright.planner.generic import default_plan
from loopwright.transform.plan import Plan, apply_plan

__all__ = ["elementwise_nest", "generic_nest"]

ISL_QUOTA = 5_000_000  # elementary isl operations per compile, some seconds at most


def generic_nest(program: Program, unit: Mapping[str, int], *, parallel: bool) -> LoopNest:
    """The nest of any affine program: a legal plan, the schedule it makes, its loops.

    `unit` names the strides that are 1 in the arrays of the call. When isl would need more work
    than the quota allows, the program runs in the order it was written.
    """
    machine = host()
    try:
        with quota(ISL_QUOTA):
            plan = default_plan(program, machine, parallel=parallel)
            schedule = apply_plan(program, plan)
    except QuotaExceeded:
        schedule = apply_plan(program, Plan(()))
    nest = lower_schedule(schedule)
    return replace(specialise(nest, unit), name=ENTRY)


def elementwise_nest(
    loops: Sequence[LoopRange],
    target: Access,
    value: Expr,
    arrays: Sequence[Array],
    params: Sequence[str],
    unit: Mapping[str, int],
) -> LoopNest:
    """The nest of `target = value` over loops, for arrays with the given unit strides."""
    lanes = host().lanes(value.dtype.real.bits)
    nest = lower_elementwise(ENTRY, loops, target, value, arrays, params, lanes)
    return specialise(nest, unit)
