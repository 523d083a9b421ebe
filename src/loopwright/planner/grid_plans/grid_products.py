"""Contractions on a GPU: which kernel, by a model of its time; nothing is searched by running.

A product of matrices goes in tiles, everything else element by element of out; a long reduction
with few elements of out is split in parts, whose sums a second launch joins. Every candidate has
its time by the model of grid_time. The cheapest one is taken; of equal ones the first of the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from loopwright.ir.contraction_shape import ContractionShape, Dim, strided_bundles
from loopwright.ir.expr import SATURATING
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.grid_kernel import ElementsKernel, ElementsVariant, GridKernel, GridVariant
from loopwright.ir.grid_registers import (
    ends_anew,
    fitting_copies,
    is_short_of_registers,
    spare_registers,
)
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.contraction_plans.arrange import arrange
from loopwright.planner.contraction_plans.choice import operator_names
from loopwright.planner.grid_plans.grid_operands import (
    access_width,
    farthest,
    is_along_p,
    operand_bytes,
    operand_types,
    out_access,
    repeats_in_tiles,
    steps_apart,
    table_entry_bytes,
    tile_entries,
)
from loopwright.planner.grid_plans.grid_tiles import (
    TILES_4,
    TILES_8,
    TILES_16,
    TILES_MMA,
    ProductTile,
)
from loopwright.planner.grid_plans.grid_time import (
    CACHE_SPEED,
    WAIT_CYCLES,
    blocks_of,
    operations_in_a_cycle,
    product_seconds,
)
from loopwright.planner.grid_plans.interleave import elements_in_order, fastest, in_tiles
from loopwright.planner.grid_plans.register_budget import fits_registers
from loopwright.planner.grid_plans.turned_elements import turned_elements, turned_seconds

__all__ = [
    "GridChoice",
    "choose_grid",
    "chunk_of",
    "fitting_variant",
    "joined_parts",
    "partial_algebra",
    "tiles_of",
]


@dataclass(frozen=True, slots=True)
class GridChoice:
    """The kernel for one shape, and what the model expects of it."""

    kernel: GridKernel | ElementsKernel
    shape: ContractionShape  # arranged; of elements: loops of out are i
    parts: int  # of the reduction
    seconds: float  # predicted
    joined: GridChoice | None = None  # how the sums of the parts become out

    @property
    def chunk(self) -> int:
        """Steps of a part."""
        return chunk_of(self.shape, self.parts, _unit_of(self.kernel))

    @property
    def sums(self) -> ContractionShape:
        """The shape with sums of the first part in the place of out, row by row of its loops."""
        shape, stride = self.shape, 1
        found: list[tuple[Dim, ...]] = []
        for dims in (shape.j, shape.i, shape.batch):
            bundle: list[Dim] = []
            for d in reversed(dims):
                bundle.append(replace(d, out=stride))
                stride *= d.extent
            found.append(tuple(reversed(bundle)))
        return replace(shape, j=found[0], i=found[1], batch=found[2])


_MOST_BYTES = 16  # that one instruction moves
_SHARED_PART = 0.72  # of what a multiprocessor has: the rest caches what is copied (H200)
_FEW_OWN = 32  # elements of a thread, so few that loads of the next tile are waited for
_AMPLE = 80  # registers of a thread beside those that a kernel names
_PARTS = (1, 2, 3, *(n << k for k in range(1, 10) for n in (2, 3)), 2048)
_MOST_PARTS = 1024  # of a reduction by elements
_MOST_OWN = 64  # elements of a thread where operators need registers of their own


def choose_grid(
    shape: ContractionShape,
    algebra: Algebra,
    machine: GpuMachine,
    alignment: tuple[int, int, int] = (16, 16, 16),
    registers: int | None = None,
) -> GridChoice:
    """The kernel for a contraction none of whose loops is empty but those of the reduction.

    `alignment` is that of the first elements of left, right and out, in bytes; `registers` caps
    those of a thread.
    """
    found = [_elements(shape, algebra, machine)]
    arranged = arrange(shape, 4)
    if arranged.i and arranged.j and arranged.p and all(arranged.sizes):
        product = _products(arranged, algebra, machine, alignment, registers)
        found += [product] if product is not None else []
    return min(found, key=lambda choice: choice.seconds)


# -- tiles ----------------------------------------------------------------------------------------


def _products(
    shape: ContractionShape,
    algebra: Algebra,
    machine: GpuMachine,
    alignment: tuple[int, int, int],
    registers: int | None,
) -> GridChoice | None:
    """The best tile, and the parts that its reduction is split in."""
    size = algebra.accumulator.bytes
    if shape.swapped:
        alignment = (alignment[1], alignment[0], alignment[2])
    found: list[tuple[float, GridVariant, ContractionShape, int]] = []
    for tile in tiles_of(algebra, machine):
        if registers is not None:
            own = tile.thread_rows * tile.thread_columns
            factors = tile.thread_rows + tile.thread_columns
            if not fits_registers((own + factors) * max(4, size), registers):
                continue
        arranged = in_tiles(shape, tile.columns, tile.depth, operand_bytes(algebra, shape))
        variant = fitting_variant(tile, arranged, algebra, alignment, machine)
        if variant is None:
            continue
        for parts in _PARTS:
            if parts > 1 and arranged.sizes[3] < 2 * parts * variant.depth:
                break
            chunk = chunk_of(arranged, parts, variant.depth)
            count = -(-arranged.sizes[3] // chunk)
            seconds = product_seconds(variant, arranged, algebra, machine, count, chunk)
            found.append((seconds, variant, arranged, count))
            if blocks_of(variant, arranged) * parts >= 4 * machine.multiprocessors:
                break
    if not found:
        return None
    seconds, variant, arranged, parts = min(found, key=lambda row: row[0])
    own_algebra = algebra if parts == 1 else partial_algebra(algebra)
    variant = replace(variant, is_split=parts > 1, registers=registers or 0)
    if parts > 1:  # sums lie row by row
        most = min(variant.right_piece, _MOST_BYTES // algebra.accumulator.bytes)
        variant = replace(variant, out_width=math.gcd(most, arranged.sizes[2]), out_apart=1)
    kernel = GridKernel(own_algebra, variant)
    joined = None if parts == 1 else joined_parts(arranged, parts, algebra, machine)
    return GridChoice(kernel, arranged, parts, seconds, joined)


def _is_simple(algebra: Algebra) -> bool:
    """Whether a product and its sum are an instruction each: others need registers between."""
    operators = (algebra.plus, algebra.times)
    return all(isinstance(x, str) and x not in SATURATING for x in operators)


def _has_matrix_unit(algebra: Algebra, machine: GpuMachine) -> bool:
    """Whether the machine has an instruction of warps for these products."""
    types = {x.name for x in (algebra.left, algebra.right, algebra.accumulator)}
    is_sum = operator_names(algebra) == ("add", "mul")
    return is_sum and len(types) == 1 and types <= machine.rates.get("mma", {}).keys()


def tiles_of(algebra: Algebra, machine: GpuMachine) -> Iterator[ProductTile]:
    """The tiles for an algebra on a machine, larger ones first."""
    size = algebra.accumulator.bytes
    tiles = TILES_4 if size <= 4 else TILES_8 if size <= 8 else TILES_16
    for tile in (*(TILES_MMA if _has_matrix_unit(algebra, machine) else ()), *tiles):
        is_small = tile.thread_rows * tile.thread_columns <= _MOST_OWN
        is_there = tile.stages == 2 or machine.has_async_copy
        if is_there and (is_small or _is_simple(algebra)):
            yield tile


def fitting_variant(
    tile: ProductTile,
    shape: ContractionShape,
    algebra: Algebra,
    alignment: tuple[int, int, int],
    machine: GpuMachine,
) -> GridVariant | None:
    """The variant of a tile whose threads keep to their registers; None where there is none.

    Where the next tile does not fit into registers, tiles are copied past them; where they cannot
    be, the code has fewer steps of a tile at a time.
    """
    found: list[GridVariant] = []
    others = (3,) if tile.stages == 2 and machine.has_async_copy else ()
    for stages in (tile.stages, *others):
        variant = _variant(replace(tile, stages=stages), shape, algebra, alignment)
        if variant is not None and stages != tile.stages and is_short_of_registers(variant):
            continue  # there is a deeper tile for it
        copies = None if variant is None else _copies(algebra, variant, machine)
        if variant is None or copies is None:
            continue
        variant = _in_rounds(variant, algebra, machine)
        if variant is not None:
            # A number of blocks lets ptxas take all registers: left to itself it spills for more.
            is_loose = spare_registers(GridKernel(algebra, variant)) >= _AMPLE
            blocks = variant.resident or int(not is_loose)
            is_early = stages == 2 and copies == 0 and _pays_early(variant, is_loose)
            variant = replace(variant, copies=copies, resident=blocks, is_early=is_early)
            is_anew = ends_anew(GridKernel(algebra, variant), machine.capability)
            found.append(replace(variant, ends_anew=is_anew))
    return max(found, key=lambda made: made.copies or made.depth, default=None)


def _copies(algebra: Algebra, variant: GridVariant, machine: GpuMachine) -> int | None:
    return fitting_copies(GridKernel(algebra, variant), machine.capability)


def _pays_early(variant: GridVariant, is_loose: bool) -> bool:
    """Whether loads should have all steps of a tile to come (measured, H200).

    They then hold registers that steps need: it pays where there are plenty and few operations for
    each load, and where loads take long, since their elements lie in many lines of memory.
    """
    own = variant.thread_rows * variant.thread_columns
    return max(variant.left_apart, variant.right_apart) > 1 or (is_loose and own <= _FEW_OWN)


def _in_rounds(variant: GridVariant, algebra: Algebra, machine: GpuMachine) -> GridVariant | None:
    """The variant with the fewest rounds for which shared memory is enough; None where it is not.

    A multiprocessor is to hold as many blocks as the variant says. Where tiles are copied past the
    registers, they go through the first-level cache, which has what shared memory leaves: then the
    rounds are so many that it has its part, or as many as there can be.
    """
    left, right = operand_types(algebra, variant.swapped)
    tiles = variant.tile_bytes(left.bytes, right.bytes)
    blocks = max(1, variant.resident)
    own, piece = variant.thread_rows, variant.left_piece
    found: GridVariant | None = None
    for rounds in range(1, own + 1 if variant.joins else 2):
        rows = own // rounds
        if own % rounds or (rows % piece and piece % rows):
            continue
        tried = replace(variant, rounds=rounds)
        shared = tiles + tried.join_bytes(algebra.accumulator.bytes)
        if machine.occupancy(variant.threads, 1, shared).blocks < blocks:
            continue
        found = tried
        most = machine.shared_per_multiprocessor * _SHARED_PART
        if variant.stages == 2 or shared * blocks <= most:
            break
    return found


def _variant(
    tile: ProductTile, shape: ContractionShape, algebra: Algebra, alignment: tuple[int, int, int]
) -> GridVariant | None:
    """The variant of a tile for a shape; None where threads cannot share out its loads."""
    left, right = operand_types(algebra, shape.swapped)
    left_along, right_along = (is_along_p(shape, x) for x in ("left", "right"))
    threads = tile.threads
    widths, aparts = [], []
    for name, dtype, along, extent, aligned in (
        ("left", left, left_along, tile.rows, alignment[0]),
        ("right", right, right_along, tile.columns, alignment[1]),
    ):
        run = shape.p if along else shape.i if name == "left" else shape.j
        apart = steps_apart(shape, name, tile.depth) if along else 1
        width = access_width(shape, run[: len(run) - (apart > 1)], name, dtype, aligned)
        # Asynchronous copies across go element by element.
        if tile.stages > 2 and along and (apart > 1 or not tile.uses_mma):
            width = 1
        if width == 1:
            apart = 1
        while width > 1 and extent * tile.depth % (width * threads):
            width //= 2
        if extent * tile.depth % (width * threads):
            return None
        if tile.stages > 2 and width * dtype.bytes not in (4, 8, 16):
            return None
        widths.append(width)
        aparts.append(apart)
    out_width, out_apart = out_access(shape, algebra.out, alignment[2], tile.columns)
    is_sum = algebra.out == algebra.accumulator
    # Not of vector units with asynchronous copies, for which it has not been measured.
    is_alike = len(shape.p) > 1 and repeats_in_tiles(shape, tile.depth)
    is_alike = is_alike and (tile.uses_mma or tile.stages == 2)
    entries = tile_entries(shape, tile.depth) if is_alike else None
    strided = strided_bundles(shape, entry=table_entry_bytes(shape), tiles=entries)
    is_alike = is_alike and "p" not in strided
    found = GridVariant(
        tile.rows,
        tile.columns,
        tile.depth,
        tile.thread_rows,
        tile.thread_columns,
        left_along,
        right_along,
        widths[0],
        widths[1],
        left_apart=aparts[0],
        right_apart=aparts[1],
        piece=tile.piece,
        swapped=shape.swapped,
        strided=strided,
        by_tiles=is_alike,
        is_wide=set(strided) < set("gijp") and farthest(shape) >= 1 << 31,
        resident=tile.resident,
        stages=tile.stages,
        slices=tile.slices,
        uses_mma=tile.uses_mma,
    )
    if out_apart == 1:
        out_width = math.gcd(out_width, found.right_piece)
    return replace(found, out_width=out_width, out_apart=out_apart) if is_sum else found


def partial_algebra(algebra: Algebra) -> Algebra:
    """The same products, summed from nothing and kept as sums."""
    return replace(algebra, out=algebra.accumulator, initial=Initial.ZERO)


def _unit_of(kernel: GridKernel | ElementsKernel) -> int:
    return kernel.variant.depth if isinstance(kernel, GridKernel) else kernel.variant.lanes


def chunk_of(shape: ContractionShape, parts: int, unit: int) -> int:
    """Steps of a part of the reduction, in whole units where there are several."""
    k = shape.sizes[3]
    return k if parts == 1 else -(-k // (parts * unit)) * unit


def joined_parts(
    shape: ContractionShape, parts: int, algebra: Algebra, machine: GpuMachine
) -> GridChoice:
    """How sums of parts become out: left lies row by row in the order of the shape's loops."""
    dims: list[Dim] = []
    stride = 1
    for d in reversed((*shape.batch, *shape.i, *shape.j)):
        dims.append(Dim(d.extent, stride, 0, d.out))
        stride *= d.extent
    part = Dim(parts, stride, 0, 0)
    sums = replace(
        algebra,
        times="first",
        left=algebra.accumulator,
        right=algebra.accumulator,
        scaled=False,
    )
    whole = ContractionShape((), tuple(reversed(dims)), (), (part,))
    return _elements(whole, sums, machine, may_split=False)


# -- elements -------------------------------------------------------------------------------------


def _elements(
    shape: ContractionShape, algebra: Algebra, machine: GpuMachine, *, may_split: bool = True
) -> GridChoice:
    """Every element of out by itself; lanes share its reduction where memory runs along it."""
    is_unary = algebra.times == "first"
    sizes = algebra.left.bytes, 0 if is_unary else algebra.right.bytes, algebra.out.bytes
    ordered = elements_in_order(shape, sizes)
    count, steps = ordered.sizes[1], ordered.sizes[3]
    wanted = machine.multiprocessors * 1024
    lanes = _lanes(ordered, sizes, steps, count, wanted)
    if not may_split and steps >= machine.warp:
        lanes = min(
            (lanes, machine.warp),
            key=lambda some: _elements_seconds(ordered, algebra, machine, sizes, some, 1),
        )
    parts = 1
    if may_split and count * lanes < wanted and steps >= 64 * lanes:
        parts = min(_MOST_PARTS, steps // (16 * lanes), -(-wanted // (count * lanes)))
        parts = max(1, parts)
        chunk = chunk_of(ordered, parts, lanes)
        parts = -(-steps // chunk)
    own_algebra = algebra if parts == 1 else partial_algebra(algebra)
    kernel = ElementsKernel(own_algebra, ElementsVariant(len(ordered.i), len(ordered.p), lanes))
    seconds = _elements_seconds(ordered, algebra, machine, sizes, lanes, parts)
    turned = turned_elements(shape, sizes)
    if turned is not None and (told := turned_seconds(*turned, sizes, machine)) < seconds:
        return GridChoice(ElementsKernel(algebra, turned[1]), turned[0], 1, told)
    if parts == 1:
        return GridChoice(kernel, ordered, 1, seconds)
    joined = joined_parts(ordered, parts, algebra, machine)
    return GridChoice(kernel, ordered, parts, seconds + joined.seconds, joined)


def _lanes(
    shape: ContractionShape, sizes: tuple[int, int, int], steps: int, count: int, wanted: int
) -> int:
    """Threads for the reduction of an element."""
    if steps < 32 or not shape.p:
        return 1
    along_p, along_out = 0.0, 0.0
    for operand, size in zip(("left", "right"), sizes, strict=False):
        distinct = math.prod(d.extent for d in (*shape.i, *shape.p) if getattr(d, operand))
        if getattr(shape.p[-1], operand) == 1:
            along_p += distinct * size
        elif shape.i and getattr(shape.i[-1], operand) == 1:
            along_out += distinct * size
    if along_out >= along_p and along_out > 0:
        return 1
    return 256 if steps >= 2048 and count * 32 < wanted else 32


def _elements_seconds(
    shape: ContractionShape,
    algebra: Algebra,
    machine: GpuMachine,
    sizes: tuple[int, int, int],
    lanes: int,
    parts: int,
) -> float:
    count, steps = shape.sizes[1], shape.sizes[3]
    dims = (*shape.i, *shape.p)
    memory = loads = 0.0
    for operand, size in zip(("left", "right", "out"), sizes, strict=True):
        if not size:
            continue
        distinct = math.prod(d.extent for d in dims if getattr(d, operand))
        memory += distinct * size
        lead = fastest(shape.p if lanes > 1 else shape.i, operand)
        each = size if lead in (0, 1) else machine.sector
        loads += count * (steps if operand != "out" else 1) * each
    digits = 12.0 * (max(0, len(shape.i) - 1) + steps * max(0, len(shape.p) - 1))
    work = (
        count * (steps * (6.0 + 1 / operations_in_a_cycle(algebra, machine)) + digits + 40.0)
        + 20 * lanes
    )
    threads = count * lanes * parts
    busy = min(1.0, threads / (machine.multiprocessors * 512))
    issue = work / (64.0 * machine.multiprocessors * machine.frequency_hz * busy)
    waiting = steps / (lanes * parts) * WAIT_CYCLES / machine.frequency_hz
    speed = machine.memory_bytes_per_second
    seconds = max(issue, memory / speed, loads / (speed * CACHE_SPEED), waiting)
    return seconds + machine.launch_seconds
