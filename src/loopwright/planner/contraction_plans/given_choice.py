"""Choices of kernels as plans, and back: the kernel that a plan names, on the shape of a call."""

from __future__ import annotations

import math
from dataclasses import replace

from loopwright.diagnostics import UsageError
from loopwright.ir.contraction_shape import ContractionShape
from loopwright.ir.kernel_check import unsupported
from loopwright.ir.kernel_variant import Algebra, ContractionKernel
from loopwright.ir.machine import Machine
from loopwright.lower.contraction_nests.launch import fitted_blocks, misfit, places
from loopwright.planner.contraction_plans.arrange import arrange_for
from loopwright.planner.contraction_plans.choice import Choice, lanes_of
from loopwright.transform.contract import Contract
from loopwright.transform.plan import Plan

__all__ = ["given_choice", "plan_of"]


def plan_of(choice: Choice) -> Plan:
    """A choice as a plan."""
    return Plan((Contract((), (choice.variant,), choice.blocks),))


def given_choice(
    plan: Plan,
    shape: ContractionShape,
    algebra: Algebra,
    machine: Machine,
    threads: int,
    *,
    reassoc: bool,
) -> Choice:
    """As `choose`, but what a plan says: one `contract` step for the whole program.

    Sizes and strides may be others than those that the plan was made for. Raises UsageError where
    its variant cannot run on them; which cost is to be expected is not known.
    """
    step = plan.whole_contract
    if step is None:
        raise UsageError(
            "a plan for a contraction is one contract step without loops", found=str(plan)
        )
    (variant,) = step.variants
    lanes = lanes_of(algebra, machine)
    arranged = arrange_for(variant, shape, lanes, reorder=reassoc)
    variant = replace(variant, strided=places(variant, arranged))
    kernel = ContractionKernel(algebra, variant)
    reason = unsupported(kernel) or misfit(kernel, arranged)
    if variant.streams > 1 and not reassoc:
        reason = "it sums in another order, which this function does not allow (reassoc=True)"
    if reason is not None:
        raise UsageError("the plan does not fit this call", found=reason, hint="a plan made for it")
    used = 1 if variant.parallel == "none" else threads
    mc, nc, kc = step.blocks
    blocks = fitted_blocks(kernel, (mc, nc, kc), arranged)
    return Choice(kernel, blocks, arranged, used, math.nan)
