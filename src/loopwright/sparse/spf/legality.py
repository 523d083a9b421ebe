"""Legality: an order is legal if every dependence of the order before still points forward."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.sparse.spf.accesses import accesses, commuting, shares_loop
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.spf.dependences import Case, Pair, before, pairs_of, prove_empty, times
from loopwright.sparse.spf.storage import is_private
from loopwright.sparse.uf import Conj, Constraint, Facts, Var

__all__ = ["check_domains", "check_order", "check_parallel"]


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
    """Refuse to share out the loop of this number (from 1) if its iterations depend.

    Scalars that every iteration sets before it reads them are one per iteration. What is known of
    the `free` spaces already is not asked again.
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


def _is_free(computation: Computation, pair: Pair) -> bool:
    """Whether the pair is of two updates that commute."""
    one, other = pair.first, pair.second
    in_instance = one.entries is None and other.entries is None
    is_update = one.space == one.stmt.target == other.stmt.target
    return is_update and in_instance and commuting(computation, one.stmt, other.stmt)


def _reversals(now: Computation, pair: Pair) -> Iterator[Case]:
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


def _entries(second: Stmt, pair: Pair) -> int | None:
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
    step: str, pair: Pair, orders: Sequence[Case], facts: Facts, why: str
) -> None:
    for conj in pair.ordered(orders):
        if not prove_empty([conj], facts):
            reason = (
                f"the {pair.kind} dependence of {pair.second.stmt.name} on "
                f"{pair.first.stmt.name} through {pair.first.space} {why}"
            )
            raise IllegalStep(step, reason, _witness(pair, conj, facts))


def _witness(pair: Pair, conj: Conj, facts: Facts) -> str:
    """Two instances for which nothing excludes it, such as (S0[1] -> S1[0, 2])."""
    from loopwright.sparse.uf.oracle import witness  # lazy: loads isl

    values = witness(conj, facts) or {}
    sides = []
    for access, prime in ((pair.first, ""), (pair.second, "'")):
        names = [f"{name}{prime}" for name in access.stmt.variables]
        if not all(Var(name) in values for name in names):
            return ""
        point = ", ".join(str(values[Var(name)]) for name in names)
        sides.append(f"{access.stmt.name}[{point}]")
    return f"({' -> '.join(sides)})"
