"""Launches: the sizes, blocks, strides and tables that a kernel of a contraction takes for a shape.

    values["left_i"]   the stride of left along i, or where its offsets begin in `table`
    values["mc"]       M_c, and so on: see _SCALARS of contraction_nests/macro_kernel and its kin

Everything follows from the variant, its blocks and the shape, so that a plan that is replayed is
launched as the one that was made. A shape that a variant cannot run on is a misfit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from loopwright.ir.contraction_shape import (
    MOST_TABLE_BYTES,
    ContractionShape,
    Dim,
    has_runs,
    offsets,
    strided_bundles,
)
from loopwright.ir.kernel_variant import (
    Algorithm,
    ContractionKernel,
    Initial,
    KernelVariant,
    Packing,
)
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "Launch",
    "fitted_blocks",
    "is_nearest",
    "launch",
    "misfit",
    "places",
    "round_up",
    "stride_values",
    "walk_bytes",
]

Offsets: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

# Steps with which a panel is filled at a visit where lines hold elements of several panels: all
# panels find those lines in L1 (measured, N1).
_VISIT_STEPS = 16
_ENTRY = 8  # bytes


@dataclass(frozen=True, slots=True)
class Launch:
    """What a kernel is called with beside its arrays."""

    values: dict[str, int]  # by name
    parts: tuple[tuple[int, Callable[[], Offsets]], ...] = ()  # tables: entries, and what they are

    @property
    def table(self) -> Offsets:
        """The tables one after another, as the kernel takes them."""
        return np.concatenate([np.zeros(0, np.int64), *(made() for _, made in self.parts)])

    @property
    def table_bytes(self) -> int:
        """The size of `table`, which a launch keeps as long as it is remembered."""
        return _ENTRY * sum(count for count, _ in self.parts)


def launch(variant: KernelVariant, blocks: tuple[int, int, int], shape: ContractionShape) -> Launch:
    """The launch of a kernel on an arranged shape."""
    match variant.algorithm:
        case Algorithm.PRODUCT:
            return _product(variant, blocks, shape)
        case Algorithm.ROWS:
            sides = (("left", variant.left_packing), ("right", variant.right_packing))
            steps = " ".join(name for name, how in sides if how is not Packing.DIRECT)
            used = ("g", "left right out"), ("i", "left out"), ("p", steps)
            return _launch(variant, shape, {"left_p": 0, "right_p": 0}, used)
        case Algorithm.COLUMNS:
            columns = "" if variant.right_packing is Packing.DIRECT else "right out"
            values = {"nc": blocks[1], "right_j": 0, "out_j": 0}
            used = ("g", "left right out"), ("j", columns), ("p", "left right")
            return _launch(variant, shape, values, used)
        case Algorithm.ELEMENTS:
            (inner,) = shape.j
            values = {"left_j": inner.left, "right_j": inner.right, "out_j": inner.out}
            return _launch(variant, shape, values, (("g", "left right out"),))


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
    used = ("g", "left right out"), ("i", "left out"), ("j", "right out"), ("p", "left right")
    walks = {
        "left_w": _Walk(variant.left_packing, (shape.i, mc), (shape.p, kc), "left"),
        "right_w": _Walk(variant.right_packing, (shape.j, nc), (shape.p, kc), "right"),
    }
    return _launch(variant, shape, values, used, walks)


def _launch(
    variant: KernelVariant,
    shape: ContractionShape,
    values: dict[str, int],
    used: tuple[tuple[str, str], ...],
    walks: Mapping[str, _Walk] = MappingProxyType({}),
) -> Launch:
    """Sizes, strides, and tables of offsets and walks: see `offset_of`."""
    bundles = dict(zip("gijp", shape.bundles, strict=True))
    sizes = dict(zip("gijp", shape.sizes, strict=True))
    values = dict(values, **dict(zip("GMNK", shape.sizes, strict=True)))
    values |= zip(("left_first", "right_first", "out_first"), shape.bases, strict=True)
    for bundle, dims in bundles.items():
        loops = variant.strided.count(bundle)
        assert loops in (0, max(1, len(dims))), f"{variant.strided} on {len(dims)} loops {bundle}"
        if loops:
            values |= stride_values(bundle, dims)
    tables: list[tuple[str, int, Callable[[], Offsets]]] = [
        (f"{operand}_{bundle}", sizes[bundle], partial(offsets, bundles[bundle], operand))
        for bundle, operands in used
        if bundle not in variant.strided
        for operand in operands.split()
    ]
    tables += ((name, walk.size, walk.indices) for name, walk in walks.items())
    position = 0
    for name, count, _ in tables:
        values[name] = position
        position += count
    return Launch(values, tuple((count, made) for _, count, made in tables))


def stride_values(bundle: str, dims: tuple[Dim, ...]) -> dict[str, int]:
    """The strides of all operands along the loops of a bundle, and the extents of inner loops."""
    found = {}
    for operand in ("left", "right", "out"):
        found[f"{operand}_{bundle}"] = getattr(dims[0], operand) if dims else 0
        for loop, dim in enumerate(dims[1:], 1):
            found[f"{bundle}{loop}"] = dim.extent
            found[f"{operand}_{bundle}{loop}"] = getattr(dim, operand)
    return found


def places(variant: KernelVariant, shape: ContractionShape) -> str:
    """`strided` of a variant for an arranged shape.

    Where tiles read left in place, the loop over their steps holds as many addresses as rows:
    from strides LLVM would compute them anew in every iteration (up to 12% more instructions).
    """
    is_in_place = variant.algorithm is Algorithm.PRODUCT and variant.left_packing is Packing.DIRECT
    return strided_bundles(shape, "ij" if is_in_place else "")


def is_nearest(tile: tuple[Dim, ...], p: tuple[Dim, ...], operand: str) -> bool:
    """Whether neighbours in memory lie along the tile's loops rather than along p."""
    along, across = (min(abs(getattr(d, operand)) or math.inf for d in x) for x in (tile, p))
    return bool(along < across)


def _visit(tile: tuple[Dim, ...], p: tuple[Dim, ...], operand: str, kc: int) -> int:
    """Steps with which a panel is filled at a visit: few, where lines hold several panels."""
    return min(kc, _VISIT_STEPS) if is_nearest(tile, p, operand) else kc


@dataclass(frozen=True, slots=True)
class _Walk:
    """The indices of every block by rising address, counted from the block's start."""

    packing: Packing
    tile: tuple[tuple[Dim, ...], int]  # loops, block
    p: tuple[tuple[Dim, ...], int]
    operand: str

    @property
    def size(self) -> int:
        """How many indices there are."""
        if self.packing not in (Packing.WALK_TILE, Packing.WALK_P):
            return 0
        return math.prod(d.extent for d in self._walked[0])

    def indices(self) -> Offsets:
        if not self.size:
            return np.zeros(0, dtype=np.int64)
        dims, block = self._walked
        places = offsets(dims, self.operand)
        parts = [
            np.argsort(places[start : start + block], kind="stable")
            for start in range(0, len(places), block)
        ]
        return np.concatenate(parts).astype(np.int64)

    @property
    def _walked(self) -> tuple[tuple[Dim, ...], int]:
        return self.tile if self.packing is Packing.WALK_TILE else self.p


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
            case Packing.WALK_TILE | Packing.WALK_P:
                size = walk_bytes(tile if packing is Packing.WALK_TILE else shape.p)
                if size > MOST_TABLE_BYTES:
                    return (
                        f"the order of {operand} in memory takes a table of {size:,} bytes, "
                        f"at most {MOST_TABLE_BYTES:,} are allocated"
                    )
    return None


def walk_bytes(dims: tuple[Dim, ...]) -> int:
    """The size of the table by which WALK_TILE or WALK_P visits the indices of a bundle."""
    return _ENTRY * math.prod(d.extent for d in dims)


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
