"""The analytical planner: from a shape and a machine to the variant and blocks of a kernel.

No search and no trial run: register tiles and blocks come from the processor model (gemm_model,
gemv_model), packing from what exceeds which cache, the parallel loop from F(L). The cost of
planning does not depend on the sizes of the operands.
"""

from __future__ import annotations

from loopwright.ir.contraction_shape import ContractionShape
from loopwright.ir.kernel_variant import Algebra
from loopwright.ir.machine import Machine
from loopwright.planner.contraction_plans.arrange import arrange
from loopwright.planner.contraction_plans.choice import Choice, lanes_of
from loopwright.planner.contraction_plans.gemm_plan import plan_product
from loopwright.planner.contraction_plans.vectors import plan_columns, plan_elements, plan_rows

__all__ = ["Choice", "choose"]


def choose(
    shape: ContractionShape, algebra: Algebra, machine: Machine, threads: int, *, reassoc: bool
) -> Choice:
    """The choice of the model for one contraction. All extents must be positive.

    `reassoc`: the steps of the reduction may be taken in any order.
    """
    lanes = lanes_of(algebra, machine)
    arranged = arrange(shape, lanes, reassoc)
    _, m, n, _ = arranged.sizes
    if not arranged.p:
        return plan_elements(arranged, algebra, machine, threads, lanes)
    if n == 1 and reassoc:
        return plan_rows(arranged, algebra, machine, threads, lanes)
    if n == 1:
        arranged = arranged.turned()
        _, m, n, _ = arranged.sizes
    if m == 1:
        return plan_columns(arranged, algebra, machine, threads, lanes, reassoc=reassoc)
    return plan_product(arranged, algebra, machine, threads, lanes)
