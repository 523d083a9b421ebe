"""The kernel of a product that stands inside a larger nest, by the model of algorithm 6."""

from __future__ import annotations

from loopwright.ir.contraction import InnerContraction
from loopwright.ir.contraction_shape import ContractionShape
from loopwright.ir.machine import Machine
from loopwright.ir.schedule import ScheduledContraction
from loopwright.planner.contraction_plans.gemm_plan import plan_inner_product

__all__ = ["planned_product"]


def planned_product(
    found: InnerContraction, shape: ContractionShape, machine: Machine
) -> ScheduledContraction:
    """A contraction of one product with variant and blocks for sizes like those of `shape`."""
    (product,) = found.products
    lanes = machine.lanes(found.out.dtype.bits)
    variant, blocks = plan_inner_product(shape, found.algebra(product), machine, lanes)
    return ScheduledContraction(found, (variant,), blocks)
