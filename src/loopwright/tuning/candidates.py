"""Plans around the plan of a contraction: each differs in one decision and is proven as usual.

Register tile, unrolling, prefetches, packing, broadcast, blocks, which operand plays left, and the
loop that threads share. Those of loops are in `loop_candidates`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from loopwright.diagnostics import UsageError
from loopwright.ir.contraction_shape import ContractionShape
from loopwright.ir.kernel_variant import Algebra, Algorithm, Broadcast, KernelVariant, Packing
from loopwright.ir.machine import Machine
from loopwright.planner.contraction_plans.given_choice import given_choice, plan_of
from loopwright.transform.plan import Plan

__all__ = ["contraction_neighbours", "other_blocks", "other_variants"]


def contraction_neighbours(
    plan: Plan,
    shape: ContractionShape,
    algebra: Algebra,
    machine: Machine,
    threads: int,
    *,
    reassoc: bool,
) -> Iterator[Plan]:
    """Plans of one `contract` step that fit the shape."""
    step = plan.whole_contract
    if step is None:
        return
    (variant,) = step.variants
    mc, nc, kc = step.blocks
    seen = {plan}
    tried = [(other, step.blocks) for other in other_variants(variant, machine, threads)]
    if variant.algorithm is Algorithm.PRODUCT:
        tried += [(variant, blocks) for blocks in other_blocks((mc, nc, kc))]
    elif variant.algorithm is Algorithm.COLUMNS:
        tried += [(variant, (mc, size, kc)) for size in (nc // 2, nc * 2, nc * 4) if size]
    for other, blocks in tried:
        try:
            made = replace(step, variants=(other,), blocks=blocks)
            given = shape, algebra, machine, threads
            found = plan_of(given_choice(Plan((made,)), *given, reassoc=reassoc))
        except UsageError:
            continue
        if found not in seen:  # blocks are rounded to whole tiles
            seen.add(found)
            yield found


def other_variants(
    variant: KernelVariant, machine: Machine, threads: int
) -> Iterator[KernelVariant]:
    """Variants with another tile, feed or parallel loop."""
    registers = machine.vector_registers or 16
    rows, vectors = variant.rows, variant.vectors
    tiles = [(r, v) for r in range(max(1, rows - 4), rows + 5) for v in range(1, 9)]
    near = sorted(tiles, key=lambda t: (abs(t[0] - rows) + 2 * abs(t[1] - vectors), t))
    if variant.algorithm is Algorithm.PRODUCT:
        near = [(r, v) for r, v in near if r * v + v + 1 <= registers and r * v * 3 > registers]
    elif variant.algorithm is Algorithm.ELEMENTS:
        near = []
    if threads > 1:
        for bundle in ("none", "i", "j", "batch"):
            yield replace(_apart(variant) if bundle == "i" else variant, parallel=bundle)
    # What is not packed is the greatest gain of thin products: it is tried before all else.
    yield replace(variant, left_packing=Packing.DIRECT, ahead=0)
    for r, v in near[:5]:
        yield replace(variant, rows=r, vectors=v)
    yield from _packings(variant)
    for unroll in (variant.unroll * 2, variant.unroll // 2):
        if unroll:
            yield replace(variant, unroll=unroll)
    for ahead in (0, 8, 16, 32, 64):
        yield replace(variant, ahead=ahead)
    for broadcast in Broadcast:
        yield replace(variant, broadcast=broadcast)
    yield replace(variant, swapped=not variant.swapped)
    for r, v in near[5:]:
        yield replace(variant, rows=r, vectors=v)


def _packings(variant: KernelVariant) -> Iterator[KernelVariant]:
    """Other ways to reach the operands; of those in place only right is prefetched."""
    for left in Packing:
        is_direct = left is Packing.DIRECT
        other = variant if is_direct else _apart(variant)
        yield replace(other, left_packing=left, ahead=0 if is_direct else variant.ahead)
    for right in Packing:
        yield replace(variant, right_packing=right)
    for ahead in (8, 0):
        both = replace(variant, left_packing=Packing.DIRECT, right_packing=Packing.DIRECT)
        yield replace(both, ahead=ahead)


def _apart(variant: KernelVariant) -> KernelVariant:
    """The variant with right packed in a pass of its own where its tiles do that."""
    is_by_tile = variant.right_packing is Packing.BY_TILE
    return replace(variant, right_packing=Packing.BY_PANEL) if is_by_tile else variant


def other_blocks(blocks: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    """Blocks half, twice, a quarter or four times as large in one direction."""
    mc, nc, kc = blocks
    for factor in (0.5, 2, 0.25, 4):
        yield mc, nc, max(1, int(kc * factor))
        yield max(1, int(mc * factor)), nc, kc
        yield mc, max(1, int(nc * factor)), kc
    yield mc, nc, 1 << 20  # fitted to the shape: one block of p
