"""What a launch of a contraction on a GPU takes beside arrays: sizes, strides, offset tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright.ir.contraction_shape import ContractionShape, Dim, offsets, offsets_at
from loopwright.ir.grid_kernel import ElementsKernel, GridKernel
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.contraction_nests.launch import stride_values
from loopwright.lower.grid_nests.grid_elements import elements_scalars
from loopwright.lower.grid_nests.grid_product import product_scalars

__all__ = ["GridLaunch", "elements_launch", "product_launch"]

_USED = (("g", "left right out"), ("i", "left out"), ("j", "right out"), ("p", "left right"))


@dataclass(frozen=True, slots=True, eq=False)
class GridLaunch:
    """The scalars of a kernel in its order, and its table, which is empty where it has none."""

    scalars: tuple[int, ...]
    table: np.ndarray[Any, np.dtype[Any]]


def product_launch(
    kernel: GridKernel, shape: ContractionShape, parts: int = 1, chunk: int = 0, out_part: int = 0
) -> GridLaunch:
    """The launch of tiles on an arranged shape; `chunk` steps to each part where it is split."""
    variant = kernel.variant
    values = dict(zip("GMNK", shape.sizes, strict=True))
    values |= {"steps": values["K"], "chunk": chunk, "parts": parts, "out_part": out_part}
    tables = []
    position = 0
    bundles = dict(zip("gijp", shape.bundles, strict=True))
    for bundle, operands in _USED:
        dims = bundles[bundle]
        if bundle in variant.strided:
            assert variant.strided.count(bundle) == max(1, len(dims))
            values |= stride_values(bundle, dims)
            continue
        for operand in operands.split():
            if bundle == "p" and variant.by_tiles:  # those of a tile, then those of the tiles
                depth, steps = variant.depth, values["K"]
                first = np.concatenate([np.arange(depth), np.arange(0, steps, depth)])
                found = offsets_at(dims, operand, first)
            else:
                found = offsets(dims, operand)
            values[f"{operand}_{bundle}"] = position
            tables.append(found)
            position += len(found)
    dtype = np.int64 if variant.is_wide else np.int32
    table = np.concatenate(tables) if tables else np.zeros(0, np.int64)
    return GridLaunch(tuple(values[x] for x in product_scalars(kernel)), table.astype(dtype))


def elements_launch(
    kernel: ElementsKernel,
    shape: ContractionShape,
    parts: int = 1,
    chunk: int = 0,
    out_part: int = 0,
) -> GridLaunch:
    """The launch of a kernel by elements, of a shape whose loops of out are i."""
    assert not shape.batch
    assert not shape.j
    values = {"E": shape.sizes[1], "K": shape.sizes[3], "parts": parts, "out_part": out_part}
    values["chunk"] = chunk if parts > 1 else values["K"]
    for bundle, dims in (("e", shape.i), ("p", shape.p)):
        for number, d in enumerate(dims):
            values |= _strides(f"{bundle}{number}", d)
    scalars = tuple(values[x] for x in elements_scalars(kernel))
    return GridLaunch(scalars, np.zeros(0, np.int32))


def _strides(name: str, d: Dim) -> dict[str, int]:
    return {
        f"size_{name}": d.extent,
        f"left_{name}": d.left,
        f"right_{name}": d.right,
        f"out_{name}": d.out,
    }
