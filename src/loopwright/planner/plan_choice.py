"""Which plan a program gets: the planners' own, marks on its loops, or the order of its source.

All are priced by one closed form (cost/schedule_cost) at likely sizes. A plan that changes the
order of loops, copies them or takes them out is taken only where it is expected to take at most
0.95 of the time of the source order: what is nearly as fast there is also surer, shorter and sooner
compiled. On several threads it must not be much slower on one, either. Where it is not worth it,
the planner's marks on the loops of the source are taken, which write short loops out, or those of
the source order where these are expected to be faster. A plan that only marks the loops of the
source is taken as it is, and one that has no price (blocked closures, diagonals) is trusted.

Sizes that nobody knows are guessed as equal, and arrays are often long and narrow instead. A plan
that is not slower at the guess is therefore also taken where it is never slower at the other shapes
of as many elements and at most 0.95 of the time of the source order in their mean.

Several threads are to be faster than one. With P(S, T) the price of a schedule S on T threads, S
for T threads and A the plan for one, A is taken where P(S, T) > 0.9 P(A, 1) at the likely sizes
and, where sizes are guessed, at larger ones and at other shapes. A is made only where that may be:
where the price of S itself falls by less than a tenth, where S has none (waves), or where passes
would go in waves on one thread only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from loopwright.analysis.size_estimates import bounded_sizes, likely_sizes, other_shapes
from loopwright.diagnostics import UsageError
from loopwright.faults import survive
from loopwright.ir.islkit import bounded
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.draft import Draft
from loopwright.planner.generic import composed_plan, extend_plan
from loopwright.planner.guard import OnFault, guarded
from loopwright.planner.loop_plans.fetches import plan_fetches
from loopwright.planner.loop_plans.short_loops import has_short_loops
from loopwright.planner.loop_plans.stencils import plan_alignment, plan_stencils
from loopwright.planner.region_work import plan_regions
from loopwright.planner.source_order import source_order
from loopwright.transform.distance_splitting import SplitByDistance
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import (
    Align,
    Parallel,
    ParallelChunks,
    PrefetchRows,
    ShareFrom,
    Simd,
    Unroll,
)
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.plan import Plan
from loopwright.transform.privatize import Privatize
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.reschedule import Reschedule
from loopwright.transform.scalar_expansion import SplitLiveRanges
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.skew import Skew
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile

__all__ = ["DECLINED", "PLANNED", "SOURCE", "PlanChoice", "choose_plan", "expected_seconds"]

_WORTH = 0.95  # of the time of the source order: what a plan may take
_ALONE = 1.1  # times that of the source order: what a plan for several threads may take on one
_ALONE_IN_WAVES = 1.5  # likewise, of C in waves: two threads gain more than that
_GAIN = 0.9  # of the time of the plan for one thread: what a plan for several may take
_LARGER = 4  # times a guessed size: where threads may gain that do not at the guess
_AS_GOOD = 1.02  # times that of the source order: what marks on its loops may take
# What makes no other order: pieces for threads and their sums are marks as well.
_MARKS = (
    Align,
    Parallel,
    ParallelChunks,
    PartialSums,
    PrefetchRows,
    Privatize,
    PromoteToRegisters,
    ShareFrom,
    Simd,
    SplitByDistance,
    SplitLiveRanges,
    StripMine,
    Unroll,
)
_FOR_THREADS = (Parallel, ParallelChunks, ShareFrom)
_QUOTA = 1_000_000  # elementary isl operations, half a second

PLANNED, MARKED, SOURCE = "the plan", "its marks alone", "the source order"
ALONE = "the plan for one thread"
DECLINED = "the declined plan"  # what all planners have made, where it is not taken


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """A plan, its schedule, and what those that were weighed are expected to take."""

    plan: Plan
    schedule: Schedule
    taken: str
    seconds: tuple[tuple[str, float], ...]  # NaN where nothing is known; empty: nothing was weighed
    declined: tuple[Plan, Schedule] | None = None  # what all planners have made, where not taken

    def __str__(self) -> str:
        if not self.seconds:
            return f"{self.taken}: it only marks the loops of the source, and nothing was weighed"
        known = ", ".join(f"{name} {_time(value)}" for name, value in self.seconds)
        return f"{self.taken} is taken: {known}"


def choose_plan(
    program: Program,
    machine: Machine,
    threads: int,
    *,
    text: bool = False,
    on_fault: OnFault = survive,
) -> PlanChoice:
    """The plan of a program for a machine, run by so many threads; `text`: printed as C."""
    chosen = _weighed(program, machine, threads, text=text, on_fault=on_fault)
    if threads > 1:
        chosen = _or_alone(program, chosen, machine, threads, text=text, on_fault=on_fault)
    if chosen.seconds:
        log("plan", lambda: f"of '{program.name}' {chosen}")
    return chosen


def _weighed(
    program: Program, machine: Machine, threads: int, *, text: bool, on_fault: OnFault
) -> PlanChoice:
    """The fastest of the plan, marks on the loops of the source, and its order."""
    start = initial_schedule(program)
    made = composed_plan(start, machine, parallel=threads > 1, text=text, on_fault=on_fault)
    plan, schedule, start = made.plan, made.schedule, made.start
    if all(isinstance(step, _MARKS) for step in plan):
        return PlanChoice(plan, schedule, PLANNED, ())
    sizes = likely_sizes(program)
    price = partial(expected_seconds, machine=machine, sizes=sizes, threads=threads, text=text)
    own = price(schedule)
    if math.isnan(own):
        chosen = PlanChoice(plan, schedule, PLANNED, ((PLANNED, own),))
        # Compilers of C find fewer vectors in the loops of the source than prices expect.
        return chosen if text else _unpriced(start, chosen, machine, threads, price)
    source = source_order(program, machine, threads, start=start)
    written, base = source[1], price(source[1])
    is_worth_it = math.isnan(base) or own <= _WORTH * base
    if not is_worth_it and own <= base:
        is_worth_it = _pays_elsewhere(schedule, written, partial(price, threads=1))
    if is_worth_it and threads > 1:
        # C for several threads runs on one as well.
        is_worth_it = not price(schedule, threads=1) > _ALONE * price(written, threads=1)
    if is_worth_it:
        chosen = PlanChoice(plan, schedule, PLANNED, ((PLANNED, own), (SOURCE, base)))
        if threads > 1 and not _is_shared(schedule):
            # Another order that leaves threads nothing to do, where marks alone may.
            other = _without_order(start, source, machine, threads, price, (own, base), text=text)
            if _is_shared(other.schedule) and not price(other.schedule) > own:
                chosen = replace(other, declined=(plan, schedule))
        elif not schedule.contractions and has_short_loops(start):
            # Loops that are written out may leave nothing to gain by another order.
            other = _without_order(start, source, machine, threads, price, (own, base), text=text)
            if other.taken == MARKED and price(other.schedule) <= _WORTH * own:
                chosen = replace(other, declined=(plan, schedule))
    else:
        chosen = _without_order(start, source, machine, threads, price, (own, base), text=text)
        if threads > 1 and _is_ahead(price, schedule, chosen.schedule):
            # Declined for its time on one thread, of which the others take more.
            return replace(chosen, plan=plan, schedule=schedule, taken=PLANNED)
        chosen = replace(chosen, declined=(plan, schedule))
    return chosen


def _is_ahead(price: Callable[..., float], schedule: Schedule, than: Schedule) -> bool:
    """Whether a schedule is faster than another one on all threads, and not slower on one."""
    is_faster = price(schedule) <= _WORTH * price(than)
    return is_faster and price(schedule, threads=1) <= price(than, threads=1)


def _or_alone(
    program: Program,
    chosen: PlanChoice,
    machine: Machine,
    threads: int,
    *,
    text: bool,
    on_fault: OnFault,
) -> PlanChoice:
    """A plan for several threads, or the one for one thread where that is about as fast.

    What shares a loop of unknown size is trusted where threads gain by it at longer ones than were
    guessed. Loops in waves have no price; they take at least the share of a thread in the same
    loops without waves.
    """
    price = partial(expected_seconds, machine=machine, text=text)
    shapes = bounded(partial(_sizes_to_ask, program), lambda _: None, _QUOTA)
    if shapes is None:
        return chosen

    def on_all(plan: PlanChoice) -> tuple[float, list[float]]:
        """Seconds on all threads, at likely sizes and all that are asked for."""
        found = [price(plan.schedule, sizes=sizes, threads=threads) for sizes in shapes]
        likely = found[0]
        if all(map(math.isnan, found)):
            plain = _without_waves(program, plan, machine)
            found = [price(plain, sizes=sizes, threads=1) / threads for sizes in shapes]
        return likely, found

    def gains(shared: list[float], alone: Schedule) -> bool:
        single = [price(alone, sizes=sizes, threads=1) for sizes in shapes]
        return any(not a > _GAIN * b for a, b in zip(shared, single, strict=True))

    likely, shared = on_all(chosen)
    is_priced = not math.isnan(likely)
    if (
        is_priced
        and gains(shared, chosen.schedule)
        and not _goes_in_waves_alone(program, chosen, machine)
    ):
        return chosen
    one = _weighed(program, machine, 1, text=text, on_fault=on_fault)
    if gains(shared, one.schedule):
        return chosen
    if not is_priced:
        # Rows beside each other may cost a wave what one thread keeps without them.
        start = initial_schedule(program)
        marks = _extended(start, partial(extend_plan, parallel=True, text=text), machine)
        other = PlanChoice(*_finished(*marks, machine, threads), MARKED, chosen.seconds)
        price_of_marks, on_threads = on_all(other)
        is_in_waves = math.isnan(price_of_marks) and _is_shared(other.schedule)
        if is_in_waves and gains(on_threads, one.schedule):
            return replace(other, declined=(chosen.plan, chosen.schedule))
    seconds = (
        *chosen.seconds,
        (f"on {threads} threads", likely),
        (ALONE, price(one.schedule, sizes=shapes[0], threads=1)),
    )
    return PlanChoice(
        one.plan, one.schedule, ALONE, seconds, declined=(chosen.plan, chosen.schedule)
    )


def _without_waves(program: Program, chosen: PlanChoice, machine: Machine) -> Schedule:
    """What the steps of a plan make of its loops, but for what shares them and for waves.

    Waves are orders (`reschedule`) of tiles or of blocks, whose loops are then shared.
    """
    steps = tuple(chosen.plan)
    shares = [at for at, step in enumerate(steps) if isinstance(step, _FOR_THREADS)]
    orders = [at for at, step in enumerate(steps) if isinstance(step, (Tile, Reschedule))]
    waves = [at for at in orders if isinstance(steps[at], Tile) or at + 1 in shares]
    first = min(waves, default=len(steps))
    schedule = initial_schedule(program)
    for at, step in enumerate(steps):
        # Loops are interchanged for waves as well.
        is_wave = isinstance(step, (Tile, Reschedule)) and at >= first
        if at not in shares and not is_wave and not isinstance(step, Interchange):
            _, schedule = _extended(schedule, lambda *_, step=step: (step,), machine)
    return schedule


def _in_tiles(plan: Plan, start: Schedule, machine: Machine) -> Schedule:
    """What the steps of a plan make of loops, tiles one behind the other in place of waves.

    One thread reads a tile once in either order, which prices of waves do not see.
    """
    steps = tuple(plan)
    tiles = [at for at, step in enumerate(steps) if isinstance(step, Tile)]
    schedule = start
    for at, step in enumerate(steps):
        is_order = isinstance(step, Reschedule) and bool(tiles) and at > tiles[0]
        if not is_order and not isinstance(step, _FOR_THREADS):
            _, schedule = _extended(schedule, lambda *_, step=step: (step,), machine)
    return schedule


def _sizes_to_ask(program: Program) -> list[dict[str, int]]:
    """Likely sizes, and where they are guessed larger ones and those of other shapes."""
    likely, known = likely_sizes(program), bounded_sizes(program)
    larger = {x: size if x in known else _LARGER * size for x, size in likely.items()}
    return [likely] if larger == likely else [likely, larger, *other_shapes(program)]


def _goes_in_waves_alone(program: Program, chosen: PlanChoice, machine: Machine) -> bool:
    """Whether one thread would take passes over rows in waves, which threads do not."""
    if any(isinstance(step, Skew) for step in chosen.plan):
        return False
    start = initial_schedule(program)
    waves, _ = _extended(start, partial(plan_stencils, parallel=False), machine)
    return any(isinstance(step, Skew) for step in waves)


def _pays_elsewhere(schedule: Schedule, written: Schedule, price: Callable[..., float]) -> bool:
    """Whether a plan pays in the mean of other shapes than the guessed one, and loses at none."""
    shapes = other_shapes(written.program)
    shares = [price(schedule, sizes=sizes) / price(written, sizes=sizes) for sizes in shapes]
    if not shares or not all(share <= 1 for share in shares):
        return False
    return math.prod(shares) ** (1 / len(shares)) <= _WORTH


def _is_shared(schedule: Schedule) -> bool:
    """Whether threads share a loop, or what stands in the place of loops: it shares its own."""
    whole = (*schedule.contractions, schedule.closure, schedule.time_tiles)
    is_marked = any(mark is Mark.PARALLEL for _, mark in schedule.marks)
    return is_marked or any(part is not None for part in whole)


def _unpriced(
    start: Schedule,
    chosen: PlanChoice,
    machine: Machine,
    threads: int,
    price: Callable[..., float],
) -> PlanChoice:
    """A plan without a price, or marks on the loops of the source.

    Of two that both go in waves the one is taken that is expected to be faster on one thread.
    """
    alone = price(chosen.schedule, threads=1)
    if threads == 1 or math.isnan(alone):
        return chosen
    marked, marks = _extended(start, partial(extend_plan, parallel=True), machine)
    if not math.isnan(price(marks)) or not _ALONE * price(marks, threads=1) < alone:
        return chosen
    seconds = (*chosen.seconds, (MARKED, math.nan))
    return PlanChoice(
        *_finished(marked, marks, machine, threads),
        MARKED,
        seconds,
        declined=(chosen.plan, chosen.schedule),
    )


def _without_order(
    start: Schedule,
    source: tuple[Plan, Schedule],
    machine: Machine,
    threads: int,
    price: Callable[..., float],
    known: tuple[float, float],
    *,
    text: bool,
) -> PlanChoice:
    """Marks on the loops of the source, by the planner or as they are.

    `known` are the prices of the plan and of the source order. Short loops that are written out
    are, to a compiler, the loops themselves. Marks that have no price (waves) are trusted as plans
    are, in C where one thread alone is not expected to be slower by them.
    """
    planner = partial(extend_plan, parallel=threads > 1, text=text)
    marked, marks = _extended(start, planner, machine)
    own, base = known
    value = price(marks)
    most = _AS_GOOD if all(isinstance(step, _MARKS) for step in marked) else _WORTH
    seconds = ((PLANNED, own), (MARKED, value), (SOURCE, base))
    is_trusted = math.isnan(value) and (
        not text
        or price(_in_tiles(marked, start, machine), threads=1)
        <= _ALONE_IN_WAVES * price(source[1], threads=1)
    )
    if is_trusted or value <= most * base:
        return PlanChoice(*_finished(marked, marks, machine, threads), MARKED, seconds)
    return PlanChoice(*_finished(*source, machine, threads), SOURCE, seconds)


def expected_seconds(
    schedule: Schedule,
    *,
    machine: Machine,
    sizes: dict[str, int],
    threads: int,
    text: bool = False,
) -> float:
    """Seconds that a schedule is expected to take; NaN where nobody knows."""
    price = partial(schedule_seconds, schedule, machine, sizes, threads, text=text)
    try:
        return guarded(price, lambda: math.nan, "the price", schedule.program, _QUOTA)
    except UsageError:
        return math.nan  # the machine's table has no such operation


def _extended(
    schedule: Schedule, planner: Callable[..., Iterable[Step]], machine: Machine
) -> tuple[Plan, Schedule]:
    """What one planner makes of a schedule; nothing where it gives up or fails."""

    def taken() -> tuple[Plan, Schedule]:
        draft = Draft(schedule)
        draft.take(*planner(schedule, machine))
        return Plan(tuple(draft.steps)), draft.schedule

    return guarded(taken, lambda: (Plan(()), schedule), "the marks", schedule.program, _QUOTA)


def _finished(
    plan: Plan, schedule: Schedule, machine: Machine, threads: int
) -> tuple[Plan, Schedule]:
    """Marked loops with vectors that are stored whole and rows that are asked for early."""
    for planner in (plan_alignment, plan_fetches, plan_regions):
        more, schedule = _extended(schedule, partial(planner, parallel=threads > 1), machine)
        plan = Plan((*plan, *more))
    return plan, schedule


def _time(seconds: float) -> str:
    return "unknown" if math.isnan(seconds) else f"{1e3 * seconds:.3g} ms"
