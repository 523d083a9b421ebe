"""Plans around a plan: each differs in one decision, and each is proven by the usual road.

Of a contraction: register tile, unrolling, prefetches, packing, broadcast, blocks, the loop that
threads share. Of loops: sizes of tiles, strips and time blocks, steps left out, and other starts
(source order, tiles, fusion, distribution, interchange) with the marks that the model gives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import islice
from typing import Any

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.faults import FAULTS
from loopwright.ir.contraction_shape import ContractionShape
from loopwright.ir.islkit import ISL_QUOTA, GaveUp, bounded
from loopwright.ir.kernel_variant import Algebra, Algorithm, Broadcast, KernelVariant, Packing
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.planner.generic import extend_plan
from loopwright.planner.given_choice import given_choice, plan_of
from loopwright.transform.interchange import Interchange, open_chains
from loopwright.transform.loop_fusion import Distribute, Fuse
from loopwright.transform.plan import Plan, apply_plan, apply_steps, initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile

__all__ = ["contraction_neighbours", "loop_neighbours"]

_TILE_SIZES = (16, 32, 64, 128)
_MOST_STARTS = 8  # steps of a kind that are tried on the loops of the source


# -- contractions ---------------------------------------------------------------------------------


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
    tried = [(other, step.blocks) for other in _variants(variant, machine, threads)]
    if variant.algorithm is Algorithm.PRODUCT:
        tried += [(variant, blocks) for blocks in _blocks((mc, nc, kc))]
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


def _variants(variant: KernelVariant, machine: Machine, threads: int) -> Iterator[KernelVariant]:
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
            yield replace(variant, parallel=bundle)
    for r, v in near[:5]:
        yield replace(variant, rows=r, vectors=v)
    yield from _packings(variant)
    for unroll in (variant.unroll * 2, variant.unroll // 2):
        if unroll:
            yield replace(variant, unroll=unroll)
    for ahead in (0, 16, 32, 64):
        yield replace(variant, ahead=ahead)
    for broadcast in Broadcast:
        yield replace(variant, broadcast=broadcast)
    yield replace(variant, swapped=not variant.swapped)
    for r, v in near[5:]:
        yield replace(variant, rows=r, vectors=v)


def _packings(variant: KernelVariant) -> Iterator[KernelVariant]:
    """Other ways to reach the operands; reading left in place allows no prefetches."""
    for left in Packing:
        ahead = 0 if left is Packing.DIRECT else variant.ahead
        yield replace(variant, left_packing=left, ahead=ahead)
    for right in Packing:
        yield replace(variant, right_packing=right)
    yield replace(variant, left_packing=Packing.DIRECT, right_packing=Packing.DIRECT, ahead=0)


def _blocks(blocks: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    mc, nc, kc = blocks
    for factor in (0.5, 2, 0.25, 4):
        yield mc, nc, max(1, int(kc * factor))
        yield max(1, int(mc * factor)), nc, kc
        yield mc, max(1, int(nc * factor)), kc
    yield mc, nc, 1 << 20  # fitted to the shape: one block of p


# -- loops ----------------------------------------------------------------------------------------


def loop_neighbours(plan: Plan, program: Program, machine: Machine, threads: int) -> Iterator[Plan]:
    """Legal plans for the loops of a program, around `plan` and from other starts."""
    seen = {plan}
    for steps in (*_changed(plan), *_shortened(plan)):
        found = Plan(steps)
        if found not in seen and _is_legal(program, found):
            seen.add(found)
            yield found
    for found in _starts(program, machine, threads):
        if found not in seen:
            seen.add(found)
            yield found


def _changed(plan: Plan) -> Iterator[tuple[Step, ...]]:
    """Steps with one size of one of them halved or doubled."""
    for k, step in enumerate(plan.steps):
        for changes in _resized(step):
            try:
                made = replace(step, **changes)
            except UsageError:
                continue
            yield (*plan.steps[:k], made, *plan.steps[k + 1 :])


def _resized(step: Step) -> Iterator[dict[str, Any]]:
    for field in fields(step):
        value = getattr(step, field.name)
        if type(value) is int and value > 1:
            yield from ({field.name: size} for size in (value * 2, value // 2))
        elif isinstance(value, tuple) and value and all(type(x) is int for x in value):
            whole = [tuple(max(1, x * a // b) for x in value) for a, b in ((2, 1), (1, 2))]
            single = [
                (*value[:k], max(1, value[k] * a // b), *value[k + 1 :])
                for k in range(len(value))
                for a, b in ((2, 1), (1, 2))
            ]
            yield from ({field.name: sizes} for sizes in (*whole, *single))


def _shortened(plan: Plan) -> Iterator[tuple[Step, ...]]:
    """Steps without one of them."""
    for k in range(len(plan.steps)):
        yield (*plan.steps[:k], *plan.steps[k + 1 :])


def _starts(program: Program, machine: Machine, threads: int) -> Iterator[Plan]:
    """One step on the loops of the source, or none, and the model's marks after it."""
    source = initial_schedule(program)
    firsts: list[tuple[Step, ...]] = [()]
    for chain in tuple(open_chains(source))[:4]:
        if len(chain) > 1:
            firsts += [(Tile(chain, (size,) * len(chain)),) for size in _TILE_SIZES]
    for kind in (Fuse, Distribute, Interchange):
        firsts += [(step,) for step in islice(kind.candidates(source), _MOST_STARTS)]
    for steps in firsts:
        found = _marked(source, steps, machine, threads)
        if found is not None:
            yield found


def _marked(
    source: Schedule, steps: tuple[Step, ...], machine: Machine, threads: int
) -> Plan | None:
    def made() -> Plan:
        schedule = apply_steps(source, steps)
        return Plan((*steps, *extend_plan(schedule, machine, parallel=threads > 1)))

    try:
        return bounded(made, _none, ISL_QUOTA)
    except (IllegalStep, UsageError, *FAULTS):
        return None


def _is_legal(program: Program, plan: Plan) -> bool:
    try:
        return bounded(lambda: bool(apply_plan(program, plan)), _no, ISL_QUOTA)
    except (IllegalStep, UsageError, *FAULTS):
        return False


def _none(error: GaveUp) -> None:
    return None


def _no(error: GaveUp) -> bool:
    return False
