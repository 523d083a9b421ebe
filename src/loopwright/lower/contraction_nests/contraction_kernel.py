"""The kernel of a contraction that a program is as a whole: its LoopNest, by its algorithm."""

from __future__ import annotations

from collections.abc import Callable

from loopwright.ir.kernel_variant import Algorithm, ContractionKernel
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.schedule import ScheduledContraction
from loopwright.lower.contraction_nests.contraction_parts import split_contraction
from loopwright.lower.contraction_nests.elements import lower_elements
from loopwright.lower.contraction_nests.macro_kernel import lower_product
from loopwright.lower.contraction_nests.matrix_vector import lower_columns, lower_rows

__all__ = ["kernel_of", "lower_contraction"]

_ALGORITHMS: dict[Algorithm, Callable[[ContractionKernel, str], LoopNest]] = {
    Algorithm.PRODUCT: lower_product,
    Algorithm.ROWS: lower_rows,
    Algorithm.COLUMNS: lower_columns,
    Algorithm.ELEMENTS: lower_elements,
}


def lower_contraction(kernel: ContractionKernel, name: str) -> LoopNest:
    """The loop nest of a kernel over operands that offset tables describe."""
    return _ALGORITHMS[kernel.variant.algorithm](kernel, name)


def kernel_of(scheduled: ScheduledContraction, program: Program) -> ContractionKernel:
    """The kernel of a contraction that a program is as a whole."""
    parts = split_contraction(scheduled.whole, program.arrays, program.params)
    return ContractionKernel(parts.algebra, scheduled.variants[0])
