"""Tile, packing and blocks for an inner contraction: the model of products on expected sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.contraction import LOOPS, AffineSubscripts, InnerContraction, InnerProduct
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.expr import Const
from loopwright.ir.kernel_variant import Algebra, Initial, KernelVariant
from loopwright.ir.machine import Machine
from loopwright.planner.gemm_model import gemm_blocks
from loopwright.planner.gemm_plan import plan_inner_product
from loopwright.transform.contract import Contract

__all__ = ["core_step", "strip_widths"]

_FEWEST = 1 << 14  # products that packing and the like are worth
_LARGE = 2048  # what is expected of extents that only a call tells
_STRIPS = (32, 8, 2)  # widths of strips in register tiles
_APART = 1 << 13  # elements from row to row of an array whose last extent only a call tells


def core_step(
    found: InnerContraction,
    loops: tuple[str, str, str],
    machine: Machine,
    most: Mapping[str, int],
    shares: int,
) -> Contract | None:
    """The step that makes a core of the loops; None when they are too few to be worth it.

    `most` says of some loops how many iterations they have at most.
    """
    extents = tuple(_extent(found, k, most.get(loop)) for k, loop in enumerate(loops))
    planned = [_planned(found, product, extents, machine) for product in found.products]
    variant, blocks = planned[0]
    if extents[0] < variant.rows // 2 or min(extents[1:]) < variant.lanes:
        return None
    if math.prod(extents) < _FEWEST:
        return None
    variants = tuple(
        replace(variant, left_packing=own.left_packing, right_packing=own.right_packing)
        for own, _ in planned
    )
    return Contract(loops, variants, blocks, shares)


def strip_widths(machine: Machine, dtype: str) -> tuple[int, ...]:
    """Iterations of the strips that a loop is cut into for cores, from the widest to the last.

    Each is a fourth of the one before: little work is left outside of cores, and most of it is in
    wide ones (measured on Neoverse N1: 192, 48, 12 beat 96, 24, 6 and 256, 64, 16).
    """
    rows = gemm_blocks(machine, "add", "mul", dtype).m_r
    return tuple(rows * tiles for tiles in _STRIPS)


def _extent(found: InnerContraction, k: int, most: int | None) -> int:
    bounds = found.ranges[k]
    extent = bounds.stop - bounds.start
    known = extent.value if isinstance(extent, Const) and isinstance(extent.value, int) else _LARGE
    return max(1, known if most is None else min(known, most))


def _planned(
    found: InnerContraction, product: InnerProduct, extents: tuple[int, ...], machine: Machine
) -> tuple[KernelVariant, tuple[int, int, int]]:
    dtype = found.out.dtype
    algebra = Algebra(
        found.plus, product.times, found.zero, *(dtype,) * 4, Initial.OUT, scaled=False
    )
    places = (product.left.subscripts, product.right.subscripts, found.subscripts)
    i, j, p = (
        Dim(extent, *(_stride(place, loop) for place in places))
        for loop, extent in zip(LOOPS, extents, strict=True)
    )
    shape = ContractionShape((), (i,), (j,), (p,))
    return plan_inner_product(shape, algebra, machine, machine.lanes(dtype.bits))


def _stride(place: AffineSubscripts, loop: str) -> int:
    """Elements from one iteration to the next, in an array stored row by row."""
    total = 0
    for step in place.steps[loop]:
        total = total * _APART + step
    return total
