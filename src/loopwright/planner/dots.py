"""Sums of products of narrow integers by instructions that add several products at once."""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.kernel_variant import Algebra, Broadcast
from loopwright.ir.machine import Machine
from loopwright.planner.gemm_model import largest_tile

__all__ = ["dot_group", "dot_tile"]


def dot_group(algebra: Algebra, machine: Machine) -> tuple[int, bool]:
    """Steps per instruction, and whether the sign bits of left are turned for it.

    Sums of 32 bits take four bytes at once where the machine has dot products of bytes: on ARM of
    one kind, on x86 of one signed and one unsigned factor. Elsewhere they take two 16-bit integers,
    which bytes are widened to. Without either, one.
    """
    sums = algebra.accumulator.is_integer and algebra.accumulator.bits == 32
    plain = algebra.plus == "add" and algebra.times == "mul" and not algebra.scaled
    types = {algebra.left.name, algebra.right.name}
    if not (sums and plain and types <= {"int8", "uint8", "int16"}):
        return 1, False
    is_x86 = machine.isa == "x86_64"
    if "int16" not in types and machine.fused("dot", "int8") is not None:
        alike = len(types) == 1
        if alike or is_x86:
            return 4, alike and is_x86
    return (2 if machine.fused("dot", "int16") is not None else 1), False


def dot_tile(machine: Machine, group: int) -> tuple[int, int, Broadcast, int]:
    """Rows, vectors, broadcast and steps at a time of a tile of dot instructions."""
    if machine.isa == "aarch64":
        # A group of left is a lane of a register.
        return machine.lanes(32), 4, Broadcast.LANE, 4
    cost = machine.fused("dot", "int8" if group == 4 else "int16")
    assert cost is not None
    plain = machine.processor("add", "mul", "int32")
    fused = cost.instructions == 1
    latency, rate = cost.accumulate, cost.per_cycle
    tile = largest_tile(replace(plain, latency=latency, per_cycle=rate, fused=fused))
    # LLVM takes chains of vpdpwssd apart, into products and sums of their own, which halves their
    # rate: one step at a time there is none.
    unroll = 2 if not fused else 4 if group == 4 else 1
    return tile.m_r, tile.n_r // plain.lanes, Broadcast.LOAD, unroll
