"""What the kernel of a contraction costs that stands in the place of loops."""

from __future__ import annotations

import math
from collections.abc import Mapping

from loopwright.ir.contraction import LOOPS
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.kernel_variant import ContractionKernel
from loopwright.ir.machine import Machine
from loopwright.ir.schedule import ScheduledContraction
from loopwright.planner.contraction_plans.choice import Choice
from loopwright.planner.contraction_plans.contraction_cost import choice_cycles
from loopwright.planner.cost.loop_steps import element_distance

__all__ = ["kernel_cycles"]


def kernel_cycles(
    made: ScheduledContraction, extents: Mapping[str, int], machine: Machine, threads: int
) -> float:
    """Cycles of all products of a contraction whose loops have these numbers of iterations."""
    found = made.inner
    cycles = 0.0
    for product, variant in zip(found.products, made.variants, strict=True):
        places = (product.left.subscripts, product.right.subscripts, found.subscripts)
        i, j, p = (
            Dim(extents.get(loop, 1), *(element_distance(place.steps[name]) for place in places))
            for loop, name in zip(made.loops, LOOPS, strict=True)
        )
        shape = ContractionShape((), (i,), (j,), (p,))
        kernel = ContractionKernel(found.algebra(product), variant)
        cycles += choice_cycles(Choice(kernel, made.blocks, shape, 1, math.nan), machine)
    if (shares := min(threads, made.shares)) > 1:
        cycles = cycles / shares + machine.parallel_cost.cycles(shares)
    return cycles
