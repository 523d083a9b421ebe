"""Launches: the sizes, blocks and offset tables that a kernel of a contraction takes for a shape.

    values["left_i"]   where the offsets of left along i begin in `table`
    values["mc"]       M_c, and so on: see SCALARS of contraction_nests/macro_kernel and its kin

Everything follows from the variant, its blocks and the shape, so that a plan that is replayed is
launched as the one that was made. A shape that a variant cannot run on is a misfit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from loopwright.ir.contraction_shape import ContractionShape, Dim, has_runs, offsets
from loopwright.ir.kernel_variant import (
    Algorithm,
    ContractionKernel,
    Initial,
    KernelVariant,
    Packing,
)
from loopwright.lazy_dataclass import dataclass

__all__ = ["Launch", "fitted_blocks", "is_nearest", "launch", "misfit", "round_up"]

Offsets: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

# Steps with which a panel is filled at a visit where lines hold elements of several panels: all
# panels find those lines in L1 (measured, N1).
_VISIT_STEPS = 16


@dataclass(frozen=True, slots=True)
class Launch:
    """What a kernel is called with beside its arrays."""

    values: dict[str, int]  # by name
    table: Offsets  # offset tables, one after another


def launch(variant: KernelVariant, blocks: tuple[int, int, int], shape: ContractionShape) -> Launch:
    """The launch of a kernel on an arranged shape."""
    match variant.algorithm:
        case Algorithm.PRODUCT:
            return _product(variant, blocks, shape)
        case Algorithm.ROWS:
            sides = (("left", variant.left_packing), ("right", variant.right_packing))
            steps = " ".join(name for name, how in sides if how is not Packing.DIRECT)
            tables = ("g", "left right out"), ("i", "left out"), ("p", steps)
            return _launch(shape, {"left_p": 0, "right_p": 0}, tables)
        case Algorithm.COLUMNS:
            columns = "" if variant.right_packing is Packing.DIRECT else "right out"
            values = {"nc": blocks[1], "right_j": 0, "out_j": 0}
            tables = ("g", "left right out"), ("j", columns), ("p", "left right")
            return _launch(shape, values, tables)
        case Algorithm.ELEMENTS:
            (inner,) = shape.j
            values = {"left_j": inner.left, "right_j": inner.right, "out_j": inner.out}
            return _launch(shape, values, (("g", "left right out"),))


def _product(
    variant: KernelVariant, blocks: tuple[int, int, int], shape: ContractionShape
) -> Launch:
    mc, nc, kc = blocks
    values = {
        "mc": mc,
        "nc": nc,
        "kc": kc,
        "right_step": shape.p[0].right if len(shape.p) == 1 else 0,
        "left_v": _visit(shape.i, shape.p, "left", kc),
        "right_v": _visit(shape.j, shape.p, "right", kc),
    }
    tables = ("g", "left right out"), ("i", "left out"), ("j", "right out"), ("p", "left right")
    walks = {
        "left_w": _walk(variant.left_packing, (shape.i, mc), (shape.p, kc), "left"),
        "right_w": _walk(variant.right_packing, (shape.j, nc), (shape.p, kc), "right"),
    }
    return _launch(shape, values, tables, walks)


def _launch(
    shape: ContractionShape,
    values: dict[str, int],
    tables: tuple[tuple[str, str], ...],
    walks: Mapping[str, Offsets] = MappingProxyType({}),
) -> Launch:
    """Sizes and offset tables: table `left_i` starts at the value of that name."""
    bundles = {"g": shape.batch, "i": shape.i, "j": shape.j, "p": shape.p}
    bases = dict(zip(("left", "right", "out"), shape.bases, strict=True))
    values = dict(values, **dict(zip("GMNK", shape.sizes, strict=True)))
    parts = []
    position = 0
    for bundle, operands in tables:
        for operand in operands.split():
            part = offsets(bundles[bundle], operand)
            if bundle == "g":
                part = part + bases[operand]
            values[f"{operand}_{bundle}"] = position
            parts.append(part)
            position += len(part)
    for name, part in walks.items():
        values[name] = position
        parts.append(part)
        position += len(part)
    return Launch(values, np.concatenate(parts))


def is_nearest(tile: tuple[Dim, ...], p: tuple[Dim, ...], operand: str) -> bool:
    """Whether neighbours in memory lie along the tile's loops rather than along p."""
    along, across = (min(abs(getattr(d, operand)) or math.inf for d in x) for x in (tile, p))
    return bool(along < across)


def _visit(tile: tuple[Dim, ...], p: tuple[Dim, ...], operand: str, kc: int) -> int:
    """Steps with which a panel is filled at a visit: few, where lines hold several panels."""
    return min(kc, _VISIT_STEPS) if is_nearest(tile, p, operand) else kc


def _walk(
    packing: Packing,
    tile: tuple[tuple[Dim, ...], int],
    p: tuple[tuple[Dim, ...], int],
    operand: str,
) -> Offsets:
    """The indices of every block by rising address, counted from the block's start."""
    if packing not in (Packing.WALK_TILE, Packing.WALK_P):
        return np.zeros(0, dtype=np.int64)
    dims, block = tile if packing is Packing.WALK_TILE else p
    places = offsets(dims, operand)
    parts = [
        np.argsort(places[start : start + block], kind="stable")
        for start in range(0, len(places), block)
    ]
    return np.concatenate(parts).astype(np.int64)


# -- plans made for another shape -----------------------------------------------------------------


def fitted_blocks(
    kernel: ContractionKernel, blocks: tuple[int, int, int], shape: ContractionShape
) -> tuple[int, int, int]:
    """Blocks of a plan in whole register tiles, and as the shape needs them.

    Those that the model has chosen for this shape are what they are.
    """
    variant = kernel.variant
    if variant.algorithm is Algorithm.COLUMNS:
        return 0, round_up(max(blocks[1], 1), variant.columns), 0
    if variant.algorithm is not Algorithm.PRODUCT:
        return 0, 0, 0
    mc, nc, kc = (max(block, 1) for block in blocks)
    is_summed_at_once = kernel.algebra.accumulator != kernel.algebra.out
    if variant.left_packing is Packing.DIRECT or is_summed_at_once:
        kc = max(kc, shape.sizes[3])
    unit = variant.unroll * variant.group
    if len(shape.p) > 1 and Packing.ALONG_P in (variant.left_packing, variant.right_packing):
        unit = math.lcm(unit, variant.lanes)  # a block begins where a vector of a run may begin
    return round_up(mc, variant.rows), round_up(nc, variant.columns), round_up(kc, unit)


def round_up(count: int, unit: int) -> int:
    """`count` in whole units."""
    return -(-count // unit) * unit


def misfit(kernel: ContractionKernel, shape: ContractionShape) -> str | None:
    """Why a kernel cannot run on an arranged shape; None where it can."""
    variant = kernel.variant
    _, m, n, k = shape.sizes
    match variant.algorithm:
        case Algorithm.PRODUCT:
            return _product_misfit(kernel, shape)
        case Algorithm.ROWS:
            reads = kernel.algebra.times != "first" or variant.swapped
            if n != 1:
                return "dot products are for results without columns"
            if not _is_read(variant.left_packing, shape.p, "left", variant.lanes, Packing.ALONG_P):
                return "left has no such runs along the reduction"
            if reads and variant.right_packing is Packing.DIRECT and not _is_line(shape.p, "right"):
                return "right is no run along the reduction"
        case Algorithm.COLUMNS:
            if m != 1:
                return "columns are for results without rows"
            for operand in ("right", "out"):
                how, lanes = variant.right_packing, variant.lanes
                if not _is_read(how, shape.j, operand, lanes, Packing.ALONG_TILE):
                    return f"{operand} has no such runs along the columns"
        case Algorithm.ELEMENTS:
            if k != 1 or shape.i or len(shape.j) != 1:
                return "an elementwise kernel is for contractions without a reduction"
            (inner,) = shape.j
            moves = ((variant.left_packing, inner.left), (variant.right_packing, inner.right))
            fixed = {Packing.DIRECT: 0, Packing.ALONG_TILE: 1}
            if any(fixed.get(how, stride) != stride for how, stride in moves):
                return "an operand moves by another stride"
            if variant.lanes > 1 and inner.out != 1:
                return "the result is not stored in runs"
    return None


def _product_misfit(kernel: ContractionKernel, shape: ContractionShape) -> str | None:
    variant = kernel.variant
    if not (shape.i and shape.j and shape.p):
        return "register tiles are for results of rows and columns, and a reduction"
    if variant.runs and not has_runs(shape.j, "out", variant.lanes):
        return "the result is not stored in runs"
    sides = (("left", shape.i, variant.left_packing), ("right", shape.j, variant.right_packing))
    for operand, tile, packing in sides:
        width = variant.rows if operand == "left" else variant.columns
        run = min(variant.lanes * variant.group, width)
        match packing:
            case Packing.ALONG_TILE | Packing.BY_PANEL | Packing.BY_TILE:
                is_whole = len(tile) == 1 or width % run == 0
                if not has_runs(tile, operand, run) or not is_whole:
                    return f"{operand} has no runs along its tile"
            case Packing.ALONG_P:
                if not has_runs(shape.p, operand, variant.steps_in_run):
                    return f"{operand} has no runs along the reduction"
            case Packing.DIRECT if operand == "left":
                if not _is_line(shape.p, "left"):
                    return "left is no run along the reduction"
            case Packing.DIRECT:
                if not _is_line(tile, "right") or len(shape.p) != 1 or shape.p[0].right < 0:
                    return "right is not made of rows"
                if not _has_whole_tiles(kernel, shape):
                    return "right is not made of whole tiles"
    return None


def _has_whole_tiles(kernel: ContractionKernel, shape: ContractionShape) -> bool:
    """Whether tiles never reach beyond the columns, the last one being shifted (see tile)."""
    columns, n = kernel.variant.columns, shape.sizes[2]
    if n % columns == 0:
        return True
    # Threads that share columns would write those of two tiles at once.
    is_shared = kernel.variant.parallel == "j"
    return n > columns and kernel.algebra.initial is Initial.ZERO and not is_shared


def _is_line(dims: tuple[Dim, ...], operand: str) -> bool:
    """Whether a bundle is one run of an operand."""
    return not dims or (len(dims) == 1 and getattr(dims[0], operand) == 1)


def _is_read(
    packing: Packing, dims: tuple[Dim, ...], operand: str, lanes: int, along: Packing
) -> bool:
    """Whether an operand that is not packed can be read by vectors of a bundle."""
    if packing is Packing.DIRECT:
        return _is_line(dims, operand)
    return packing is not along or not dims or has_runs(dims, operand, lanes)
