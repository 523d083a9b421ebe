"""A contraction kernel to its LoopNest, by its algorithm."""

from __future__ import annotations

from collections.abc import Callable

from loopwright.ir.kernel_variant import Algorithm, ContractionKernel
from loopwright.ir.loops import LoopNest
from loopwright.lower.columns import lower_columns
from loopwright.lower.elements import lower_elements
from loopwright.lower.macro_kernel import lower_product
from loopwright.lower.rows import lower_rows

__all__ = ["lower_contraction"]

_ALGORITHMS: dict[Algorithm, Callable[[ContractionKernel, str], LoopNest]] = {
    Algorithm.PRODUCT: lower_product,
    Algorithm.ROWS: lower_rows,
    Algorithm.COLUMNS: lower_columns,
    Algorithm.ELEMENTS: lower_elements,
}


def lower_contraction(kernel: ContractionKernel, name: str) -> LoopNest:
    """The loop nest of a kernel over operands that offset tables describe."""
    return _ALGORITHMS[kernel.variant.algorithm](kernel, name)
