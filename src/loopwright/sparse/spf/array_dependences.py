"""Dependences through index arrays: pairs of instances that access one element.

Two instances are distinguished by names: `i` of the one that runs first, `i'` of the other. A pair
is dependent unless the oracle proves that no values of variables, symbols and functions satisfy the
two domains, the equality of subscripts, the order of times and the facts. A function that the
computation itself writes is one function for two statements only where all its writers run before
both or after both; otherwise a call of it may have any value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Expr, Load
from loopwright.ir.visit import loads
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.spf.term_exprs import Spaces, as_term, element
from loopwright.sparse.uf import (
    Atom,
    Conj,
    Constraint,
    Facts,
    Term,
    TupleVar,
    UFCall,
    replace_atoms,
    substitute,
    variables,
)

__all__ = [
    "AccessPair",
    "Dependence",
    "SpaceAccess",
    "accesses",
    "before",
    "commuting",
    "dependences",
    "known_after",
    "pairs_of",
    "prove_empty",
    "shares_loop",
    "times",
    "update_of",
]

# Operators whose updates commute bit by bit; sums and products of floats only where that is said.
_ALWAYS = frozenset({"min", "max", "and", "or", "xor"})
_EXACT = frozenset({"add", "mul"})


@dataclass(frozen=True)
class SpaceAccess:
    """One read or write of an element of a data space by the instances of a statement."""

    stmt: Stmt
    space: str
    index: tuple[Term | None, ...]  # None: any value, because the algebra cannot say it
    is_write: bool = False
    # Entries of the schedule that have passed when the element is read: a domain is read before
    # its instances run. None: the access happens in the instance itself.
    entries: int | None = None


def accesses(stmt: Stmt) -> tuple[SpaceAccess, ...]:
    """Every access of a statement, each once, the write first."""
    return tuple(dict.fromkeys(_accesses(stmt)))


def _accesses(stmt: Stmt) -> Iterator[SpaceAccess]:
    yield SpaceAccess(stmt, stmt.target, stmt.index, is_write=True)
    for load in stmt.loads:
        index = tuple(as_term(entry, stmt.variables) for entry in load.index)
        yield SpaceAccess(stmt, load.array, index)
    for call in stmt.index_calls:
        yield SpaceAccess(stmt, call.name, call.args)
    for call in stmt.domain_calls:
        yield SpaceAccess(stmt, call.name, call.args, entries=known_after(stmt, call))


def known_after(stmt: Stmt, call: UFCall) -> int:
    """The number of schedule entries that decide a call of the domain.

    These are the entries up to the last variable of its arguments, and the constants after it:
    they say after which statements of the same loops the call is made.
    """
    wanted = set().union(*map(variables, call.args)) if call.args else set()
    known: set[str] = set()
    count = 0
    while count < len(stmt.schedule) and not wanted <= _determined(stmt, known):
        known |= variables(stmt.schedule[count])
        count += 1
    while count < len(stmt.schedule) and stmt.schedule[count].is_constant:
        count += 1
    return count


def _determined(stmt: Stmt, known: set[str]) -> set[str]:
    """`known` and the variables that equalities of the domain give from them."""
    if len(stmt.domain.conjs) != 1:
        return known
    found = set(known)
    is_moving = True
    while is_moving:
        is_moving = False
        for constraint in stmt.domain.conjs[0].equalities:
            missing = variables(constraint.term) - found
            is_bare = any(
                isinstance(atom, TupleVar) and atom.name in missing
                for atom, _ in constraint.term.terms
            )
            if len(missing) == 1 and is_bare:
                found |= missing
                is_moving = True
    return found


def shares_loop(stmt: Stmt, other: Stmt, place: int) -> bool:
    """Whether two statements run in one loop at a place of their schedules."""
    if len(other.schedule) <= place:
        return False
    for x, y in zip(stmt.schedule[:place], other.schedule[:place], strict=True):
        if x.is_constant and y.is_constant and x != y:
            return False
    return not other.schedule[place].is_constant


def commuting(computation: Computation, one: Stmt, other: Stmt) -> bool:
    """Whether updates of two statements to one space may change places without any effect."""
    found = [update_of(stmt, computation.by_name) for stmt in (one, other)]
    if found[0] is None or found[0] != found[1] or one.target != other.target:
        return False
    dtype = computation.space(one.target).dtype
    return found[0] in _ALWAYS or (
        found[0] in _EXACT and (_is_modular(dtype) or computation.reassoc)
    )


def _is_modular(dtype: DType) -> bool:
    return dtype.is_exact


def update_of(stmt: Stmt, spaces: Spaces) -> str | None:
    """The operator of `x[a] = x[a] op e`, where a, e and a guard do not read the space of x."""
    if stmt.guard is not None and _reads(stmt.guard, stmt.target):
        return None
    if any(call.name == stmt.target for call in stmt.index_calls):
        return None
    own = element(stmt.target, stmt.index, spaces)
    match stmt.value:
        case Binary(op=op, x=x, y=y) if op in _ALWAYS | _EXACT:
            rest = y if x == own else x if y == own else None
            return op if rest is not None and not _reads(rest, stmt.target) else None
    return None


def _reads(expr: Expr, space: str) -> bool:
    return any(isinstance(load, Load) and load.array == space for load in loads(expr))


_ZERO = Term.of(0)
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
class AccessPair:
    """Two accesses of one space."""

    computation: Computation
    first: SpaceAccess
    second: SpaceAccess

    @computed_once
    def cases(self) -> tuple[Conj, ...]:
        """The conditions under which both access one element; the second has primed names."""
        return tuple(_conflicts(self.computation, self.first, self.second))

    def ordered(self, orders: Sequence[Case]) -> Iterator[Conj]:
        """The same under one of the orders; trivially false cases are left out."""
        possible = [order for order in orders if not Conj.of(order).is_false]
        if possible:
            yield from _joined(self.cases, possible)

    @property
    def kind(self) -> str:
        if self.first.is_write:
            return "output" if self.second.is_write else "flow"
        return "anti"


def pairs_of(computation: Computation, first: Stmt, second: Stmt) -> Iterator[AccessPair]:
    """The pairs of accesses of two statements that may conflict in any order; flow first."""
    own, others = accesses(first), accesses(second)
    chosen = [
        (one, other)
        for one in own
        for other in others
        if one.space == other.space and (one.is_write or other.is_write)
    ]
    for one, other in sorted(chosen, key=lambda pair: (not pair[0].is_write, pair[1].is_write)):
        yield AccessPair(computation, one, other)


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


def times(first: Stmt, second: Stmt) -> tuple[tuple[Term, Term], ...]:
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


def _primes(stmt: Stmt) -> dict[Atom, Term]:
    return {TupleVar(name): Term.of(TupleVar(f"{name}'")) for name in stmt.variables}


def _joined(cases: Sequence[Conj], orders: Sequence[Case]) -> Iterator[Conj]:
    for conj in cases:
        for order in orders:
            made = conj.conjoined(order)
            if not made.is_false:
                yield made


def _conflicts(computation: Computation, one: SpaceAccess, other: SpaceAccess) -> Iterator[Conj]:
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


def _havoc(term: Term, unstable: frozenset[str], side: str) -> Term:
    """The term with any value for the calls of functions that change."""
    if not unstable:
        return term

    def change(atom: Atom) -> Term | None:
        if isinstance(atom, UFCall) and atom.name in unstable:
            return Term.of(TupleVar(f"{atom}.{side}"))
        return None

    return replace_atoms(term, change)


def _unstable(computation: Computation, one: Stmt, other: Stmt) -> frozenset[str]:
    """The spaces written by the computation neither before both statements nor after both."""
    found = set()
    for writer in computation.statements:
        compare: Sequence[Callable[[int, int], bool]] = (int.__lt__, int.__gt__)
        if not any(
            all(_is_separate(writer, stmt, sign) for stmt in (one, other)) for sign in compare
        ):
            found.add(writer.target)
    return frozenset(found)


def _is_separate(writer: Stmt, stmt: Stmt, sign: Callable[[int, int], bool]) -> bool:
    """Whether constants of the schedules put all of a writer before, or after, a statement."""
    for x, y in zip_longest(writer.schedule, stmt.schedule, fillvalue=_ZERO):
        if not (x.is_constant and y.is_constant):
            return False
        if x.constant != y.constant:
            return sign(x.constant, y.constant)
    return False
