"""Operands whose neighbours lie along another loop than those of out: transpositions, say."""

from __future__ import annotations

import math

from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.grid_kernel import TURNED_SIDE, ElementsVariant
from loopwright.planner.grid_plans.interleave import joined_loops

__all__ = ["turned_elements", "turned_seconds"]

_LEAST = 16  # elements of both loops: tiles have 32 x 32
_SHARE = 0.8  # of the bandwidth, that turned tiles reach


def turned_elements(
    shape: ContractionShape, sizes: tuple[int, int, int]
) -> tuple[ContractionShape, ElementsVariant] | None:
    """Loops of out as i, that of its neighbours last, that of an operand's neighbours before it.

    None where all operands have the neighbours of out, or there is a reduction. `sizes` are the
    bytes of an element of left, right and out; 0: there is no such operand.
    """
    if shape.swapped:
        shape = shape.turned()
    if shape.sizes[3] != 1:
        return None
    free = joined_loops((*shape.batch, *shape.i, *shape.j))
    x = _neighbours(free, "out")
    if x is None or x.extent < _LEAST:
        return None
    found: dict[str, Dim] = {}
    for operand, size in zip(("left", "right"), sizes, strict=False):
        own = _neighbours(free, operand) if size else None
        if own is not None and own is not x and getattr(x, operand) != 0:
            found[operand] = own
    if not found:
        return None
    # Operands of one direction: that with the most elements.
    most = max(found, key=lambda operand: _elements(free, operand))
    y = found[most]
    if y.extent < _LEAST:
        return None
    turned = [operand for operand, own in found.items() if own is y]
    rest = tuple(d for d in free if d is not x and d is not y)
    name = "both" if len(turned) == 2 else turned[0]
    ordered = ContractionShape((), (*rest, y, x), (), (), False, shape.bases)
    return ordered, ElementsVariant(len(ordered.i), 0, turned=name)


def turned_seconds(
    shape: ContractionShape,
    variant: ElementsVariant,
    sizes: tuple[int, int, int],
    machine: GpuMachine,
) -> float:
    """Bytes over bandwidth, with those of tiles that are cut off."""
    y, x = shape.i[-2:]
    whole = math.prod(-(-d.extent // TURNED_SIDE) * TURNED_SIDE / d.extent for d in (x, y))
    moved = 0.0
    for operand, size in zip(("left", "right", "out"), sizes, strict=True):
        moved += size * _elements(shape.i, operand)
    loose = [
        operand
        for operand, is_turned in zip(("left", "right"), variant.is_turned, strict=True)
        if not is_turned and getattr(x, operand) not in (0, 1)
    ]
    count = math.prod(d.extent for d in shape.i)
    scattered = sum(count * machine.sector for operand in loose if sizes[operand == "right"])
    speed = machine.memory_bytes_per_second * _SHARE
    return (moved * whole + scattered) / speed + machine.launch_seconds


def _neighbours(dims: tuple[Dim, ...], operand: str) -> Dim | None:
    """The loop along which neighbours of an operand lie."""
    return next((d for d in dims if getattr(d, operand) == 1), None)


def _elements(dims: tuple[Dim, ...], operand: str) -> int:
    return math.prod(d.extent for d in dims if getattr(d, operand))
