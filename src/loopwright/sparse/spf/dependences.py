"""Dependences through index arrays: pairs of instances that touch one element.

Two instances are told apart by names: `i` of the one that runs first, `i'` of the other. A pair is
dependent unless the oracle proves that no values of variables, symbols and functions obey the two
domains, the equality of subscripts, the order of times and the facts. A function that the
computation itself writes is one function for two statements only where all its writers run before
both or after both; otherwise a call of it may have any value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from loopwright.remembered import remembered
from loopwright.sparse.spf.accesses import Access, accesses
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.uf import (
    Atom,
    Call,
    Conj,
    Constraint,
    Facts,
    Linear,
    Var,
    replace_atoms,
    substitute,
)

__all__ = ["Dependence", "Pair", "before", "dependences", "pairs_of", "prove_empty", "times"]

_ZERO = Linear.of(0)
Case = tuple[Constraint, ...]  # a conjunction


@dataclass(frozen=True)
class Dependence:
    """Instances of `source` that run before instances of `target` and touch one element."""

    kind: str  # flow, anti or output
    source: str
    target: str
    space: str
    loop: int | None  # number of the loop of the source that carries it; None: one iteration

    def __str__(self) -> str:
        carried = "" if self.loop is None else f", carried by loop {self.loop}"
        return f"{self.kind} {self.source} -> {self.target} through {self.space}{carried}"


@dataclass(frozen=True)
class Pair:
    """Two accesses of one space."""

    computation: Computation
    first: Access
    second: Access

    @remembered
    def cases(self) -> tuple[Conj, ...]:
        """When they meet in one element, over the variables of both, the second's primed."""
        return tuple(_meetings(self.computation, self.first, self.second))

    def ordered(self, orders: Sequence[Case]) -> Iterator[Conj]:
        """When they meet and one of the orders holds; what is false on sight is left out."""
        possible = [order for order in orders if not Conj.of(order).is_false]
        if possible:
            yield from _joined(self.cases, possible)

    @property
    def kind(self) -> str:
        if self.first.is_write:
            return "output" if self.second.is_write else "flow"
        return "anti"


def pairs_of(computation: Computation, first: Stmt, second: Stmt) -> Iterator[Pair]:
    """The pairs of accesses of two statements that may meet, whatever the order; flow first."""
    own, others = accesses(first), accesses(second)
    chosen = [
        (one, other)
        for one in own
        for other in others
        if one.space == other.space and (one.is_write or other.is_write)
    ]
    for one, other in sorted(chosen, key=lambda pair: (not pair[0].is_write, pair[1].is_write)):
        yield Pair(computation, one, other)


def dependences(computation: Computation) -> tuple[Dependence, ...]:
    """All dependences that cannot be excluded, in textual order of their statements."""
    found: dict[Dependence, None] = {}
    for first in computation.statements:
        for second in computation.statements:
            for pair in pairs_of(computation, first, second):
                for loop, order in _levels(computation, first, second):
                    made = Dependence(pair.kind, first.name, second.name, pair.first.space, loop)
                    if made in found:
                        continue
                    if not prove_empty(pair.ordered([order]), computation.facts):
                        found[made] = None
    return tuple(found)


def prove_empty(cases: Iterable[Conj], facts: Facts) -> bool:
    """Whether it is proven that none of the conjunctions can hold."""
    from loopwright.sparse.uf.oracle import is_empty  # lazy: loads isl

    return all(conj.is_false or is_empty(conj, facts) for conj in cases)


def before(
    computation: Computation, first: Stmt, second: Stmt, entries: int | None = None
) -> tuple[Case, ...]:
    """The cases in which an instance of `first` runs before one of `second` (primed).

    With `entries`, before as many entries of the second's schedule have passed.
    """
    return tuple(case for _, case in _levels(computation, first, second, entries))


def times(first: Stmt, second: Stmt) -> tuple[tuple[Linear, Linear], ...]:
    """The entries of two schedules side by side, with the variables of the second primed."""
    theirs = (substitute(entry, _primes(second)) for entry in second.schedule)
    return tuple(zip_longest(first.schedule, theirs, fillvalue=_ZERO))


def _levels(
    computation: Computation, first: Stmt, second: Stmt, entries: int | None = None
) -> Iterator[tuple[int | None, Case]]:
    """One case for each entry in which the times differ first, with the loop that it belongs to."""
    prefix: list[Constraint] = []
    for at, (x, y) in enumerate(times(first, second)[:entries]):
        is_loop = not (x.is_constant and y.is_constant)
        number = sum(place <= at for place in first.loops) if is_loop else None
        less = Constraint.lt(x, y)
        if not less.is_false:
            yield number or None, (*prefix, less)
        equal = Constraint.eq(x, y)
        if equal.is_false:
            return
        prefix.append(equal)
    if entries is None and _is_textually_before(computation, first, second):
        yield None, tuple(prefix)


def _is_textually_before(computation: Computation, first: Stmt, second: Stmt) -> bool:
    names = [stmt.name for stmt in computation.statements]
    return names.index(first.name) < names.index(second.name)


def _primes(stmt: Stmt) -> dict[Atom, Linear]:
    return {Var(name): Linear.of(Var(f"{name}'")) for name in stmt.variables}


def _joined(cases: Sequence[Conj], orders: Sequence[Case]) -> Iterator[Conj]:
    for conj in cases:
        for order in orders:
            made = conj.conjoined(order)
            if not made.is_false:
                yield made


def _meetings(computation: Computation, one: Access, other: Access) -> Iterator[Conj]:
    """The conjunctions under which two accesses touch one element."""
    primes = _primes(other.stmt)
    unstable = _unstable(computation, one.stmt, other.stmt)
    equal = []
    for x, y in zip(one.index, other.index, strict=True):
        if x is not None and y is not None:
            mine = _havoc(x, unstable, "x")
            equal.append(Constraint.eq(mine, _havoc(substitute(y, primes), unstable, "y")))
    for mine_conj in one.stmt.domain.conjs:
        for their_conj in other.stmt.domain.conjs:
            # What exists in a domain is a variable like any other in a question of emptiness.
            names = {name: f"{name}.1" for name in mine_conj.exists}
            left = mine_conj.rename(names).constraints
            names = {name: f"{name}.2" for name in their_conj.exists}
            right = [c.substitute(primes) for c in their_conj.rename(names).constraints]
            parts = [
                *(c.of_term(_havoc(c.term, unstable, "dx")) for c in left),
                *(c.of_term(_havoc(c.term, unstable, "dy")) for c in right),
                *equal,
            ]
            made = Conj.of(parts)
            if not made.is_false:
                yield made


def _havoc(term: Linear, unstable: frozenset[str], side: str) -> Linear:
    """The term with any value for the calls of functions that change."""
    if not unstable:
        return term

    def change(atom: Atom) -> Linear | None:
        if isinstance(atom, Call) and atom.name in unstable:
            return Linear.of(Var(f"{atom}.{side}"))
        return None

    return replace_atoms(term, change)


def _unstable(computation: Computation, one: Stmt, other: Stmt) -> frozenset[str]:
    """The spaces written by the computation neither before both statements nor after both."""
    found = set()
    for writer in computation.statements:
        compare: Sequence[Callable[[int, int], bool]] = (int.__lt__, int.__gt__)
        if not any(all(_is_apart(writer, stmt, sign) for stmt in (one, other)) for sign in compare):
            found.add(writer.target)
    return frozenset(found)


def _is_apart(writer: Stmt, stmt: Stmt, sign: Callable[[int, int], bool]) -> bool:
    """Whether all instances of a writer run before, or after, those of a statement, on sight."""
    for x, y in zip_longest(writer.schedule, stmt.schedule, fillvalue=_ZERO):
        if not (x.is_constant and y.is_constant):
            return False
        if x.constant != y.constant:
            return sign(x.constant, y.constant)
    return False
