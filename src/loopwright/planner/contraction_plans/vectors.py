"""Planning products with an empty bundle: dot products, columns, single elements."""

from __future__ import annotations

import math
from itertools import product

from loopwright.ir.contraction_shape import ContractionShape, Dim, has_runs, strided_bundles
from loopwright.ir.kernel_variant import (
    Algebra,
    Algorithm,
    ContractionKernel,
    KernelVariant,
    Packing,
)
from loopwright.ir.machine import Machine
from loopwright.planner.contraction_plans.arrange import arrange_elements
from loopwright.planner.contraction_plans.choice import Choice, even_block, operator_names

__all__ = ["crosses_columns", "plan_columns", "plan_elements", "plan_rows", "reads_windows"]

LONG_ROW_BYTES = 2048
AHEAD_BYTES = 256  # how far ahead of its use a stream is prefetched (measured, N1)


def crosses_columns(shape: ContractionShape, *, reassoc: bool) -> bool:
    """Whether `plan_columns` would have to go through an operand across its order in memory.

    A product with an empty bundle i or j whose sums keep their order has vectors along the other
    bundle, or none. Where the neighbours in memory of the operand with that bundle are elements of
    one sum, or of several products of a batch, every step of the kernel fetches a line of cache for
    one number. Loops take such rows several at a time (measured: 3 to 20 times as fast).
    """
    if reassoc or not shape.p or (shape.i and shape.j):
        return False
    free, operand = (shape.j, "right") if shape.j else (shape.i, "left")
    return _nearest(free, operand) > _nearest((*shape.p, *shape.batch), operand)


def reads_windows(shape: ContractionShape) -> bool:
    """Whether results of a product with an empty bundle i or j are sums over windows that overlap.

    That is where a loop of the reduction passes over elements that a loop of the other bundle
    reaches too, as w and j do in a[j + w]. Loops keep what windows have in common in registers,
    where the kernel asks tables where each element is (sums over 5 x 5 elements 0.07 to 0.3 of gcc
    by the kernel and 1.1 to 1.7 by loops, filters of 64 taps 4 to 12 and 12 to 20; measured,
    Cascade Lake).
    """
    if not shape.p or (shape.i and shape.j):
        return False
    free, operand = (shape.j, "right") if shape.j else (shape.i, "left")

    def steps(dims: tuple[Dim, ...]) -> list[tuple[int, int]]:
        return [(abs(getattr(d, operand)), d.extent) for d in dims if d.extent > 1]

    return any(
        low and (count - 1) * low >= high
        for one, other in product(steps(free), steps(shape.p))
        for (low, count), (high, _) in [sorted((one, other))]
    )


def _nearest(dims: tuple[Dim, ...], operand: str) -> float:
    """The least distance in memory between two elements along these loops; infinite for none."""
    steps = (abs(getattr(d, operand)) for d in dims if d.extent > 1)
    return min((step for step in steps if step), default=math.inf)


def plan_rows(
    shape: ContractionShape, algebra: Algebra, machine: Machine, threads: int, lanes: int
) -> Choice:
    """Vectors along p; rows share each vector of right."""
    g, m, _, k = shape.sizes
    single = len(shape.p) == 1
    left = Packing.DIRECT if single and shape.p[0].left == 1 else Packing.ALONG_P
    if left is not Packing.DIRECT and not has_runs(shape.p, "left", lanes):
        left, lanes = Packing.ANY, 1
    unary = algebra.times == "first"
    in_order = unary or (single and shape.p[0].right == 1)
    right = Packing.DIRECT if in_order else Packing.ANY
    strided = strided_bundles(shape)
    if (
        m == 1
        and not in_order
        and "p" in strided
        and k * algebra.right.bytes > machine.cache(1).size
    ):
        # A copy of right would be read once; it is made only where it stays in the nearest cache,
        # or where each place is looked up.
        left = left if left is Packing.DIRECT else Packing.ANY
        right, lanes = Packing.STRIDED, 1
    # From memory one stream is read fastest, and short rows are over before a second one pays;
    # from a cache, two long rows share the vectors of right, and need no hints: each belongs to a
    # stream of its own (measured, N1).
    short = k * algebra.left.bytes < LONG_ROW_BYTES
    far = _is_far(machine, m * k * algebra.left.bytes)
    rows = 1 if m == 1 or short or unary or far else 2
    vectors = 8
    if algebra.accumulator.is_complex:
        vectors = max(1, vectors // 2)
    rate = lanes * machine.vmma(*operator_names(algebra), algebra.accumulator.name).per_cycle
    work = g * m * k / rate
    parallel, used = _share(machine, threads, work, (("batch", g), ("i", m // rows)))
    variant = KernelVariant(
        Algorithm.ROWS,
        rows,
        vectors,
        lanes,
        left,
        right,
        swapped=shape.swapped,
        unroll=2 if far else 1,
        ahead=AHEAD_BYTES // algebra.left.bytes if rows == 1 else 0,
        parallel=parallel,
        strided=strided,
    )
    return Choice(ContractionKernel(algebra, variant), (0, 0, 0), shape, used, work / used)


def plan_columns(
    shape: ContractionShape,
    algebra: Algebra,
    machine: Machine,
    threads: int,
    lanes: int,
    *,
    reassoc: bool,
) -> Choice:
    """Vectors along j; several steps of p at a time."""
    g, _, n, k = shape.sizes
    single = len(shape.j) == 1 and shape.j[0].right == 1 == shape.j[0].out
    right = Packing.DIRECT if single else Packing.ALONG_TILE
    if not single and not (has_runs(shape.j, "right", lanes) and has_runs(shape.j, "out", lanes)):
        right, lanes = Packing.ANY, 1
    rate = lanes * machine.vmma(*operator_names(algebra), algebra.accumulator.name).per_cycle
    work = g * n * k / rate
    parallel, used = _share(machine, threads, work, (("batch", g), ("j", n // (8 * lanes))))
    # Long rows of right stream best, so out is cut only where it would not stay in L2.
    block = machine.cache(2).size // 2 // algebra.accumulator.bytes
    size = algebra.right.bytes
    in_l1 = n * algebra.accumulator.bytes <= machine.cache(1).size // 2
    far = _is_far(machine, n * k * size)
    rows = 1 if in_l1 and far else 2
    apart = rows == 2 and in_l1 and reassoc
    # Streams whose vectors never cross a line ask for the next one late: from behind L2 hints gain
    # 10 to 30% where rows are whole lines, and cost 3% where they are not (N1). Where a vector is a
    # line, every load is of a new one, and hints cost up to 20% (Sapphire Rapids).
    is_late = (
        n * k * size > machine.cache(2).size
        and machine.vector_bytes < machine.cache(1).line
        and _has_whole_lines(shape, machine, size)
    )
    if parallel == "j":
        block = min(block, -(-n // used))
    variant = KernelVariant(
        Algorithm.COLUMNS,
        rows,
        8,
        lanes,
        Packing.ANY,
        right,
        swapped=shape.swapped,
        ahead=0 if apart and not is_late else AHEAD_BYTES // size,
        parallel=parallel,
        apart=apart,
        strided=strided_bundles(shape),
    )
    blocks = (0, even_block(n, block, 8 * lanes), 0)
    return Choice(ContractionKernel(algebra, variant), blocks, shape, used, work / used)


def plan_elements(
    shape: ContractionShape, algebra: Algebra, machine: Machine, threads: int, lanes: int
) -> Choice:
    """No reduction: one loop is the vector loop, all others are linearised."""
    outer = arrange_elements(shape)
    (inner,) = outer.j
    if inner.out != 1:
        lanes = 1
    moves = {0: Packing.DIRECT, 1: Packing.ALONG_TILE}
    packing = moves.get(inner.left, Packing.ANY), moves.get(inner.right, Packing.ANY)
    g, _, n, _ = outer.sizes
    work = float(g * n)
    parallel, used = _share(machine, threads, work, (("batch", g),))
    variant = KernelVariant(
        Algorithm.ELEMENTS,
        1,
        4,
        lanes,
        *packing,
        swapped=shape.swapped,
        parallel=parallel,
        strided=strided_bundles(outer),
    )
    return Choice(ContractionKernel(algebra, variant), (0, 0, 0), outer, used, work / used)


def _has_whole_lines(shape: ContractionShape, machine: Machine, size: int) -> bool:
    """Whether rows of right begin at the same place of a cache line."""
    return all(d.right * size % machine.cache(1).line == 0 for d in shape.p)


def _is_far(machine: Machine, size: int) -> bool:
    """Whether an operand of `size` bytes comes from main memory."""
    return size > machine.caches[-1].size


def _share(
    machine: Machine, threads: int, work: float, loops: tuple[tuple[str, int], ...]
) -> tuple[str, int]:
    """The first loop long enough to share out, if the work outweighs opening a region."""
    if threads == 1 or work < 2 * machine.parallel_cost.cycles(threads):
        return "none", 1
    for name, units in loops:
        if units >= threads:
            return name, threads
    return "none", 1
