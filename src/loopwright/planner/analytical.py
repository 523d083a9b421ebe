"""The analytical planner: from an instance and a machine to the form and the launch of a kernel.

No search and no trial run: register tiles and blocks come from the processor model (gemm_model,
gemv_model), packing from what exceeds which cache, the parallel loop from F(L). The cost of
planning does not depend on the sizes of the operands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.ir.form import Feed, Form, Initial, Kind, Packing
from loopwright.ir.machine import Machine
from loopwright.planner.gemm_model import GemmBlocks, gemm_blocks
from loopwright.planner.instance import Dim, Instance, arrange, offsets

__all__ = ["Algebra", "Choice", "choose"]


@dataclass(frozen=True, slots=True)
class Algebra:
    """What is computed, apart from loops and strides."""

    plus: str | Expr
    times: str | Expr
    zero: bool | int | float | complex
    left: DType
    right: DType
    out: DType
    accumulator: DType
    initial: Initial
    scaled: bool  # products are multiplied by alpha
    reassoc: bool  # the reduction may be reordered


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel's form, the values of one launch, and what the model expects of it."""

    form: Form
    instance: Instance  # arranged
    values: dict[str, int]  # launch values by name
    table: np.ndarray[tuple[int], np.dtype[np.int64]]  # offset tables, one after another
    threads: int
    cycles: float  # predicted, of the slowest thread


def choose(instance: Instance, algebra: Algebra, machine: Machine, threads: int) -> Choice:
    """The plan of the model for one contraction. All extents must be positive."""
    lanes = max(1, machine.vector_bytes // algebra.accumulator.real.bytes)
    arranged = arrange(instance, lanes, algebra.reassoc)
    _, m, n, _ = arranged.sizes
    if not arranged.p:
        return _elements(arranged, algebra, machine, threads, lanes)
    if n == 1 and algebra.reassoc:
        return _rows(arranged, algebra, machine, threads, lanes)
    if n == 1:
        arranged = arranged.turned()
        _, m, n, _ = arranged.sizes
    if m == 1:
        return _columns(arranged, algebra, machine, threads, lanes)
    return _product(arranged, algebra, machine, threads, lanes)


def _form(
    algebra: Algebra,
    instance: Instance,
    kind: Kind,
    tile: tuple[int, int, int],
    packing: tuple[Packing, Packing],
    *,
    feed: Feed = Feed.BROADCAST,
    unroll: int = 1,
    ahead: int = 0,
    parallel: str = "none",
    group: int = 1,
) -> Form:
    left, right = algebra.left, algebra.right
    if instance.swapped:
        left, right = right, left
    rows, vectors, lanes = tile
    return Form(
        kind,
        algebra.plus,
        algebra.times,
        instance.swapped,
        left,
        right,
        algebra.out,
        algebra.accumulator,
        algebra.zero,
        rows,
        vectors,
        lanes,
        unroll,
        *packing,
        feed,
        algebra.initial,
        ahead,
        algebra.scaled,
        parallel,
        group,
    )


# -- the product ----------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _blocks(machine: Machine, plus: str, times: str, dtype: str) -> GemmBlocks:
    return gemm_blocks(machine, plus, times, dtype)


def _names(algebra: Algebra) -> tuple[str, str]:
    """Operator names for the machine model; expressions of users count as an unfused pair."""
    plus = algebra.plus if isinstance(algebra.plus, str) else "max"
    times = algebra.times if isinstance(algebra.times, str) else "add"
    return plus, "add" if times == "first" else times


def _product(
    instance: Instance, algebra: Algebra, machine: Machine, threads: int, lanes: int
) -> Choice:
    plus, times = _names(algebra)
    dtype = algebra.accumulator
    blocks = _blocks(machine, plus, times, dtype.name)
    cost = machine.vmma(plus, times, dtype.name)
    _, m, n, k = instance.sizes
    size = max(algebra.left.bytes, algebra.right.bytes)

    by_lane = cost.by_element
    rows, vectors = blocks.m_r, max(1, blocks.n_r // lanes)
    if dtype.is_complex:
        rows, vectors = _complex_tile(machine.vector_registers, lanes)
    feed = Feed.LANE if by_lane else Feed.BROADCAST
    if not by_lane and machine.isa == "aarch64":
        feed = Feed.REPLICATED

    group = _dot_group(algebra, machine)
    if group > 1:
        rows, vectors, feed, by_lane = lanes, 4, Feed.LANE, True
    left = _packing(instance.i, instance.p, "left", lanes, rows % lanes == 0)
    right = _packing(instance.j, instance.p, "right", lanes, True)
    unroll, ahead = 4 if cost.fused and not dtype.is_complex else 2, 32
    if dtype.is_complex:
        unroll = 1
    l1, l2 = machine.cache(1), machine.cache(2)
    # Left stays where it lies when its rows run along p and all of it stays in L2 meanwhile.
    in_place = (
        by_lane
        and not algebra.scaled
        and algebra.left == algebra.right == dtype
        and len(instance.p) == 1
        and instance.p[0].left == 1
        and m * k * size <= l2.size * 3 // 4
        and k * 4 * lanes * size <= l1.size // 2
    )
    if in_place and not dtype.is_complex:
        vectors = 4
        rows = (machine.vector_registers - 2 - vectors) // (vectors + 1)
        left, unroll, ahead = Packing.DIRECT, lanes, 0
    kc, mc, nc = blocks.k_c, blocks.m_c, blocks.n_c
    if feed is Feed.REPLICATED:
        # Each element of left takes a whole vector: both of its blocks shrink accordingly.
        panel = (rows * lanes + vectors * lanes) * size
        kc = min(kc, l1.size * 3 // 4 // panel)
        mc = l2.size * 3 // 4 // (kc * lanes * size)
    if left is Packing.DIRECT:
        kc, mc = k, m
    if group > 1:
        kc *= group
    if algebra.accumulator != algebra.out:
        kc = k  # partial sums must not pass through a narrower out
    kc = _even(k, kc, unroll * group)
    parallel, shares = _parallel_product(instance, machine, threads, cost.per_cycle * lanes, rows)
    if parallel == "i":
        mc = min(mc, -(-m // shares))
    mc = _even(m, mc, rows)
    columns = vectors * lanes
    if parallel == "j":
        nc = min(nc, -(-n // shares))
    nc = _even(n, nc, columns)

    form = _form(
        algebra,
        instance,
        Kind.PRODUCT,
        (rows, vectors, lanes),
        (left, right),
        feed=feed if left is not Packing.DIRECT else Feed.LANE,
        unroll=unroll,
        ahead=ahead,
        parallel=parallel,
        group=group,
    )
    values = {"mc": mc, "nc": nc, "kc": kc, "runs": int(_runs(instance.j, "out", lanes))}
    values["right_step"] = instance.p[0].right if len(instance.p) == 1 else 0
    tables = ("g", "left right out"), ("i", "left out"), ("j", "right out"), ("p", "left right")
    used = shares if parallel != "none" else 1
    cycles = math.prod(instance.sizes) / (cost.per_cycle * lanes) / used
    return _launch(form, instance, values, tables, used, cycles)


def _dot_group(algebra: Algebra, machine: Machine) -> int:
    """Steps per instruction: 4 where bytes of one kind are summed in 32 bits, else 1."""
    bytes_ = algebra.left == algebra.right and algebra.left.name in ("int8", "uint8")
    sums = algebra.accumulator.is_integer and algebra.accumulator.bits == 32
    plain = algebra.plus == "add" and algebra.times == "mul" and not algebra.scaled
    has = machine.isa == "aarch64" and "dotprod" in machine.features
    return 4 if bytes_ and sums and plain and has else 1


def _complex_tile(registers: int, lanes: int) -> tuple[int, int]:
    """Rows and vectors of a complex tile, whose vectors take two registers each."""
    best = (1, 1)
    for vectors in range(1, 5):
        for rows in range(lanes, 17, lanes):
            need = 2 * (rows * vectors + vectors + -(-rows // lanes))
            better = rows * vectors * (best[0] + best[1] * lanes) > best[0] * best[1] * (
                rows + vectors * lanes
            )
            if need <= registers and better:
                best = (rows, vectors)
    return best


def _packing(
    tile: tuple[Dim, ...], p: tuple[Dim, ...], operand: str, lanes: int, aligned: bool
) -> Packing:
    """How an operand is packed: along runs of its tile loop or of p, else by elements."""
    if _runs(tile, operand, lanes) and (aligned or len(tile) == 1):
        return Packing.ALONG_TILE
    return Packing.ALONG_P if _runs(p, operand, lanes) else Packing.ANY


def _runs(dims: tuple[Dim, ...], operand: str, lanes: int) -> bool:
    """Whether vectors at multiples of `lanes` in a bundle are runs of unit stride."""
    if not dims or getattr(dims[-1], operand) != 1:
        return False
    return len(dims) == 1 or dims[-1].extent % lanes == 0


def _even(total: int, block: int, unit: int) -> int:
    """A block near `block` that divides `total` evenly, in whole units."""
    count = -(-total // max(block, 1))
    share = -(-total // count)
    return -(-share // unit) * unit


def _parallel_product(
    instance: Instance, machine: Machine, threads: int, rate: float, rows: int
) -> tuple[str, int]:
    """The loop with the best F(L) = N_O / (C_PAR + cycles), and how many shares it gets."""
    if threads == 1:
        return "none", 1
    g, m, n, k = instance.sizes
    work = g * m * n * k / rate
    best, found = work, ("none", 1)
    start = machine.parallel_cost.cycles(threads)
    for name, units in (("batch", g), ("i", m // rows), ("j", n // 8)):
        if units < threads:
            continue
        slowest = -(-units // threads) / units
        cycles = start * (1 if name != "i" else 2) + work * slowest
        if cycles < best:
            best, found = cycles, (name, threads)
    return found


# -- one bundle empty -----------------------------------------------------------------------------


def _rows(
    instance: Instance, algebra: Algebra, machine: Machine, threads: int, lanes: int
) -> Choice:
    """Vectors along p; rows share each vector of right."""
    g, m, _, k = instance.sizes
    single = len(instance.p) == 1
    left = Packing.DIRECT if single and instance.p[0].left == 1 else Packing.ALONG_P
    if left is not Packing.DIRECT and not _runs(instance.p, "left", lanes):
        left, lanes = Packing.ANY, 1
    right = Packing.DIRECT if single and instance.p[0].right == 1 else Packing.ANY
    rows = 1 if m == 1 else 4
    vectors = 8 if m == 1 else 2
    if algebra.accumulator.is_complex:
        vectors = max(1, vectors // 2)
    rate = lanes * machine.vmma(*_names(algebra), algebra.accumulator.name).per_cycle
    work = g * m * k / rate
    parallel, used = _share(machine, threads, work, (("batch", g), ("i", m // rows)))
    form = _form(
        algebra, instance, Kind.ROWS, (rows, vectors, lanes), (left, right), parallel=parallel
    )
    tables = ("g", "left right out"), ("i", "left out"), ("p", "left right")
    return _launch(form, instance, {}, tables, used, work / used)


def _columns(
    instance: Instance, algebra: Algebra, machine: Machine, threads: int, lanes: int
) -> Choice:
    """Vectors along j; several steps of p at a time."""
    g, _, n, k = instance.sizes
    single = len(instance.j) == 1 and instance.j[0].right == 1 == instance.j[0].out
    right = Packing.DIRECT if single else Packing.ALONG_TILE
    if not single and not (_runs(instance.j, "right", lanes) and _runs(instance.j, "out", lanes)):
        right, lanes = Packing.ANY, 1
    rate = lanes * machine.vmma(*_names(algebra), algebra.accumulator.name).per_cycle
    work = g * n * k / rate
    parallel, used = _share(machine, threads, work, (("batch", g), ("j", n // (8 * lanes))))
    # The block of out and the rows of right that pass by share L1.
    block = machine.cache(1).size // 4 // algebra.accumulator.bytes
    if parallel == "j":
        block = min(block, -(-n // used))
    form = _form(
        algebra, instance, Kind.COLUMNS, (8, 2, lanes), (Packing.ANY, right), parallel=parallel
    )
    values = {"nc": _even(n, block, 8 * lanes)}
    tables = ("g", "left right out"), ("j", "right out"), ("p", "left right")
    return _launch(form, instance, values, tables, used, work / used)


def _elements(
    instance: Instance, algebra: Algebra, machine: Machine, threads: int, lanes: int
) -> Choice:
    """No reduction: one loop is the vector loop, all others are linearised."""
    dims = [*instance.batch, *instance.i, *instance.j]
    dims.sort(key=lambda d: (-abs(d.out), -d.extent))
    inner = dims.pop() if dims else Dim(1, 0, 0, 1)
    outer = replace(instance, batch=tuple(dims), i=(), j=(inner,), p=())
    if inner.out != 1:
        lanes = 1
    moves = {0: Packing.DIRECT, 1: Packing.ALONG_TILE}
    packing = moves.get(inner.left, Packing.ANY), moves.get(inner.right, Packing.ANY)
    g, _, n, _ = outer.sizes
    work = float(g * n)
    parallel, used = _share(machine, threads, work, (("batch", g),))
    form = _form(algebra, outer, Kind.ELEMENTS, (1, 4, lanes), packing, parallel=parallel)
    values = {"left_j": inner.left, "right_j": inner.right, "out_j": inner.out}
    return _launch(form, outer, values, (("g", "left right out"),), used, work / used)


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


# -- the launch -----------------------------------------------------------------------------------


def _launch(
    form: Form,
    instance: Instance,
    values: dict[str, int],
    tables: tuple[tuple[str, str], ...],
    threads: int,
    cycles: float,
) -> Choice:
    """Launch values and offset tables: table `left_i` starts at the value of that name."""
    bundles = {"g": instance.batch, "i": instance.i, "j": instance.j, "p": instance.p}
    bases = dict(zip(("left", "right", "out"), instance.bases, strict=True))
    values = dict(values, **dict(zip("GMNK", instance.sizes, strict=True)))
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
    return Choice(form, instance, values, np.concatenate(parts), threads, cycles)
