"""Steps that change the schedule of a computation; each is legal, or refused with the dependence.

A schedule is legal if every dependence of the schedule before still points forward. Loops of a
statement are counted from 1, outermost first; a constant entry of the schedule between two loops
says where in the body of the outer one the statement stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.loops import Mark
from loopwright.sparse.spf.array_dependences import (
    AccessPair,
    Case,
    accesses,
    before,
    commuting,
    pairs_of,
    prove_empty,
    shares_loop,
    times,
)
from loopwright.sparse.spf.computation import Computation, Entry, Stmt
from loopwright.sparse.spf.eliminate import is_private
from loopwright.sparse.uf import Conj, Constraint, Facts, Term, TupleVar, parse_linear

__all__ = [
    "check_domains",
    "check_order",
    "check_parallel",
    "distribute",
    "fuse",
    "interchange",
    "parallelise",
    "reschedule",
    "shift",
    "tile",
]


def check_order(step: str, was: Computation, now: Computation) -> None:
    """Refuse schedules `now` of the statements `was` that reverse a dependence.

    Raises IllegalStep, which names the dependence, unless the oracle proves that none is reversed.
    """
    changed = {
        one.name
        for one, other in zip(was.statements, now.statements, strict=True)
        if one.schedule != other.schedule
    }
    for first in was.statements:
        for second in was.statements:
            if changed.isdisjoint((first.name, second.name)):
                continue
            for pair in pairs_of(was, first, second):
                if not _is_free(was, pair):
                    orders = [
                        (*order, *reversal)
                        for order in before(was, first, second)
                        for reversal in _reversals(now, pair)
                    ]
                    _refuse_unless_empty(step, pair, orders, was.facts, "would be reversed")


def check_parallel(
    step: str, computation: Computation, stmt: Stmt, loop: int, free: Collection[str] = ()
) -> None:
    """Refuse to run the loop of this number (from 1) in parallel if its iterations depend.

    Scalars that every iteration sets before it reads them are one per iteration. Dependences
    through the `free` spaces are known not to matter.
    """
    place = stmt.loops[loop - 1]
    inside = [other for other in computation.statements if shares_loop(stmt, other, place)]
    for first in inside:
        for second in inside:
            rows = times(first, second)
            prefix = [Constraint.eq(x, y) for x, y in rows[:place]]
            x, y = rows[place]
            orders = [(*prefix, Constraint.lt(x, y)), (*prefix, Constraint.gt(x, y))]
            for pair in pairs_of(computation, first, second):
                space = pair.first.space
                if space in free or is_private(computation, space, place):
                    continue
                why = "joins two iterations"
                _refuse_unless_empty(step, pair, orders, computation.facts, why)


def check_domains(computation: Computation) -> None:
    """Refuse a computation that writes what a domain reads while the domain is run through.

    Such a domain is no set: which instances there are would depend on how loops are made.
    """
    for first in computation.statements:
        for second in computation.statements:
            if first.target not in {call.name for call in second.domain_calls}:
                continue
            for pair in pairs_of(computation, first, second):
                if not pair.first.is_write or pair.second.entries is None:
                    continue
                orders = [
                    (*order, *reversal)
                    for order in before(computation, first, second)
                    for reversal in _reversals(computation, pair)
                ]
                if not prove_empty(pair.ordered(orders), computation.facts):
                    raise UsageError(
                        f"the domain of statement '{second.name}' reads '{first.target}' before "
                        f"'{first.name}' has written it",
                        str(second.domain),
                        f"schedule '{second.name}' in a later stage, or make it a guard",
                    )


def _is_free(computation: Computation, pair: AccessPair) -> bool:
    """Whether the pair is of two updates that commute."""
    one, other = pair.first, pair.second
    in_instance = one.entries is None and other.entries is None
    is_update = one.space == one.stmt.target == other.stmt.target
    return is_update and in_instance and commuting(computation, one.stmt, other.stmt)


def _reversals(now: Computation, pair: AccessPair) -> Iterator[Case]:
    """The cases in which the second access no longer comes after the first."""
    first, second = now.statement(pair.first.stmt.name), now.statement(pair.second.stmt.name)
    entries = _entries(second, pair)
    rows = times(first, second)
    prefix: list[Constraint] = []
    for x, y in rows[:entries]:
        later = Constraint.gt(x, y)
        if not later.is_false:
            yield (*prefix, later)
        equal = Constraint.eq(x, y)
        if equal.is_false:
            return
        prefix.append(equal)
    # At one time the order of the text decides, which is too late for what a domain reads.
    names = [stmt.name for stmt in now.statements]
    if entries is not None or names.index(first.name) >= names.index(second.name):
        yield tuple(prefix)


def _entries(second: Stmt, pair: AccessPair) -> int | None:
    """How early the second access happens in the new schedule, if it belongs to a domain."""
    if pair.second.entries is None:
        return None
    found = (
        access.entries
        for access in accesses(second)
        if (access.space, access.index) == (pair.second.space, pair.second.index)
    )
    return min(entries for entries in found if entries is not None)


def _refuse_unless_empty(
    step: str, pair: AccessPair, orders: Sequence[Case], facts: Facts, why: str
) -> None:
    for conj in pair.ordered(orders):
        if not prove_empty([conj], facts):
            reason = (
                f"the {pair.kind} dependence of {pair.second.stmt.name} on "
                f"{pair.first.stmt.name} through {pair.first.space} {why}"
            )
            raise IllegalStep(step, reason, _witness(pair, conj, facts))


def _witness(pair: AccessPair, conj: Conj, facts: Facts) -> str:
    """Two instances for which nothing excludes it, such as (S0[1] -> S1[0, 2])."""
    from loopwright.sparse.uf.oracle import witness  # lazy: loads isl

    values = witness(conj, facts) or {}
    sides = []
    for access, prime in ((pair.first, ""), (pair.second, "'")):
        names = [f"{name}{prime}" for name in access.stmt.variables]
        if not all(TupleVar(name) in values for name in names):
            return ""
        point = ", ".join(str(values[TupleVar(name)]) for name in names)
        sides.append(f"{access.stmt.name}[{point}]")
    return f"({' -> '.join(sides)})"


_ZERO = Term.of(0)


def reschedule(
    computation: Computation, schedules: Mapping[str, Iterable[Entry]], step: str = ""
) -> Computation:
    """Other times for the named statements, whose loops are serial again.

    needs:    every dependence still points forward     refuses: IllegalStep with the dependence
    """
    found: dict[str, tuple[Term, ...]] = {}
    for name, entries in schedules.items():
        names = computation.statement(name).variables
        found[name] = tuple(
            parse_linear(entry, names) if isinstance(entry, str) else Term.of(entry)
            for entry in entries
        )
    after = computation.with_schedules(found)
    check_order(step or f"reschedule({', '.join(found)})", computation, after)
    return replace(after, marks=tuple(m for m in computation.marks if m[0] not in found))


def fuse(computation: Computation, one: str, other: str, level: int) -> Computation:
    """Run `other` in the first `level` loops of `one`, right after it.

    rewrite:  for i: one(i)   for i: other(i)   ->   for i: { one(i); other(i) }
    """
    first, second = computation.statement(one), computation.statement(other)
    ends = [_loop_place(stmt, level) + 1 for stmt in (first, second)]
    loops = [second.schedule[place] for place in second.loops[:level]]
    head = [loops.pop(0) if not entry.is_constant else entry for entry in first.schedule[: ends[0]]]
    follows = _constant(first, ends[0]) + 1
    rest = second.schedule[ends[1] :]
    tail = rest[1:] if rest and rest[0].is_constant else rest
    # Statements after `one` in these loops move one place on.
    moved = {
        stmt.name: _with_constant(stmt, ends[0], _constant(stmt, ends[0]) + 1)
        for stmt in computation.statements
        if stmt.name not in (one, other)
        and shares_loop(first, stmt, ends[0] - 1)
        and _constant(stmt, ends[0]) >= follows
    }
    moved[other] = (*head, Term.of(follows), *tail)
    return reschedule(computation, moved, f"fuse({one}, {other}, {level})")


def distribute(computation: Computation, name: str, level: int) -> Computation:
    """Give what follows a statement in its loop number `level` a loop of its own after it.

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
        tiles: list[Term] = []
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
                f"parallelise({name}, {level}): a loop around or inside is parallel already",
                f"{other.name} in {[number for n, number in marks if n == other.name]}",
                "make one loop of each statement parallel",
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


def _with_constant(stmt: Stmt, place: int, value: int) -> tuple[Term, ...]:
    """The schedule with another constant at a place; a loop there moves one place back."""
    entries = list(stmt.schedule) + [_ZERO] * (place + 1 - len(stmt.schedule))
    if entries[place].is_constant:
        entries[place] = Term.of(value)
    else:
        entries.insert(place, Term.of(value))
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
