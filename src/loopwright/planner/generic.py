"""A plan for any affine program: vector loops along memory, the outermost free loop to threads.

No model of the machine is asked but for the number of lanes. Every step is tried and kept only
when it is legal, so the plan is legal by construction; for a program without freedom it is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from loopwright.diagnostics import IllegalStep
from loopwright.ir.expr import Expr, Var
from loopwright.ir.program import Access, Program, Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import walk
from loopwright.lower.linear import linear
from loopwright.transform.legal import initial_schedule, open_bands
from loopwright.transform.mark import Parallel, Vectorize
from loopwright.transform.plan import Plan
from loopwright.transform.privatize import Privatize
from loopwright.transform.reorder import Interchange
from loopwright.transform.step import Step
from loopwright.transform.tile import StripMine
from loopwright.transform.tree import Band, bands, chain, directions, read_tree

__all__ = ["HasLanes", "default_plan", "extend_plan"]

# Iterations that one thread takes at a time where a vector loop is itself shared out: enough to
# hide the cost of dealing out, few enough for all threads to get some.
_STRIP = 1024
# Serial loops that may stand around a parallel one: each of their iterations costs a barrier.
_MOST_SERIAL = 1


class HasLanes(Protocol):
    """What this planner needs to know of a machine."""

    def lanes(self, dtype_bits: int) -> int:
        """How many elements of `dtype_bits` bits one vector register holds."""


def default_plan(program: Program, machine: HasLanes, *, parallel: bool = False) -> Plan:
    """A legal plan for `program`; `parallel` says whether it will run on several threads."""
    return Plan(extend_plan(initial_schedule(program), machine, parallel=parallel))


def extend_plan(
    schedule: Schedule, machine: HasLanes, *, parallel: bool = False
) -> tuple[Step, ...]:
    """Steps for the loops of `schedule` that belong to no contraction core."""
    draft = _Draft(schedule)
    found = [_vector_step(draft, nest, machine) for nest in _innermost(schedule)]
    vectors = [step for step in found if step is not None]
    if parallel:
        _share_out(draft, {step.loop for step in vectors})
    for step in vectors:
        draft.take(step)
    return tuple(draft.steps)


class _Draft:
    """The steps taken so far and the schedule they lead to."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.steps: list[Step] = []

    def take(self, *steps: Step) -> bool:
        """Take the steps if all of them are legal."""
        after = self.reach(*steps)
        if after is None:
            return False
        self.schedule = after
        self.steps += steps
        return True

    def reach(self, *steps: Step) -> Schedule | None:
        """The schedule that the steps lead to; None when one of them is illegal."""
        schedule = self.schedule
        try:
            for step in steps:
                schedule = step.apply(schedule)
        except IllegalStep:
            return None
        return schedule


def _innermost(schedule: Schedule) -> list[tuple[Band, ...]]:
    """The runs of perfectly nested loops that hold no other loops."""
    longest: dict[str, tuple[Band, ...]] = {}
    for band in open_bands(schedule):
        run = chain(band)
        if not _holds_loops(run):
            longest.setdefault(run[-1].loop, run)
    return list(longest.values())


def _holds_loops(run: tuple[Band, ...]) -> bool:
    return any(True for _ in bands(run[-1].child))


def _vector_step(draft: _Draft, nest: tuple[Band, ...], machine: HasLanes) -> Vectorize | None:
    """The loop of a nest to vectorise; the interchange that it needs is taken at once."""
    program = draft.schedule.program
    statements = [program.statement(name) for name in sorted(nest[-1].statements)]
    accesses = [a for s in statements for a in (s.write, *s.reads)]
    if any(access.dtype.is_complex for access in accesses):
        return None
    lanes = machine.lanes(max(access.dtype.bits for access in accesses))
    if lanes < 2:
        return None
    scalars = {a.name for a in program.arrays if a.role is Role.LOCAL and a.rank == 0}
    costs = {band.loop: _stride_cost(band, statements, scalars) for band in nest}
    names = [band.loop for band in nest]
    # Innermost first: of equal loops the one that needs no interchange.
    usable = [name for name in reversed(names) if costs[name] is not None]
    for loop in sorted(usable, key=lambda name: costs[name] or 0):
        inner = names[names.index(loop) + 1 :]
        moves: list[Step] = [Interchange((*inner, loop))] if inner else []
        step = Vectorize(loop, lanes)
        copies = _copies(draft, moves, loop)
        if draft.reach(*moves, *copies, step) is not None and draft.take(*moves, *copies):
            return step
    return None


def _copies(draft: _Draft, moves: list[Step], loop: str) -> list[Step]:
    """The local arrays of which every iteration of `loop` may have its own copy after `moves`."""
    schedule = draft.reach(*moves)
    if schedule is None:
        return []
    offered = [step for step in Privatize.candidates(schedule) if step.loop == loop]
    return [step for step in offered if draft.reach(*moves, step) is not None]


def _stride_cost(band: Band, statements: list[Statement], scalars: set[str]) -> int | None:
    """How many elements of memory one step of a loop touches; None when vectors do not pay.

    They pay when the elements of all lanes are neighbours, or one element for all lanes that is
    only read; local `scalars` may be written, each lane will have its own.
    """
    order = directions(band)
    cost = 0
    for statement in statements:
        position, direction = order.get(statement.name, (0, 0))
        if direction != 1:
            return None
        iterator = statement.iterators[position]
        written = _stride(statement.write, iterator)
        if written != 1 and statement.write.array not in scalars:
            return None
        read = [_stride(access, iterator) for access in statement.reads]
        if None in read:
            return None
        cost += [written, *read].count(1)
    return cost or None


def _stride(access: Access, iterator: str) -> int | None:
    """0: the same element for all lanes, 1: neighbours, None: elements elsewhere."""
    if not any(_mentions(entry, iterator) for entry in access.index):
        return 0
    *outer, last = access.index
    if any(_mentions(entry, iterator) for entry in outer):
        return None
    terms = linear(last).terms
    is_unit = dict(terms).get(Var(iterator)) == 1
    others = (atom for atom, _ in terms if atom != Var(iterator))
    return 1 if is_unit and not any(_mentions(atom, iterator) for atom in others) else None


def _mentions(expr: Expr, name: str) -> bool:
    return any(isinstance(x, Var) and x.name == name for x in walk(expr))


def _share_out(draft: _Draft, vectors: set[str]) -> None:
    """Mark the outermost loop of every nest that may be parallel."""
    done: set[str] = set()
    for band, depth in _with_depth(draft.schedule):
        if band.loop in done or depth > _MOST_SERIAL:
            continue
        if _take_parallel(draft, band.loop, is_vector=band.loop in vectors):
            done.update(inner.loop for inner in bands(band))


def _take_parallel(draft: _Draft, loop: str, *, is_vector: bool) -> bool:
    if not is_vector:
        return draft.take(*_copies(draft, [], loop), Parallel(loop))
    strips = StripMine(loop, _STRIP)
    before = {band.loop for band in bands(read_tree(draft.schedule.tree))}
    after = draft.reach(strips)
    assert after is not None, "a strip-mined loop keeps its order"
    (outer,) = {band.loop for band in bands(read_tree(after.tree))} - before
    return draft.take(strips, Parallel(outer))


def _with_depth(schedule: Schedule) -> Iterator[tuple[Band, int]]:
    """Every open loop with the number of loops around it, outer ones first."""
    around: dict[str, int] = {}
    for band in open_bands(schedule):
        depth = around.setdefault(band.loop, 0)
        for inner in bands(band.child):
            around[inner.loop] = depth + 1
        yield band, depth
