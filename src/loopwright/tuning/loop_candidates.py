"""Plans around the plan of an affine program: each differs in one decision and is proven as usual.

    resized      another size of a tile, strip, time block, wave, jam or prefetch
    kernels      another register tile, packing or block of a contraction inside the loops
    rebuilt      one more step before the marks (waves over passes, jams, interchange, fusion,
                 distribution, tiles, partial sums), then the marks of the model anew
    added        one more mark: prefetches, unrolling
    shortened    a step less
    starts       the loops of the source with one step or none, and the marks of the model

They take turns, so that a short budget has seen something of each kind; the last two come after
all others where the plan has contractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from itertools import chain, islice
from typing import Any, TypeVar

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.faults import FAULTS
from loopwright.ir.islkit import ISL_QUOTA, GaveUp, bounded
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.affine import plan_marks
from loopwright.planner.loop_plans.fetches import plan_fetches
from loopwright.planner.loop_plans.stencils import plan_alignment
from loopwright.transform.blocked_closure import BlockClosure
from loopwright.transform.contract import Contract
from loopwright.transform.interchange import Interchange, open_chains
from loopwright.transform.loop_fusion import Distribute, Fuse
from loopwright.transform.loop_marks import (
    Align,
    Parallel,
    ParallelChunks,
    PrefetchRows,
    Simd,
    Unroll,
)
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.plan import Plan, apply_plan, apply_steps, initial_schedule
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.schedule_legality import open_bands
from loopwright.transform.skew import Skew, smallest_skew
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile, TileWithin
from loopwright.transform.unroll_and_jam import UnrollAndJam
from loopwright.tuning.candidates import other_blocks, other_variants

__all__ = ["loop_neighbours"]

_MARKS = (Simd, Parallel, ParallelChunks, Align, PrefetchRows, PromoteToRegisters, Unroll)
# Numbers that are sizes; others name rows, parts and distances that the dependences decide.
_SIZES = {
    Skew: ("width", "block"),
    UnrollAndJam: ("factor",),
    Unroll: ("factor",),
    PrefetchRows: ("ahead",),
    PartialSums: ("size",),
}
_LEFT_ALONE = (Contract, Align, Simd, Parallel, PromoteToRegisters)
_WAVES = ((16, 2), (8, 4), (32, 1024), (16, 64), (32, 4096))  # passes and rows of a wave
_JAMS = (4, 2, 8)
_TILE_SIZES = (32, 64, 16, 128)
_MOST = 8  # steps of a kind that are tried
_MOST_VARIANTS = 24  # of the kernel of one contraction

_Steps = tuple[Step, ...]
_T = TypeVar("_T")


def loop_neighbours(plan: Plan, program: Program, machine: Machine, threads: int) -> Iterator[Plan]:
    """Legal plans for the loops of a program, around `plan` and from other starts."""
    seen = {plan}
    near = (
        _legal(program, _resized_plans(plan)),
        _legal(program, _with_kernels(plan, machine, threads)),
        _rebuilt(plan, program, machine, threads),
        _legal(program, _added(plan, program)),
    )
    far = (_legal(program, _shortened(plan)), _starts(program, machine, threads))
    # Without their kernels contractions take many times as long, and the budget with them.
    if any(isinstance(step, Contract | BlockClosure) for step in plan.steps):
        found: Iterator[Plan] = chain(_in_turns(*near), _in_turns(*far))
    else:
        found = _in_turns(*near, *far)
    for other in found:
        if other not in seen:
            seen.add(other)
            yield other


def _in_turns(*sources: Iterator[Plan]) -> Iterator[Plan]:
    remaining = list(sources)
    while remaining:
        for source in tuple(remaining):
            plan = next(source, None)
            if plan is None:
                remaining.remove(source)
            else:
                yield plan


def _legal(program: Program, sources: Iterable[_Steps]) -> Iterator[Plan]:
    for steps in sources:
        plan = Plan(steps)
        if _is_legal(program, plan):
            yield plan


# -- the same steps with other numbers ------------------------------------------------------------


def _resized_plans(plan: Plan) -> Iterator[_Steps]:
    """One size of one step doubled or halved; first sizes of all steps of a kind together."""
    for kind in dict.fromkeys(type(step) for step in plan.steps):
        own = [step for step in plan.steps if type(step) is kind]
        if len(own) > 1 and kind in _SIZES:
            for (_, double), (_, half) in zip(_pairs(own[0]), _pairs(own[0], 1, 2), strict=True):
                for changes in (double, half):
                    yield tuple(_changed(x, changes) if x in own else x for x in plan.steps)
    for k, step in enumerate(plan.steps):
        for changes in _resized(step):
            yield (*plan.steps[:k], _changed(step, changes), *plan.steps[k + 1 :])


def _pairs(step: Step, times: int = 2, by: int = 1) -> list[tuple[str, dict[str, Any]]]:
    names = _SIZES.get(type(step), ())
    return [(name, {name: max(1, getattr(step, name) * times // by)}) for name in names]


def _changed(step: Step, changes: dict[str, Any]) -> Step:
    try:
        return replace(step, **changes)
    except UsageError:
        return step


def _resized(step: Step) -> Iterator[dict[str, Any]]:
    if isinstance(step, _LEFT_ALONE):
        return
    known = _SIZES.get(type(step))
    for field in fields(step):
        value = getattr(step, field.name)
        if known is not None and field.name not in known:
            continue
        if type(value) is int and (value > 1 or known is not None):
            yield from ({field.name: size} for size in (value * 2, value // 2) if size)
        elif isinstance(value, tuple) and value and all(type(x) is int for x in value):
            if not isinstance(step, Tile | TileWithin | StripMine):
                continue
            whole = [tuple(max(1, x * a // b) for x in value) for a, b in ((2, 1), (1, 2))]
            single = [
                (*value[:k], max(1, value[k] * a // b), *value[k + 1 :])
                for k in range(len(value))
                for a, b in ((2, 1), (1, 2))
            ]
            yield from ({field.name: sizes} for sizes in (*whole, *single))


def _with_kernels(plan: Plan, machine: Machine, threads: int) -> Iterator[_Steps]:
    """Another kernel for one contraction of the plan."""
    for k, step in enumerate(plan.steps):
        if not isinstance(step, Contract) or not step.loops or len(step.variants) != 1:
            continue
        (variant,) = step.variants
        mc, nc, kc = step.blocks
        tried: list[dict[str, Any]] = [
            {"blocks": blocks} for blocks in islice(other_blocks((mc, nc, kc)), 6)
        ]
        others = islice(other_variants(variant, machine, threads), _MOST_VARIANTS)
        tried[1:1] = [{"variants": (other,)} for other in others]
        for changes in tried:
            yield (*plan.steps[:k], _changed(step, changes), *plan.steps[k + 1 :])


def _shortened(plan: Plan) -> Iterator[_Steps]:
    """Steps without one of them, and without all of one kind of marks."""
    for kind in (Align, PrefetchRows, UnrollAndJam):
        if sum(isinstance(step, kind) for step in plan.steps) > 1:
            yield tuple(step for step in plan.steps if not isinstance(step, kind))
    for k in range(len(plan.steps)):
        yield (*plan.steps[:k], *plan.steps[k + 1 :])


# -- one step more --------------------------------------------------------------------------------


def _rebuilt(plan: Plan, program: Program, machine: Machine, threads: int) -> Iterator[Plan]:
    """One more step on the loops as they are before the first mark, then the model's marks."""
    count = next((k for k, s in enumerate(plan.steps) if isinstance(s, _MARKS)), len(plan.steps))
    prefix = plan.steps[:count]
    schedule = _bounded(lambda: apply_plan(program, Plan(prefix)))
    if schedule is None:
        return
    has_waves = any(isinstance(step, Skew) for step in prefix)
    kinds: list[Iterator[Step]] = [] if has_waves else [_waves(schedule)]
    jammed = {step.loop for step in prefix if isinstance(step, UnrollAndJam)}
    kinds += [
        _jams(schedule, jammed),
        iter(islice(Interchange.candidates(schedule), _MOST)),
        iter(islice(Fuse.candidates(schedule), _MOST)),
        iter(islice(Distribute.candidates(schedule), _MOST)),
        _tiles(schedule),
        iter(islice(PartialSums.candidates(schedule), _MOST)),
    ]
    yield from _in_turns(
        *(_marked_each(schedule, prefix, kind, machine, threads) for kind in kinds)
    )


def _waves(schedule: Schedule) -> Iterator[Step]:
    """Waves over several passes of a loop."""
    for loop in [band.loop for band in open_bands(schedule)]:
        skew = _bounded(lambda loop=loop: smallest_skew(schedule, loop, 16, apart=False))  # type: ignore[misc]
        if skew is not None and skew.slope:
            yield from (replace(skew, block=block, width=width) for block, width in _WAVES)


def _jams(schedule: Schedule, jammed: set[str]) -> Iterator[Step]:
    loops = [step.loop for step in UnrollAndJam.candidates(schedule)]
    for factor in _JAMS:
        for loop in dict.fromkeys(loops):
            if loop not in jammed:
                yield UnrollAndJam(loop, factor)


def _tiles(schedule: Schedule) -> Iterator[Step]:
    for size in _TILE_SIZES:
        for loops in islice(open_chains(schedule), 4):
            if len(loops) > 1:
                yield Tile(loops, (size,) * len(loops))


def _added(plan: Plan, program: Program) -> Iterator[_Steps]:
    """One more mark after all others."""
    schedule = _bounded(lambda: apply_plan(program, plan))
    if schedule is None:
        return
    fetches = list(PrefetchRows.candidates(schedule))
    ahead = dict.fromkeys(step.ahead for step in fetches)
    for distance in ahead:
        own = tuple(step for step in fetches if step.ahead == distance)
        if len(own) > 1:
            yield (*plan.steps, *own)
    unrolled = (step for step in Unroll.candidates(schedule) if step.factor < 8)
    for step in (*fetches, *islice(unrolled, _MOST)):
        yield (*plan.steps, step)


def _starts(program: Program, machine: Machine, threads: int) -> Iterator[Plan]:
    """One step on the loops of the source, or none, and the model's marks after it."""
    source = initial_schedule(program)
    firsts: list[_Steps] = [()]
    firsts += [(step,) for step in _tiles(source)]
    for kind in (Fuse, Distribute, Interchange):
        firsts += [(step,) for step in islice(kind.candidates(source), _MOST)]
    for steps in firsts:
        found = _marked(source, (), steps, machine, threads)
        if found is not None:
            yield found


def _marked_each(
    schedule: Schedule,
    prefix: _Steps,
    steps: Iterator[Step],
    machine: Machine,
    threads: int,
) -> Iterator[Plan]:
    for step in steps:
        found = _marked(schedule, prefix, (step,), machine, threads)
        if found is not None:
            yield found


def _marked(
    schedule: Schedule, prefix: _Steps, steps: _Steps, machine: Machine, threads: int
) -> Plan | None:
    """The plan of `prefix`, which makes `schedule`, then some steps, then the model's marks."""

    def made() -> Plan:
        draft = Draft(apply_steps(schedule, steps))
        for planner in (plan_marks, plan_alignment, plan_fetches):
            draft.take(*planner(draft.schedule, machine, parallel=threads > 1))
        return Plan((*prefix, *steps, *draft.steps))

    return _bounded(made)


# -- limits of isl --------------------------------------------------------------------------------


def _is_legal(program: Program, plan: Plan) -> bool:
    return _bounded(lambda: bool(apply_plan(program, plan))) is True


def _bounded(made: Callable[[], _T]) -> _T | None:
    """What is made within the quota of isl; None where that does not do, or a step is illegal."""
    try:
        return bounded(made, _none, ISL_QUOTA)
    except (IllegalStep, UsageError, *FAULTS):
        return None


def _none(error: GaveUp) -> None:
    return None
