"""Steps that change the order of a computation; each is legal or refused with the dependence.

Loops of a statement are counted from 1, outermost first; a constant entry of the schedule between
two loops says where in the body of the outer one the statement stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from loopwright.diagnostics import UsageError
from loopwright.ir.loops import Mark
from loopwright.sparse.spf.accesses import shares_loop
from loopwright.sparse.spf.computation import Computation, Entry, Stmt
from loopwright.sparse.spf.legality import check_order, check_parallel
from loopwright.sparse.uf import Linear, parse_linear

__all__ = ["distribute", "fuse", "interchange", "parallelise", "reschedule", "shift", "tile"]

_ZERO = Linear.of(0)


def reschedule(
    computation: Computation, schedules: Mapping[str, Iterable[Entry]], step: str = ""
) -> Computation:
    """Other times for the named statements, whose loops are serial again.

    needs:    every dependence still points forward     refuses: IllegalStep with the dependence
    """
    found: dict[str, tuple[Linear, ...]] = {}
    for name, entries in schedules.items():
        names = computation.statement(name).variables
        found[name] = tuple(
            parse_linear(entry, names) if isinstance(entry, str) else Linear.of(entry)
            for entry in entries
        )
    after = computation.with_schedules(found)
    check_order(step or f"reschedule({', '.join(found)})", computation, after)
    return replace(after, marks=tuple(m for m in computation.marks if m[0] not in found))


def fuse(computation: Computation, one: str, other: str, level: int) -> Computation:
    """Run `other` in the first `level` loops of `one`, right behind it.

    rewrite:  for i: one(i)   for i: other(i)   ->   for i: { one(i); other(i) }
    """
    first, second = computation.statement(one), computation.statement(other)
    ends = [_loop_place(stmt, level) + 1 for stmt in (first, second)]
    loops = [second.schedule[place] for place in second.loops[:level]]
    head = [loops.pop(0) if not entry.is_constant else entry for entry in first.schedule[: ends[0]]]
    follows = _constant(first, ends[0]) + 1
    rest = second.schedule[ends[1] :]
    tail = rest[1:] if rest and rest[0].is_constant else rest
    # What stands behind `one` in these loops makes room.
    moved = {
        stmt.name: _with_constant(stmt, ends[0], _constant(stmt, ends[0]) + 1)
        for stmt in computation.statements
        if stmt.name not in (one, other)
        and shares_loop(first, stmt, ends[0] - 1)
        and _constant(stmt, ends[0]) >= follows
    }
    moved[other] = (*head, Linear.of(follows), *tail)
    return reschedule(computation, moved, f"fuse({one}, {other}, {level})")


def distribute(computation: Computation, name: str, level: int) -> Computation:
    """Give what follows a statement in its loop number `level` a loop of its own behind.

    rewrite:  for i: { one(i); other(i) }   ->   for i: one(i)   for i: other(i)
    """
    stmt = computation.statement(name)
    place = _loop_place(stmt, level)
    if place == 0 or not stmt.schedule[place - 1].is_constant:
        raise _unusable(stmt, "distribute", "its loop has no constant entry in front of it")
    own = _constant(stmt, place + 1)
    behind = [
        other
        for other in computation.statements
        if shares_loop(stmt, other, place) and _constant(other, place + 1) > own
    ]
    if not behind:
        raise _unusable(stmt, "distribute", f"nothing stands behind it in loop {level}")
    here = stmt.schedule[place - 1].constant
    moved = {}
    for other in computation.statements:
        is_beside = _has_prefix(other, stmt, place - 1) and other is not stmt
        at = _constant(other, place - 1)
        if is_beside and (other in behind or at > here):
            moved[other.name] = _with_constant(other, place - 1, at + 1)
    return reschedule(computation, moved, f"distribute({name}, {level})")


def interchange(computation: Computation, name: str, one: int, other: int) -> Computation:
    """Swap two loops of a statement.

    rewrite:  for i: for j: S(i, j)   ->   for j: for i: S(i, j)
    """
    stmt = computation.statement(name)
    places = _loop_place(stmt, one), _loop_place(stmt, other)
    entries = list(stmt.schedule)
    entries[places[0]], entries[places[1]] = entries[places[1]], entries[places[0]]
    return reschedule(computation, {name: entries}, f"interchange({name}, {one}, {other})")


def shift(computation: Computation, name: str, level: int, amount: int) -> Computation:
    """Run a statement `amount` iterations of a loop later than the others that share it."""
    stmt = computation.statement(name)
    place = _loop_place(stmt, level)
    entries = [e + amount if at == place else e for at, e in enumerate(stmt.schedule)]
    return reschedule(computation, {name: entries}, f"shift({name}, {level}, {amount})")


def tile(computation: Computation, names: Sequence[str], sizes: Mapping[int, int]) -> Computation:
    """Cut consecutive loops of statements that share them into tiles of constant sizes.

    rewrite:  for i: for j: S(i, j)
              ->  for floor(i/T): for floor(j/U): for i in the tile: for j in the tile: S(i, j)
    """
    step = f"tile({', '.join(names)}, {dict(sizes)})"
    levels = sorted(sizes)
    if not levels or levels != list(range(levels[0], levels[0] + len(levels))):
        raise UsageError(f"{step}: the loops are not consecutive", hint="number them from 1")
    if any(type(size) is not int or size < 1 for size in sizes.values()):
        raise UsageError(f"{step}: a size is no positive integer", hint="such as {1: 32, 2: 64}")
    schedules = {}
    for name in names:
        stmt = computation.statement(name)
        start = _loop_place(stmt, levels[0])
        tiles: list[Linear] = []
        for level in levels:
            tiles += [stmt.schedule[_loop_place(stmt, level)].floor(sizes[level]), _ZERO]
        schedules[name] = (*stmt.schedule[:start], *tiles, *stmt.schedule[start:])
    return reschedule(computation, schedules, step)


def parallelise(computation: Computation, name: str, level: int = 1) -> Computation:
    """Share out the iterations of a loop to threads.

    needs:    no two iterations touch one element that one of them writes
    """
    stmt = computation.statement(name)
    place = _loop_place(stmt, level)
    check_parallel(f"parallelise({name}, {level})", computation, stmt, level)
    marks = {(n, loop): mark for n, loop, mark in computation.marks}
    inside = [other for other in computation.statements if shares_loop(stmt, other, place)]
    for other in inside:
        loop = other.loops.index(place) + 1
        if any(n == other.name and number != loop for n, number in marks):
            raise UsageError(
                f"parallelise({name}, {level}): a loop around or inside is shared out already",
                f"{other.name} in {[number for n, number in marks if n == other.name]}",
                "share out one loop of each statement",
            )
        marks[other.name, loop] = Mark.PARALLEL
    return replace(computation, marks=tuple((n, loop, m) for (n, loop), m in marks.items()))


def _loop_place(stmt: Stmt, level: int) -> int:
    """The place of a loop in the schedule."""
    if not 1 <= level <= len(stmt.loops):
        raise UsageError(
            f"statement '{stmt.name}' has no loop {level}",
            f"a schedule with {len(stmt.loops)} loops",
            "count its loops from 1, outermost first",
        )
    return stmt.loops[level - 1]


def _constant(stmt: Stmt, place: int) -> int:
    """The constant entry at a place; what is missing counts as 0."""
    if place >= len(stmt.schedule):
        return 0
    entry = stmt.schedule[place]
    return entry.constant if entry.is_constant else 0


def _with_constant(stmt: Stmt, place: int, value: int) -> tuple[Linear, ...]:
    """The schedule with another constant at a place; a loop there moves one place back."""
    entries = list(stmt.schedule) + [_ZERO] * (place + 1 - len(stmt.schedule))
    if entries[place].is_constant:
        entries[place] = Linear.of(value)
    else:
        entries.insert(place, Linear.of(value))
    return tuple(entries)


def _has_prefix(stmt: Stmt, of: Stmt, length: int) -> bool:
    """Whether two statements share the loops in front of a place."""
    if len(stmt.schedule) <= length:
        return False
    return all(
        not (x.is_constant and y.is_constant) or x == y
        for x, y in zip(stmt.schedule[:length], of.schedule[:length], strict=True)
    )


def _unusable(stmt: Stmt, step: str, why: str) -> UsageError:
    times = ", ".join(map(str, stmt.schedule))
    return UsageError(f"{step}({stmt.name}): {why}", f"the schedule ({times})")
