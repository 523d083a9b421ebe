"""Loops of which one part is independent and another one is not: each gets a loop of its own.

    for i: x = long(i); s += x        a sum of fixed order behind work that knows no order
    ->  for strips of i:
            parallel for i: x[i] = long(i)
            for i: s += x[i]

Strips are as long as what they touch fits into half of L2, so that the second part finds it there;
scalars that go from one part to the other have an element for every iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from loopwright.analysis.size_estimates import references
from loopwright.ir.machine import Machine
from loopwright.ir.program import Role
from loopwright.ir.schedule_tree import (
    Band,
    Sequence,
    bands,
    moved_by,
    nodes_of,
    statements_in,
)
from loopwright.planner.cost.expanded_bytes import BufferShare
from loopwright.planner.draft import Draft
from loopwright.transform.loop_fusion import DistributeStatements
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.scalar_expansion import ExpandScalar
from loopwright.transform.schedule_legality import accessors
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine

__all__ = ["part_off", "strip_size"]

_MOST_PARTS = 8  # of a body that are looked at: proofs take isl's time
_SHARE = 0.3  # of the work that is in the independent part
_LEAST, _MOST, _UNIT = 64, 4096, 16  # iterations of a strip
_LEAST_UNKNOWN = 1024  # likewise where the lengths of rows are not known: short ones cost meetings
_BUFFER_SHARE = 4  # a scalar's elements may take this part of the last cache


def part_off(
    draft: Draft,
    machine: Machine,
    band: Band,
    work: Callable[[frozenset[str]], float],
    size: int,
    longest: int = 0,
) -> bool:
    """Part the independent statements of a loop's body from the others, and share them out.

    `work` tells how much of it statements have; `size` is the length of a strip, 0 for all. Where
    both parts read the same rows, all is cut after `longest` iterations, if that is not 0.
    """
    if not isinstance(band.child, Sequence) or len(band.child.filters) > _MOST_PARTS:
        return False
    groups = [statements_in(branch.instances) for branch in band.child.filters]
    if sum(map(len, groups)) > len(band.statements):
        return False  # a statement stands in several parts, some of its instances in each
    whole = work(band.statements)
    for first, rest, is_first in _halves(groups):
        if work(first if is_first else rest) < _SHARE * whole:
            continue
        spread = _spread(draft, machine, band, first, rest)
        if spread is None:
            continue
        length = size or (longest if _read_again(draft, band, first, rest) else 0)
        cut = (StripMine(band.loop, length),) if length else ()
        ordered = (*sorted(first), *sorted(rest))
        parted = DistributeStatements(band.loop, ordered, (len(first), len(rest)))
        trial = Draft(draft.schedule)
        if not trial.take(*spread, *cut, parted):
            continue
        own = first if is_first else rest
        loop = next(b for b in bands(nodes_of(trial.schedule)) if b.statements == own)
        if trial.take(Parallel(loop.loop)) or trial.take(*trial.copies(loop), Parallel(loop.loop)):
            return draft.take(*trial.steps)
    return False


def _read_again(draft: Draft, band: Band, first: frozenset[str], rest: frozenset[str]) -> bool:
    """Whether two parts of a loop's body read the same rows, along a loop inside."""
    moved = moved_by(band, draft.schedule.program)

    def rows(names: frozenset[str]) -> set[str]:
        found: set[str] = set()
        for name in names:
            for walk in references(draft.schedule.program.statement(name)):
                moving = {iterator for entry in walk.subscripts for iterator, _ in entry}
                if not walk.is_written and moved.get(name) in moving and len(moving) > 1:
                    found.add(walk.array)
        return found

    return bool(rows(first) & rows(rest))


def _halves(
    groups: list[frozenset[str]],
) -> Iterator[tuple[frozenset[str], frozenset[str], bool]]:
    """Two runs of parts, and whether the first is the independent one: the longest come first."""
    for at in range(len(groups) - 1, 0, -1):
        yield _union(groups[:at]), _union(groups[at:]), True
    for at in range(1, len(groups)):
        yield _union(groups[:at]), _union(groups[at:]), False


def _union(groups: list[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*groups)


def _spread(
    draft: Draft, machine: Machine, band: Band, first: frozenset[str], rest: frozenset[str]
) -> tuple[Step, ...] | None:
    """Steps for the scalars that both parts use; None where they would be too large."""
    program = draft.schedule.program
    moved = moved_by(band, program)
    share = BufferShare(program, machine)
    room = machine.caches[-1].size // _BUFFER_SHARE
    steps: list[Step] = []
    for array in program.arrays:
        users = accessors(draft.schedule.analyses, array.name)
        if array.role is not Role.LOCAL or array.rank or not (users & first and users & rest):
            continue
        along = {moved.get(name, "") for name in users}
        if not users <= band.statements or len(along) > 1 or "" in along:
            continue
        step = ExpandScalar(array.name, tuple(along))
        if draft.reach(step) is None:
            continue
        if share.bytes_of(array.name, along) > room:
            return None
        steps.append(step)
    return tuple(steps)


def strip_size(
    draft: Draft,
    machine: Machine,
    band: Band,
    trips: dict[str, dict[str, float]],
    *,
    is_known: bool,
) -> int:
    """Iterations of a loop that touch as much as fits into half of L2.

    `is_known`: the loop and those inside have constant lengths.
    """
    program = draft.schedule.program
    line = machine.cache(1).line
    touched = 0.0
    for name, iterator in moved_by(band, program).items():
        inside = {x: count for x, count in trips.get(name, {}).items() if x != iterator}
        for walk in references(program.statement(name)):
            if walk.stride(iterator):
                touched += walk.lines(inside, line) * line
    size = machine.cache(2).size / 2 / max(1.0, touched)
    least = _LEAST if is_known else _LEAST_UNKNOWN
    return int(max(least, min(_MOST, size))) // _UNIT * _UNIT
