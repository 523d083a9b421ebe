"""Sums that wait for themselves: whether a product is better rounded before it is added.

The entries of a row are added one after the other, each to the sum so far. A fused product and sum
is one operation for two, but on some machines it takes longer from the sum so far to the next than
an addition does. Where a loop adds to a single sum, that is what it waits for.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import Binary, Load
from loopwright.ir.loops import For, LoopNest, Store
from loopwright.ir.machine import Machine
from loopwright.ir.visit import statements

__all__ = ["with_short_chains"]


def with_short_chains(nest: LoopNest, machine: Machine) -> LoopNest:
    """The nest with products rounded before they are added, where its one sum is quicker so."""
    if not nest.leave_to_llvm:
        return nest
    sums = {
        (stmt.buffer, stmt.value.dtype.name)
        for loop in statements(nest.body)
        if isinstance(loop, For)
        for stmt in statements(loop.body)
        if isinstance(stmt, Store) and _adds_a_product(stmt)
    }
    if len(sums) != 1:
        return nest
    ((_, dtype),) = sums
    fused, plain = machine.cost("fma", dtype).accumulate, machine.cost("add", dtype).latency
    return replace(nest, fuses=fused <= plain)


def _adds_a_product(stmt: Store) -> bool:
    """Whether a statement is s = s + x * y for a scalar s of floating numbers."""
    value = stmt.value
    if stmt.index or not isinstance(value, Binary) or value.op != "add":
        return False
    is_sum = isinstance(value.x, Load) and value.x.array == stmt.buffer and not value.x.index
    is_product = isinstance(value.y, Binary) and value.y.op == "mul"
    return is_sum and is_product and value.dtype.kind == "f"
