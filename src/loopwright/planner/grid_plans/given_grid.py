"""Choices of kernels for contractions on a GPU as plans, and back, on the shape of a call."""

from __future__ import annotations

import math
from collections.abc import Iterator

from loopwright.diagnostics import UsageError
from loopwright.ir.contraction_shape import MOST_TABLE_BYTES, ContractionShape, table_bytes
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.grid_check import kernel_fault
from loopwright.ir.grid_kernel import ElementsKernel, ElementsVariant, GridKernel, GridVariant
from loopwright.ir.kernel_variant import Algebra
from loopwright.planner.contraction_plans.arrange import arrange
from loopwright.planner.grid_plans.grid_operands import (
    access_width,
    farthest,
    operand_bytes,
    operand_types,
    out_access,
    repeats_in_tiles,
    steps_apart,
    tile_entries,
)
from loopwright.planner.grid_plans.grid_products import (
    GridChoice,
    chunk_of,
    joined_parts,
    partial_algebra,
)
from loopwright.planner.grid_plans.interleave import elements_in_order, in_tiles
from loopwright.planner.grid_plans.turned_elements import turned_elements
from loopwright.transform.map_contraction import MapWholeContraction
from loopwright.transform.plan import Plan

__all__ = ["given_grid_choice", "grid_plan_of"]


def grid_plan_of(choice: GridChoice) -> Plan:
    """A choice as a plan."""
    return Plan((MapWholeContraction((choice.kernel.variant,), choice.parts),))


def given_grid_choice(
    plan: Plan,
    shape: ContractionShape,
    algebra: Algebra,
    machine: GpuMachine,
    alignment: tuple[int, int, int],
) -> GridChoice:
    """As `choose_grid`, but what a plan says.

    Sizes and strides may be others than those that the plan was made for; it may be split into
    fewer parts. Raises UsageError where its variant cannot run on them.
    """
    match plan.steps:
        case (MapWholeContraction(variants=(variant,), parts=parts),):
            pass
        case _:
            message = "a plan for a contraction on a device is one map_whole_contraction step"
            raise UsageError(message, found=str(plan))
    own = algebra if parts == 1 else partial_algebra(algebra)
    kernel: GridKernel | ElementsKernel
    if isinstance(variant, ElementsVariant):
        is_unary = algebra.times == "first"
        sizes = algebra.left.bytes, 0 if is_unary else algebra.right.bytes, algebra.out.bytes
        arranged = elements_in_order(shape, sizes)
        turned = turned_elements(shape, sizes) if variant.turned else None
        if turned is not None:
            arranged = turned[0]
        kernel, unit = ElementsKernel(own, variant), variant.lanes
        faults = _elements_faults(variant, arranged, turned and turned[1].turned)
    else:
        arranged = arrange(shape, 4)
        if arranged.i and arranged.j and arranged.p:
            sizes = operand_bytes(algebra, arranged)
            arranged = in_tiles(arranged, variant.columns, variant.depth, sizes)
        kernel, unit = GridKernel(own, variant), variant.depth
        if arranged.swapped:
            alignment = (alignment[1], alignment[0], alignment[2])
        faults = _product_faults(kernel, arranged, machine, alignment)
    reason = next(faults, None)
    if reason is not None:
        raise UsageError("the plan does not fit this call", found=reason, hint="a plan made for it")
    if parts == 1:
        return GridChoice(kernel, arranged, 1, math.nan)
    count = -(-arranged.sizes[3] // chunk_of(arranged, parts, unit))
    joined = joined_parts(arranged, count, algebra, machine)
    return GridChoice(kernel, arranged, count, math.nan, joined)


def _elements_faults(
    variant: ElementsVariant, shape: ContractionShape, turned: str | None
) -> Iterator[str]:
    """Why a kernel by elements cannot run on loops in order; `turned` are the operands to turn."""
    if variant.turned != (turned or ""):
        yield f"it turns {variant.turned}, here {turned or 'nothing'} would be turned"
    if (variant.free, variant.reduced) != (len(shape.i), len(shape.p)):
        found = f"{len(shape.i)} loops over {len(shape.p)}"
        yield f"it is for {variant.free} loops over {variant.reduced}, here are {found}"


def _product_faults(
    kernel: GridKernel, shape: ContractionShape, machine: GpuMachine, alignment: tuple[int, ...]
) -> Iterator[str]:
    """Why a product kernel cannot run on an arranged shape."""
    variant, algebra = kernel.variant, kernel.algebra
    if not (shape.i and shape.j and shape.p):
        yield "it is for products of matrices"
        return
    told = kernel_fault(kernel)
    if told is not None:
        yield told
    if variant.uses_mma and algebra.accumulator.name not in machine.rates.get("mma", {}):
        yield f"{machine.name} has no matrix unit for {algebra.accumulator.name}"
    if variant.swapped != shape.swapped:
        yield "it has the operands the other way round"
    for name, dims in zip("gijp", shape.bundles, strict=True):
        loops = variant.strided.count(name)
        if loops == 1 and len(dims) > 1:
            yield f"loops of bundle {name} have no common stride"
        elif loops > 1 and loops != len(dims):
            yield f"bundle {name} is counted by division as {loops} loops, here it has {len(dims)}"
    if variant.by_tiles and not repeats_in_tiles(shape, variant.depth):
        yield f"tiles of {variant.depth} steps of the reduction are not alike"
    if variant.looked_up and not variant.is_wide and farthest(shape) >= 1 << 31:
        yield "offsets need tables of 64 bits"
    entries = tile_entries(shape, variant.depth) if variant.by_tiles else None
    size = table_bytes(shape, variant.strided, 8 if variant.is_wide else 4, entries)
    if size > MOST_TABLE_BYTES:
        yield (
            f"offset tables of {variant.looked_up} take {size:,} bytes, "
            f"at most {MOST_TABLE_BYTES:,} are allocated"
        )
    yield from _width_faults(variant, algebra, shape, alignment)


def _width_faults(
    variant: GridVariant, algebra: Algebra, shape: ContractionShape, alignment: tuple[int, ...]
) -> Iterator[str]:
    """Accesses of several elements that do not lie so in memory."""
    left, right = operand_types(algebra, shape.swapped)
    for name, dtype, along_p, width, apart, aligned in (
        ("left", left, variant.left_along_p, variant.left_width, variant.left_apart, alignment[0]),
        (
            *("right", right, variant.right_along_p),
            *(variant.right_width, variant.right_apart, alignment[1]),
        ),
    ):
        run = shape.p if along_p else shape.i if name == "left" else shape.j
        if apart > 1 and apart != steps_apart(shape, name, variant.depth):
            yield f"neighbours of {name} are not {apart} steps of the reduction apart"
        run = run[: len(run) - (apart > 1)]
        if access_width(shape, run, name, dtype, aligned) % width:
            yield f"{width} elements of {name} cannot be loaded at once"
    most, apart = out_access(shape, algebra.out, alignment[2], variant.columns)
    if variant.is_split:  # sums lie row by row
        most, apart = math.gcd(4, shape.sizes[2]), 1
    if variant.out_width > 1 and apart != variant.out_apart:
        yield f"neighbours of out are not {variant.out_apart} columns apart"
    if most % variant.out_width:
        yield f"{variant.out_width} elements of out cannot be stored at once"
