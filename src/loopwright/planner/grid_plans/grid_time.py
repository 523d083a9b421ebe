"""The time of a product in tiles on a GPU, by a model: the greatest of

    issue    operations of the slowest multiprocessor / what it starts in a cycle, as far as reads
             of shared memory keep up; tiles at the edge count whole, and so do the last blocks
    memory   bytes of all operands / bandwidth of memory
    cache    bytes that blocks load / bandwidth of the second-level cache
    waiting  tiles along the reduction * cycles that a load takes, for as many waves of blocks as
             multiprocessors hold at a time

and the launches.
"""

from __future__ import annotations

from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.grid_kernel import GridVariant
from loopwright.ir.kernel_variant import Algebra
from loopwright.planner.contraction_plans.choice import operator_names
from loopwright.planner.grid_plans.grid_operands import operand_bytes

__all__ = ["CACHE_SPEED", "WAIT_CYCLES", "blocks_of", "operations_in_a_cycle", "product_seconds"]

_LOAD_CYCLES = 700.0  # from memory to registers, a tile's barrier included
_MOVE_CYCLES = 12.0  # of a warp that brings 16 bytes a thread to shared memory (fitted, H200)
_LINE_CYCLES = 1.8  # of every line of memory that it touches beyond the fewest (fitted, H200)
_ACROSS_CYCLES = 2.2  # of a warp that stores an element of p for every thread (fitted, H200)
_TILE_TABLE_CYCLES = 200.0  # of a tile that is copied past registers to a place by a table
_EARLY = 0.65  # of that, where loads have all steps of a tile to come (fitted, H200)
_LINE = 128  # bytes
_NEAR_BYTES = 64  # that neighbouring threads load of a run which is stored across
_TABLE_CYCLES = 2400.0  # of one warp, from an offset of its table to its use
_SCATTER_CYCLES = 700.0  # of one warp, to find the place of an element by two tables (fitted, H200)
_SPLIT = 1.25  # times what this says of a product whose reduction is split (measured, H200)
_READ_CYCLES = 2.6  # of 16 bytes for every thread of a warp from shared memory (measured, H200)
_LOOP = 0.15  # of the operations, where a tile's steps are a loop (measured, H200)
_WIDE = 0.06  # of them, where slices have elements wider than high to a thread (measured, H200)
# Of them, where such threads also store left across, and sums turn or rows of out are looked up:
# ptxas is then short of registers (measured, H200).
_CROWDED = 0.1
_BUSY = 8.0  # operations under way for each that starts in a cycle, by the warps of a scheduler
_BUSY_MMA = 2.0  # likewise of the matrix unit, which has many in an instruction (measured, H200)
CACHE_SPEED = 1.6  # bandwidth of the second-level cache beside that of memory
WAIT_CYCLES = 100.0  # of a thread that adds up elements, from one to the next
_UNKNOWN_RATE = 16.0  # operations in a cycle, where the machine's data have none


def product_seconds(
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
    blocks = blocks_of(variant, shape) * parts
    own = variant.thread_rows * variant.thread_columns
    warps = variant.threads / machine.warp
    per_thread = variant.thread_rows + variant.thread_columns
    # Cycles of one step of a block on a multiprocessor of its own.
    rate = operations_in_a_cycle(algebra, machine)
    words = per_thread * max(sizes[0], sizes[1]) / 16
    if variant.uses_mma:  # single elements, each of which serves lanes for 4 steps
        rate = machine.rates["mma"][algebra.accumulator.name]
        words = (variant.thread_rows + variant.thread_columns / 2) / 8
    issue = own * variant.group / rate
    read = variant.group / machine.warp * words * _READ_CYCLES
    moved = variant.rows / variant.left_width + variant.columns / variant.right_width
    moved /= machine.warp
    if variant.stages > 2:
        moved /= 2  # past the registers
    touched = _LINE_CYCLES * _lines(variant, shape, sizes, machine)
    touched *= _EARLY if variant.is_early else 1.0
    touched /= 1 if variant.stages == 2 else 2
    if not variant.uses_mma:
        across = variant.rows * variant.left_along_p + variant.columns * variant.right_along_p
        moved_across = across / machine.warp * _ACROSS_CYCLES
        touched += moved_across if variant.stages == 2 else 0.0
    issued = 0.08 if variant.uses_mma else 0.02 + 0.9 * words / own  # beside the operations
    issued += _LOOP if variant.copies else 0.0
    if variant.slices > 1 and variant.thread_columns > variant.thread_rows:
        is_crowded = variant.out_apart > 1 or not variant.has_stride("i")
        issued += _WIDE + (_CROWDED if variant.left_along_p and is_crowded else 0.0)
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
    # Where a multiprocessor has several blocks, others compute while one loads.
    is_alone = min(held, slowest) < 2
    step = max(issue, read + 4 * moved + (0.0 if is_alone else touched))
    moving = _MOVE_CYCLES * (0.5 if variant.uses_mma and not is_alone else 1.0)
    step += issued * issue + moving * moved + (touched if is_alone else 0.0)
    waves = -(-blocks // (machine.multiprocessors * held))
    # Independent operations under way, beside those that keep a multiprocessor busy.
    busy = _BUSY_MMA if variant.uses_mma else _BUSY
    ready = min(held, slowest) * warps * own / (busy * rate)
    cycles: float = max(
        slowest * steps * step * max(1.0, ready**-0.4),
        waves * (steps // variant.depth + 2) * _LOAD_CYCLES / (variant.stages - 1),
    )
    # Where tiles are not alike, offsets come first, then what lies there.
    if not variant.has_stride("p") and not variant.by_tiles:
        cycles += slowest * (steps // variant.depth) * _TABLE_CYCLES / (warps * min(held, slowest))
    if variant.by_tiles and variant.stages > 2:
        cycles += slowest * (steps // variant.depth) * _TILE_TABLE_CYCLES
    # The sums of all threads go to out; through shared memory, which gives a line in a cycle.
    size = algebra.accumulator.bytes
    ending = own * warps * 0.5
    if variant.joins:
        ending = 2.0 * variant.slices * variant.rows * variant.columns * size / _LINE
    cycles += slowest * (ending + _LOAD_CYCLES)
    is_scattered = not variant.has_stride("i") and not variant.has_stride("j")
    if is_scattered and not variant.joins:  # places in out, by two tables
        cycles += slowest * own / (warps * min(held, slowest)) * _SCATTER_CYCLES
    elements = (batch * m * k, batch * k * n, batch * m * n)
    memory = sum(count * size for count, size in zip(elements, sizes, strict=True))
    # Sectors of which only one element counts are moved whole.
    left = _moved(shape, "left", sizes[0], machine, along_p=variant.left_along_p)
    right = _moved(shape, "right", sizes[1], machine, along_p=variant.right_along_p)
    loads = blocks * steps * (variant.rows * left + variant.columns * right)
    speed = machine.memory_bytes_per_second
    seconds = max(cycles / machine.frequency_hz, memory / speed, loads / (speed * CACHE_SPEED))
    if parts > 1:
        seconds *= _SPLIT
        sums = batch * m * n * algebra.accumulator.bytes
        seconds += parts * sums / (speed * CACHE_SPEED) + _join_seconds(
            batch * m * n, parts, algebra.accumulator.bytes, machine
        )
    return seconds + machine.launch_seconds


def _lines(
    variant: GridVariant,
    shape: ContractionShape,
    sizes: tuple[int, int, int],
    machine: GpuMachine,
) -> float:
    """Lines of memory that warps touch for a step, beyond those that their bytes would fill."""
    v, found = variant, 0.0
    for operand, extent, along_p, width, apart, size in (
        ("left", v.rows, v.left_along_p, v.left_width, v.left_apart, sizes[0]),
        ("right", v.columns, v.right_along_p, v.right_width, v.right_apart, sizes[1]),
    ):
        run = shape.p if along_p else shape.i if operand == "left" else shape.j
        together = _neighbours(run[: len(run) - (apart > 1)], operand)
        if along_p:
            together = min(together, v.depth // apart)
        lanes = v.turned_lanes(operand, size)
        if along_p and width > 1 and not v.uses_mma and not lanes:
            together = min(together, max(width, _NEAR_BYTES // size))
        together = min(together, lanes * width) if lanes else together
        elements = machine.warp * width  # of a load
        together = min(together, elements)
        lines = elements / together * max(1.0, together * size / _LINE)
        found += extent / elements * (lines - max(1.0, elements * size / _LINE))
    return found


def _neighbours(dims: tuple[Dim, ...], operand: str) -> int:
    """Elements behind each other in memory that the last of these loops run through."""
    count = 1
    for d in reversed(dims):
        if getattr(d, operand) != count:
            break
        count *= d.extent
    return count


def _join_seconds(elements: int, parts: int, size: int, machine: GpuMachine) -> float:
    """The time of the launch that adds up the parts, by threads or by the lanes of warps.

    A thread for each element takes one part after another. Lanes take parts side by side, whose
    elements are in sectors of their own.
    """
    speed = machine.memory_bytes_per_second * CACHE_SPEED
    waiting = parts * WAIT_CYCLES / machine.frequency_hz
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


def operations_in_a_cycle(algebra: Algebra, machine: GpuMachine) -> float:
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


def blocks_of(variant: GridVariant, shape: ContractionShape) -> int:
    """Tiles of out."""
    batch, m, n, _ = shape.sizes
    return batch * -(-m // variant.rows) * -(-n // variant.columns)
