"""Contractions on a GPU: which kernel, by a model of its time; nothing is searched by running.

A product of matrices goes in tiles, everything else element by element of out; a long reduction
with few elements of out is split in parts, whose sums a second launch joins. For every candidate
the model takes the greatest of

    issue    operations of the slowest multiprocessor / what it starts in a cycle, as far as reads
             of shared memory keep up; tiles at the edge count whole, and so do the last blocks
    memory   bytes of all operands / bandwidth of memory
    cache    bytes that blocks load / bandwidth of the second-level cache
    waiting  tiles along the reduction * cycles that a load takes, for as many waves of blocks as
             multiprocessors hold at a time

and adds the launches. The cheapest one is taken; of equal ones the first of the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.expr import SATURATING
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.grid_kernel import ElementsKernel, ElementsVariant, GridKernel, GridVariant
from loopwright.ir.grid_registers import (
    fitting_copies,
    is_short_of_registers,
    spare_registers,
)
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.arrange import arrange
from loopwright.planner.choice import operator_names
from loopwright.planner.grid_operands import (
    access_width,
    farthest,
    is_along_p,
    operand_bytes,
    operand_types,
    steps_apart,
)
from loopwright.planner.interleave import elements_in_order, fastest, in_tiles
from loopwright.planner.register_budget import fits_registers

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


@dataclass(frozen=True, slots=True)
class _Tile:
    """A row of the table: a tile, and how many blocks of it a multiprocessor shall hold."""

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    resident: int = 0
    stages: int = 2
    piece: int = 4
    slices: int = 1
    uses_mma: bool = False

    @property
    def threads(self) -> int:
        group = (self.rows // self.thread_rows) * (self.columns // self.thread_columns)
        return group * self.slices


# Large tiles first (measured on an H200): speed follows the elements that a thread computes with
# what it reads. The last ones are for results of few rows or columns.
_TILES_4 = (
    _Tile(128, 256, 16, 8, 16, resident=1),
    _Tile(128, 128, 16, 8, 8, resident=2, stages=3),
    _Tile(128, 128, 8, 8, 8, resident=2),
    _Tile(128, 64, 32, 16, 8, resident=1, slices=4),
    _Tile(64, 128, 32, 8, 16, resident=1, slices=4),
    _Tile(64, 128, 8, 8, 8),
    _Tile(128, 64, 8, 8, 8),
    _Tile(64, 64, 32, 8, 8, resident=1, slices=4),
    _Tile(64, 64, 16, 8, 4),
    _Tile(32, 64, 32, 8, 4, slices=4),
    _Tile(32, 32, 32, 8, 4, slices=8),
    _Tile(32, 64, 16, 4, 4),
    _Tile(64, 32, 16, 4, 4),
    _Tile(32, 32, 16, 4, 4),
    _Tile(128, 16, 16, 4, 4),
    _Tile(16, 128, 16, 4, 4),
    _Tile(256, 8, 16, 4, 4),
    _Tile(8, 256, 16, 4, 4),
)
# Of the matrix unit, for machines that have one of float64: a warp has 8 by 4 threads.
_TILES_MMA = (
    _Tile(64, 128, 8, 8, 8, resident=2, stages=4, uses_mma=True),
    _Tile(128, 64, 16, 8, 8, resident=2, stages=3, uses_mma=True),
    _Tile(64, 64, 16, 4, 8, resident=2, stages=3, uses_mma=True),
    _Tile(128, 64, 32, 8, 8, resident=1, stages=3, slices=2, uses_mma=True),
    _Tile(64, 128, 32, 8, 8, resident=1, stages=3, slices=2, uses_mma=True),
    _Tile(32, 64, 16, 4, 4, resident=2, stages=3, uses_mma=True),
    _Tile(64, 32, 16, 4, 4, resident=2, stages=3, uses_mma=True),
    _Tile(32, 32, 16, 2, 4, resident=2, stages=3, uses_mma=True),
)
_TILES_8 = (
    _Tile(64, 128, 16, 8, 8, resident=2, stages=4, piece=2),
    _Tile(64, 128, 8, 8, 8, resident=2, stages=3, piece=2),
    _Tile(128, 64, 8, 8, 8, resident=2, stages=3, piece=2),
    _Tile(64, 128, 8, 8, 8, resident=2, piece=2),
    _Tile(64, 128, 16, 8, 8, resident=1, piece=2, slices=2),
    _Tile(64, 64, 16, 8, 8, resident=1, piece=2, slices=4),
    _Tile(64, 64, 8, 8, 4, piece=2),
    _Tile(32, 64, 16, 8, 4, piece=2, slices=4),
    _Tile(32, 64, 16, 4, 4, piece=2),
    _Tile(64, 32, 16, 4, 4, piece=2),
    _Tile(32, 32, 16, 4, 4, piece=2),
    _Tile(128, 16, 16, 4, 4, piece=2),
    _Tile(16, 128, 16, 4, 4, piece=2),
)
# Of complex128: four registers to each sum.
_TILES_16 = (
    _Tile(64, 64, 8, 8, 4, piece=1),
    _Tile(64, 64, 8, 4, 4, piece=1),
    _Tile(32, 64, 8, 4, 4, piece=1),
    _Tile(64, 32, 8, 4, 4, piece=1),
    _Tile(32, 32, 8, 4, 4, piece=1),
    _Tile(128, 16, 8, 4, 4, piece=1),
    _Tile(16, 128, 8, 4, 4, piece=1),
)
_MOST_BYTES = 16  # that one instruction moves
_AMPLE = 80  # registers of a thread beside those that a kernel names
_LOAD_CYCLES = 700.0  # from memory to registers, a tile's barrier included
_MOVE_CYCLES = 12.0  # of a warp that brings 16 bytes a thread to shared memory (fitted, H200)
_TURNED = 1.3, 1.2  # times that, where left and right lie along the reduction: written apart
_TABLE_CYCLES = 2400.0  # of one warp, from an offset of its table to its use
_SCATTER_CYCLES = 700.0  # of one warp, to find the place of an element by two tables (fitted, H200)
_SPLIT = 1.25  # times what this says of a product whose reduction is split (measured, H200)
_READ_CYCLES = 2.6  # of 16 bytes for every thread of a warp from shared memory (measured, H200)
_LOOP = 0.15  # of the operations, where a tile's steps are a loop (measured, H200)
_BUSY = 8.0  # operations under way for each that starts in a cycle, by the warps of a scheduler
_CACHE_SPEED = 1.6  # bandwidth of the second-level cache beside that of memory
_WAIT_CYCLES = 100.0  # of a thread that adds up elements, from one to the next
_PARTS = (1, 2, 3, *(n << k for k in range(1, 10) for n in (2, 3)), 2048)
_MOST_PARTS = 1024  # of a reduction by elements
_MOST_OWN = 64  # elements of a thread where operators need registers of their own
_UNKNOWN_RATE = 16.0  # operations in a cycle, where the machine's data have none


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
            seconds = _seconds(variant, arranged, algebra, machine, count, chunk)
            found.append((seconds, variant, arranged, count))
            if _blocks(variant, arranged) * parts >= 4 * machine.multiprocessors:
                break
    if not found:
        return None
    seconds, variant, arranged, parts = min(found, key=lambda row: row[0])
    own_algebra = algebra if parts == 1 else partial_algebra(algebra)
    variant = replace(variant, is_split=parts > 1, registers=registers or 0)
    if parts > 1:  # sums lie row by row
        most = min(variant.right_piece, _MOST_BYTES // algebra.accumulator.bytes)
        variant = replace(variant, out_width=math.gcd(most, arranged.sizes[2]))
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


def _blocks(variant: GridVariant, shape: ContractionShape) -> int:
    """Tiles of out."""
    batch, m, n, _ = shape.sizes
    return batch * -(-m // variant.rows) * -(-n // variant.columns)


def tiles_of(algebra: Algebra, machine: GpuMachine) -> Iterator[_Tile]:
    """The tiles for an algebra on a machine, larger ones first."""
    size = algebra.accumulator.bytes
    tiles = _TILES_4 if size <= 4 else _TILES_8 if size <= 8 else _TILES_16
    for tile in (*(_TILES_MMA if _has_matrix_unit(algebra, machine) else ()), *tiles):
        is_small = tile.thread_rows * tile.thread_columns <= _MOST_OWN
        is_there = tile.stages == 2 or machine.has_async_copy
        if is_there and (is_small or _is_simple(algebra)):
            yield tile


def fitting_variant(
    tile: _Tile,
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
        copies = None if variant is None else fitting_copies(GridKernel(algebra, variant))
        if variant is not None and copies is not None and _is_held(variant, algebra, machine):
            # A number of blocks lets ptxas take all registers: left to itself it spills for more.
            is_loose = spare_registers(GridKernel(algebra, variant)) >= _AMPLE
            blocks = variant.resident or int(not is_loose)
            found.append(replace(variant, copies=copies, resident=blocks))
    return max(found, key=lambda made: made.copies or made.depth, default=None)


def _is_held(variant: GridVariant, algebra: Algebra, machine: GpuMachine) -> bool:
    """Whether shared memory is enough for the blocks that a multiprocessor is to hold."""
    size = max(algebra.left.bytes, algebra.right.bytes)
    shared = variant.stages * variant.depth * (variant.rows + variant.columns + 4) * size
    return machine.occupancy(variant.threads, 1, shared).blocks >= max(1, variant.resident)


def _variant(
    tile: _Tile, shape: ContractionShape, algebra: Algebra, alignment: tuple[int, int, int]
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
    out_width = access_width(shape, shape.j, "out", algebra.out, alignment[2])
    is_sum = algebra.out == algebra.accumulator
    strided = "".join(
        name for name, dims in zip("gijp", shape.bundles, strict=True) if len(dims) <= 1
    )
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
        is_wide=strided != "gijp" and farthest(shape) >= 1 << 31,
        resident=tile.resident,
        stages=tile.stages,
        slices=tile.slices,
        uses_mma=tile.uses_mma,
    )
    return replace(found, out_width=math.gcd(out_width, found.right_piece)) if is_sum else found


def _seconds(
    variant: GridVariant,
    shape: ContractionShape,
    algebra: Algebra,
    machine: GpuMachine,
    parts: int,
    chunk: int,
) -> float:
    """The time of a product in tiles, as this module says."""
    batch, m, n, k = shape.sizes
    sizes = operand_bytes(algebra, shape)
    blocks = _blocks(variant, shape) * parts
    own = variant.thread_rows * variant.thread_columns
    warps = variant.threads / machine.warp
    per_thread = variant.thread_rows + variant.thread_columns
    # Cycles of one step of a block on a multiprocessor of its own.
    rate = _rate(algebra, machine)
    words = per_thread * max(sizes[0], sizes[1]) / 16
    if variant.uses_mma:  # single elements, each of which serves lanes for 4 steps
        rate = machine.rates["mma"][algebra.accumulator.name]
        words = (variant.thread_rows + variant.thread_columns / 2) / 8
    issue = own * variant.group / rate
    read = variant.group / machine.warp * words * _READ_CYCLES
    moved = variant.rows / variant.left_width * (_TURNED[0] if variant.left_along_p else 1)
    moved += variant.columns / variant.right_width * (_TURNED[1] if variant.right_along_p else 1)
    moved /= machine.warp
    if variant.stages > 2:
        moved /= 2  # past the registers
    issued = 0.08 if variant.uses_mma else 0.02 + 0.9 * words / own  # beside the operations
    issued += _LOOP if variant.copies else 0.0
    step = max(issue, read + 4 * moved) + issued * issue + _MOVE_CYCLES * moved
    steps = -(-chunk // variant.depth) * variant.depth
    shared = variant.stages * variant.depth * (variant.rows * sizes[0] + variant.columns * sizes[1])
    if variant.uses_mma:
        shared += shared * 4 // variant.depth  # what keeps rows in different banks
    registers = min(255, own * max(1, algebra.accumulator.bytes // 4) * 5 // 4 + per_thread + 40)
    if variant.resident:
        most = machine.registers_per_multiprocessor // (variant.resident * variant.threads)
        registers = min(registers, most)
    held = max(1, machine.occupancy(variant.threads, registers, shared).blocks)
    slowest = -(-blocks // machine.multiprocessors)
    waves = -(-blocks // (machine.multiprocessors * held))
    # Independent operations under way, beside those that keep a multiprocessor busy.
    ready = min(held, slowest) * warps * own / (_BUSY * rate)
    cycles: float = max(
        slowest * steps * step * max(1.0, ready**-0.4),
        waves * (steps // variant.depth + 2) * _LOAD_CYCLES / (variant.stages - 1),
    )
    if "p" not in variant.strided:  # offsets come first, then what lies there
        cycles += slowest * (steps // variant.depth) * _TABLE_CYCLES / (warps * min(held, slowest))
    # Sums of slices pass through shared memory, and those of all threads go to out.
    cycles += slowest * (own * warps * (0.5 + 0.5 * (variant.slices > 1)) + _LOAD_CYCLES)
    if not {"i", "j"} & set(variant.strided):  # places in out, by two tables
        cycles += slowest * own / (warps * min(held, slowest)) * _SCATTER_CYCLES
    elements = (batch * m * k, batch * k * n, batch * m * n)
    memory = sum(count * size for count, size in zip(elements, sizes, strict=True))
    # Sectors of which only one element counts are moved whole.
    left = _moved(shape, "left", sizes[0], machine, along_p=variant.left_along_p)
    right = _moved(shape, "right", sizes[1], machine, along_p=variant.right_along_p)
    loads = blocks * steps * (variant.rows * left + variant.columns * right)
    speed = machine.memory_bytes_per_second
    seconds = max(cycles / machine.frequency_hz, memory / speed, loads / (speed * _CACHE_SPEED))
    if parts > 1:
        seconds *= _SPLIT
        sums = batch * m * n * algebra.accumulator.bytes
        seconds += parts * sums / (speed * _CACHE_SPEED) + _join_seconds(
            batch * m * n, parts, algebra.accumulator.bytes, machine
        )
    return seconds + machine.launch_seconds


def _join_seconds(elements: int, parts: int, size: int, machine: GpuMachine) -> float:
    """The time of the launch that adds up the parts, by threads or by the lanes of warps.

    A thread for each element takes one part after another. Lanes take parts side by side, whose
    elements are in sectors of their own.
    """
    speed = machine.memory_bytes_per_second * _CACHE_SPEED
    waiting = parts * _WAIT_CYCLES / machine.frequency_hz
    reads = elements * parts / speed
    alone = max(waiting, reads * size)
    together = max(waiting / machine.warp, reads * machine.sector)
    return min(alone, together) + machine.launch_seconds


def _moved(
    shape: ContractionShape, operand: str, size: int, machine: GpuMachine, *, along_p: bool
) -> float:
    """Bytes that the cache moves for an element: a sector serves neighbours only."""
    run = shape.p if along_p else shape.i if operand == "left" else shape.j
    if run and getattr(run[-1], operand) == 1:
        return size * max(1.0, machine.sector / (size * run[-1].extent))
    # Another loop of unit stride, if a tile holds some of it.
    near = max((d.extent for d in run if getattr(d, operand) == 1), default=1)
    return float(min(machine.sector, size * 2 if near > 1 else machine.sector))


def _rate(algebra: Algebra, machine: GpuMachine) -> float:
    """Products that a multiprocessor adds in a cycle."""
    plus, times = operator_names(algebra)
    name = algebra.accumulator.real.name
    known = machine.rates

    def rate(op: str) -> float:
        row = known.get(op) or known.get("min" if op in ("max", "min") else "and", {})
        return row.get(name, row.get(name.removeprefix("u"), _UNKNOWN_RATE))

    if (plus, times) == ("add", "mul"):
        # A product of complex numbers is four of real ones.
        return rate("fma") / (4 if algebra.accumulator.is_complex else 1)
    return 1 / (1 / rate(plus) + 1 / rate(times))


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
    work = count * (steps * (6.0 + 1 / _rate(algebra, machine)) + digits + 40.0) + 20 * lanes
    threads = count * lanes * parts
    busy = min(1.0, threads / (machine.multiprocessors * 512))
    issue = work / (64.0 * machine.multiprocessors * machine.frequency_hz * busy)
    waiting = steps / (lanes * parts) * _WAIT_CYCLES / machine.frequency_hz
    speed = machine.memory_bytes_per_second
    seconds = max(issue, memory / speed, loads / (speed * _CACHE_SPEED), waiting)
    return seconds + machine.launch_seconds
