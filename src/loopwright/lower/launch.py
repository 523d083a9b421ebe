"""Launches: the sizes, blocks and offset tables that a kernel of a contraction takes for a shape.

    values["left_i"]   where the offsets of left along i begin in `table`
    values["mc"]       M_c, and so on: see SCALARS of lower/macro_kernel and its kin

Everything follows from the variant, its blocks and the shape, so that a plan that is replayed is
launched as the one that was made. A shape that a variant cannot run on is a misfit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from loopwright.ir.contraction_shape import ContractionShape, Dim, offsets
from loopwright.ir.kernel_variant import Algorithm, KernelVariant, Packing

__all__ = ["Launch", "is_nearest", "launch"]

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
