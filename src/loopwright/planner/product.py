"""Planning a product: register tile, packing, blocks and the parallel loop of algorithm 6."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from loopwright.ir.form import Feed, Kind, Packing
from loopwright.ir.machine import Machine
from loopwright.planner.choice import (
    Algebra,
    Choice,
    even_block,
    has_runs,
    make_form,
    make_launch,
    operator_names,
)
from loopwright.planner.gemm_model import GemmBlocks, gemm_blocks
from loopwright.planner.instance import Dim, Instance, offsets

__all__ = ["plan_product"]


@lru_cache(maxsize=256)
def _blocks(machine: Machine, plus: str, times: str, dtype: str) -> GemmBlocks:
    return gemm_blocks(machine, plus, times, dtype)


def plan_product(
    instance: Instance, algebra: Algebra, machine: Machine, threads: int, lanes: int
) -> Choice:
    plus, times = operator_names(algebra)
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
        mc = l2.size // 4 // (kc * lanes * size)
    if left is Packing.DIRECT:
        kc, mc = k, m
    if group > 1:
        kc *= group
    if algebra.accumulator != algebra.out:
        kc = k  # partial sums must not pass through a narrower out
    kc = even_block(k, kc, unroll * group)
    parallel, shares = _parallel_product(instance, machine, threads, cost.per_cycle * lanes, rows)
    if parallel == "i":
        mc = min(mc, -(-m // shares))
    mc = even_block(m, mc, rows)
    columns = vectors * lanes
    if parallel == "j":
        nc = min(nc, -(-n // shares))
    nc = even_block(n, nc, columns)

    form = make_form(
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
    values = {"mc": mc, "nc": nc, "kc": kc, "runs": int(has_runs(instance.j, "out", lanes))}
    values["right_step"] = instance.p[0].right if len(instance.p) == 1 else 0
    tables = ("g", "left right out"), ("i", "left out"), ("j", "right out"), ("p", "left right")
    used = shares if parallel != "none" else 1
    cycles = math.prod(instance.sizes) / (cost.per_cycle * lanes) / used
    walks = {
        "left_w": _walk(form.left_packing, (instance.i, mc), (instance.p, kc), "left"),
        "right_w": _walk(form.right_packing, (instance.j, nc), (instance.p, kc), "right"),
    }
    return make_launch(form, instance, values, tables, used, cycles, walks)


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
    if has_runs(tile, operand, lanes) and (aligned or len(tile) == 1):
        return Packing.ALONG_TILE
    if has_runs(p, operand, lanes):
        return Packing.ALONG_P
    nearest = min((*tile, *p), key=lambda d: abs(getattr(d, operand)) or math.inf)
    return Packing.WALK_TILE if nearest in tile else Packing.WALK_P


def _walk(
    packing: Packing,
    tile: tuple[tuple[Dim, ...], int],
    p: tuple[tuple[Dim, ...], int],
    operand: str,
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
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
