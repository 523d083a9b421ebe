"""Tile, packing and blocks for an inner contraction: the model of products on expected sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from loopwright.ir.contraction import LOOPS, AffineSubscripts, InnerContraction, InnerProduct
from loopwright.ir.expr import Const
from loopwright.ir.form import Initial
from loopwright.ir.machine import Machine
from loopwright.planner.choice import Algebra
from loopwright.planner.contraction_shape import ContractionShape, Dim
from loopwright.planner.gemm_model import gemm_blocks
from loopwright.planner.gemm_plan import CoreSizes, plan_core
from loopwright.semirings import identity
from loopwright.transform.contract_loops import ContractLoops

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
) -> ContractLoops | None:
    """The step that makes a core of the loops; None when they are too few to be worth it.

    `most` says of some loops how many iterations they have at most.
    """
    extents = tuple(_extent(found, k, most.get(loop)) for k, loop in enumerate(loops))
    sizes = [_sizes(found, product, extents, machine) for product in found.products]
    rows, _, lanes, *_ = sizes[0].tile
    if extents[0] < rows // 2 or min(extents[1:]) < lanes or math.prod(extents) < _FEWEST:
        return None
    packing = tuple(word for size in sizes for word in size.packing)
    chosen = sizes[0]
    return ContractLoops(*loops, chosen.tile, chosen.blocks, packing, chosen.feed, shares)


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


def _sizes(
    found: InnerContraction, product: InnerProduct, extents: tuple[int, ...], machine: Machine
) -> CoreSizes:
    dtype = found.out.dtype
    algebra = Algebra(
        plus=found.plus,
        times=product.times,
        zero=identity(found.plus, dtype),
        left=dtype,
        right=dtype,
        out=dtype,
        accumulator=dtype,
        initial=Initial.OUT,
        scaled=False,
        reassoc=False,
    )
    places = (product.left.subscripts, product.right.subscripts, found.subscripts)
    i, j, p = (
        Dim(extent, *(_stride(place, loop) for place in places))
        for loop, extent in zip(LOOPS, extents, strict=True)
    )
    return plan_core(
        ContractionShape((), (i,), (j,), (p,)), algebra, machine, machine.lanes(dtype.bits)
    )


def _stride(place: AffineSubscripts, loop: str) -> int:
    """Elements from one iteration to the next, in an array stored row by row."""
    total = 0
    for step in place.steps[loop]:
        total = total * _APART + step
    return total
