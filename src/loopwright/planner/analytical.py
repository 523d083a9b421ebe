"""The analytical planner: from a shape and a machine to the form and the launch of a kernel.

No search and no trial run: register tiles and blocks come from the processor model (gemm_model,
gemv_model), packing from what exceeds which cache, the parallel loop from F(L). The cost of
planning does not depend on the sizes of the operands.
"""

from __future__ import annotations

from loopwright.ir.machine import Machine
from loopwright.planner.choice import Algebra, Choice
from loopwright.planner.contraction_shape import ContractionShape, arrange
from loopwright.planner.gemm_plan import plan_product
from loopwright.planner.vectors import plan_columns, plan_elements, plan_rows

__all__ = ["Algebra", "Choice", "choose"]


def choose(shape: ContractionShape, algebra: Algebra, machine: Machine, threads: int) -> Choice:
    """The plan of the model for one contraction. All extents must be positive."""
    lanes = max(1, machine.vector_bytes // algebra.accumulator.real.bytes)
    arranged = arrange(shape, lanes, algebra.reassoc)
    _, m, n, _ = arranged.sizes
    if not arranged.p:
        return plan_elements(arranged, algebra, machine, threads, lanes)
    if n == 1 and algebra.reassoc:
        return plan_rows(arranged, algebra, machine, threads, lanes)
    if n == 1:
        arranged = arranged.turned()
        _, m, n, _ = arranged.sizes
    if m == 1:
        return plan_columns(arranged, algebra, machine, threads, lanes)
    return plan_product(arranged, algebra, machine, threads, lanes)
