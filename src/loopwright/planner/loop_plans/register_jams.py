"""Several rows of integer sums at a time: loops around one that gathers, unrolled into it.

    for i: for j: s = 0; for l: s += a[i, l] * b[j, l]
->  for i in steps of 4: for j: four sums, whose rows of a share every element of b

Compilers gather sums and extremes of integers in vectors along the innermost loop, in any order,
and load all operands for every one of them. Copies for neighbouring iterations of a loop around
share what that loop does not move, in registers and on its way from the caches. Which loops are
unrolled, and how often, the price of the whole schedule says (planner/cost/schedule_cost).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from loopwright.analysis.size_estimates import references
from loopwright.ir.machine import Machine
from loopwright.ir.program import Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, moved_by, nodes_of, path_to
from loopwright.planner.cost.carried_values import carried_cycles
from loopwright.planner.cost.expanded_bytes import BufferShare, Spread
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.shared_copies import shares_rows
from loopwright.transform.scalar_expansion import ExpandScalar, fewest_expanded_loops
from loopwright.transform.step import Step
from loopwright.transform.unroll_and_jam import UnrollAndJam

__all__ = ["register_jams"]

_FACTORS = (2, 4)
_MOST_LOOPS = 2
_MOST_VARIABLES = 4  # of an iteration: each copy has its own, and proofs of it take isl's time
_MOST_COPIES = 8  # sums at a time: each is a vector register, and so are the operands
_WORTH = 0.9  # of the time of the schedule as it is


def register_jams(
    schedule: Schedule,
    machine: Machine,
    most: Spread,
    share: BufferShare,
    taken: Collection[str],
) -> tuple[Step, ...]:
    """Steps that unroll loops around integer sums into them; none where that does not pay.

    Scalars may be spread over the loops of `most`, as far as caches have room for them; `taken`
    statements belong to others.
    """
    tree = nodes_of(schedule)
    for inner in bands(tree):
        if inner.statements & set(taken) or not _gathers(schedule, inner, machine):
            continue
        around = path_to(tree, inner.loop)[:-1]
        loops = [band.loop for band in around if shares_rows(schedule.program, band, inner)]
        steps = _best(schedule, machine, loops, most, share)
        if steps:
            return steps
    return ()


def _best(
    schedule: Schedule, machine: Machine, loops: list[str], most: Spread, share: BufferShare
) -> tuple[Step, ...]:
    """The best of some loops unrolled into the innermost one, with the next best or alone."""
    steps: tuple[Step, ...] = ()
    jams: tuple[UnrollAndJam, ...] = ()
    best = schedule_seconds(schedule, machine, share.sizes, text=True) if loops else math.nan
    while len(jams) < _MOST_LOOPS:
        offers: list[tuple[float, int, UnrollAndJam, tuple[Step, ...]]] = []
        for jam in _further(loops, jams):
            draft = _with_copies(schedule, (*jams, jam), most, share)
            if draft is not None:
                price = schedule_seconds(draft.schedule, machine, share.sizes, text=True)
                offers.append((price, len(offers), jam, tuple(draft.steps)))
        if not offers or not min(offers)[0] < _WORTH * best:
            break
        best, _, jam, steps = min(offers)
        jams = (*jams, jam)
    return steps


def _further(loops: list[str], jams: tuple[UnrollAndJam, ...]) -> Iterator[UnrollAndJam]:
    """One more loop, as often as registers allow."""
    copies = math.prod(jam.factor for jam in jams)
    for loop in loops:
        if all(jam.loop != loop for jam in jams):
            yield from (UnrollAndJam(loop, n) for n in _FACTORS if n * copies <= _MOST_COPIES)


def _with_copies(
    schedule: Schedule, jams: tuple[UnrollAndJam, ...], most: Spread, share: BufferShare
) -> Draft | None:
    """The schedule with loops unrolled into others and the copies of scalars that these need."""
    free = Draft(schedule)
    if not free.take(*(ExpandScalar(name, loops) for name, loops in most.items()), *jams):
        return None
    tree = free.schedule.tree
    needed = {
        name: fewest_expanded_loops(schedule.analyses, name, loops, tree)
        for name, loops in most.items()
    }
    needed = {name: loops for name, loops in needed.items() if loops}
    draft = Draft(schedule)
    if not share.has_room(needed):
        return None
    spreads = (ExpandScalar(name, loops) for name, loops in needed.items())
    return draft if draft.take(*spreads, *jams) else None


def _gathers(schedule: Schedule, inner: Band, machine: Machine) -> bool:
    """Whether an innermost loop only gathers integers into elements that it does not move."""
    if any(True for _ in bands(inner.child)):
        return False
    program, moving = schedule.program, moved_by(inner, schedule.program)
    statements = [s for s in program.statements if s.name in inner.statements]
    if not all(s.write.dtype.is_integer for s in statements):
        return False
    if any(_moves(s, moving.get(s.name, "")) for s in statements):
        return False
    if len({s.write.array for s in statements}) > _MOST_VARIABLES:
        return False
    has_sums = any(s.write in s.reads for s in statements)
    return has_sums and not carried_cycles(statements, moving, machine)


def _moves(statement: Statement, iterator: str) -> bool:
    """Whether a loop writes another element in every iteration."""
    return any(r.is_written and r.stride(iterator) for r in references(statement))
