"""Regions of a computation: statements that share their outermost loop, and what they do there.

A loop can run in chunks where iterations of different chunks conflict in recognised ways only.
These are, one predicate each:

    private     a scalar that every iteration sets before it reads it; an array that it fills first
    update      x[a] = x[a] op e, of an operator that commutes bit by bit
    mark        x[a] = c, for one constant c, and nothing reads x
    cursor      s = x[a]; x[a] = s + 1: the number of an entry among those of one a
    scan        x[v+1] = x[v] op e
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopwright.ir.expr import Binary, Cast, Const, Expr, Load
from loopwright.ir.program import Role
from loopwright.ir.visit import loads
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once
from loopwright.sparse.spf.array_dependences import update_of
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.spf.term_exprs import element
from loopwright.sparse.uf import Constraint, Term, TupleVar, UFCall, variables

__all__ = [
    "InsertionCursor",
    "Region",
    "Scan",
    "adds_constant_one",
    "cursor_of",
    "is_filled_first",
    "is_marked",
    "is_set_first",
    "pointers_of",
    "regions_of",
    "scan_of",
    "split_regions",
    "update_kind",
]

_NOTHING = Term()


@dataclass(frozen=True)
class Region:
    """Statements under one entry of the schedule; `variable` is that of their outermost loop."""

    time: int
    statements: tuple[Stmt, ...]
    variable: str  # "" where they share no loop
    low: Term = _NOTHING
    high: Term = _NOTHING  # low <= variable < high

    def writers(self, name: str) -> list[Stmt]:
        return [stmt for stmt in self.statements if stmt.target == name]

    def readers(self, name: str) -> list[Stmt]:
        """Statements that load from a space, in values, guards, subscripts or domains."""
        return [s for s, names in zip(self.statements, self._reads, strict=True) if name in names]

    @computed_once
    def _reads(self) -> tuple[set[str], ...]:
        return tuple(map(reads_of, self.statements))

    def is_bound(self, name: str) -> bool:
        """Whether domains read a space."""
        return any(call.name == name for s in self.statements for call in s.domain_calls)

    def is_called(self, name: str) -> bool:
        """Whether subscripts of targets or domains read a space."""
        return any(
            call.name == name for s in self.statements for call in (*s.index_calls, *s.domain_calls)
        )


@dataclass(frozen=True)
class InsertionCursor:
    """Two statements: `take` keeps x[index] in a scalar, `move` sets it to one more."""

    array: str
    take: Stmt
    move: Stmt

    @property
    def index(self) -> tuple[Term, ...]:
        return self.move.index


@dataclass(frozen=True)
class Scan:
    """x[v+1] = x[v] op step, and statements that copy x[v]."""

    array: str
    op: str  # add, min or max
    stmt: Stmt
    step: Expr
    copies: tuple[Stmt, ...]


def reads_of(stmt: Stmt) -> set[str]:
    """The spaces that a statement reads."""
    found = {load.array for part in stmt.expressions for load in loads(part)}
    return found | {call.name for call in (*stmt.index_calls, *stmt.domain_calls)}


def regions_of(computation: Computation) -> list[Region]:
    """The regions in their order; times that start with a loop count as one region."""
    groups: dict[int, list[Stmt]] = {}
    for stmt in computation.statements:
        first = stmt.schedule[0] if stmt.schedule else Term.of(0)
        groups.setdefault(first.constant if first.is_constant else 0, []).append(stmt)
    return [_region(time, groups[time]) for time in sorted(groups)]


def split_regions(computation: Computation) -> tuple[Computation, ...]:
    """A computation as several with one loop each, where no temporary joins these."""
    regions = regions_of(computation)
    has_local = any(space.role is Role.LOCAL for space in computation.spaces)
    if len(regions) < 2 or has_local or computation.marks:
        return (computation,)
    found = []
    for region in regions:
        names = {name for stmt in region.statements for name in (stmt.target, *reads_of(stmt))}
        spaces = tuple(space for space in computation.spaces if space.name in names)
        found.append(replace(computation, spaces=spaces, statements=region.statements))
    return tuple(found)


def timed(stmt: Stmt) -> tuple[Term, ...]:
    """The schedule with a constant in front of the first loop."""
    times = stmt.schedule
    return times if times and times[0].is_constant else (Term.of(0), *times)


def _region(time: int, statements: list[Stmt]) -> Region:
    plain = Region(time, tuple(statements), "")
    loops = {times[1].atom for stmt in statements if len(times := timed(stmt)) > 1}
    (outer,) = loops if len(loops) == 1 else (None,)
    if not isinstance(outer, TupleVar) or any(len(timed(stmt)) < 2 for stmt in statements):
        return plain
    bounds = {_bounds(stmt, outer) for stmt in statements}
    (found,) = bounds if len(bounds) == 1 else (None,)
    return plain if found is None else Region(time, tuple(statements), outer.name, *found)


def _bounds(stmt: Stmt, v: TupleVar) -> tuple[Term, Term] | None:
    """low and high of a variable, where constraints on it alone give one each."""
    if len(stmt.domain.conjs) != 1 or stmt.domain.conjs[0].exists or v.name not in stmt.variables:
        return None
    lows, highs = set(), set()
    for c in stmt.domain.conjs[0].constraints:
        if variables(c.term) != {v.name}:
            continue
        rest = c.term.without(v)
        if c.is_equality or v.name in variables(rest) or any(_calls(rest)):
            return None
        if c.term.coefficient(v) == 1:
            lows.add(-rest)
        elif c.term.coefficient(v) == -1:
            highs.add(rest + 1)
        else:
            return None
    return (lows.pop(), highs.pop()) if len(lows) == len(highs) == 1 else None


def _calls(term: Term) -> Iterable[UFCall]:
    return (atom for atom, _ in term.terms if isinstance(atom, UFCall))


# -- what a region does with a space ----------------------------------------------------------


def is_set_first(region: Region, computation: Computation, name: str) -> bool:
    """Whether a scalar is set, in each instance that reads it, by the one statement that writes it.

    The readers run in the same loops and under the same conditions, after it.
    """
    space = computation.space(name)
    writers = region.writers(name)
    if space.role is not Role.LOCAL or space.rank or len(writers) != 1:
        return False
    if region.is_bound(name):
        return False
    return _is_set_before_reads(region, writers[0], name)


def _is_set_before_reads(region: Region, writer: Stmt, name: str) -> bool:
    if name in reads_of(writer):
        return False
    return all(
        _follows(writer, stmt) and _has_guard(stmt, writer.guard) for stmt in region.readers(name)
    )


def _follows(first: Stmt, second: Stmt) -> bool:
    """Whether two statements run in the same instances of the same loops, one after the other."""
    mine, theirs = first.schedule, second.schedule
    is_beside = len(mine) == len(theirs) and mine[:-1] == theirs[:-1]
    if not is_beside or first.domain != second.domain:
        return False
    ends = mine[-1], theirs[-1]
    return all(e.is_constant for e in ends) and ends[0].constant < ends[1].constant


def _has_guard(stmt: Stmt, guard: Expr | None) -> bool:
    """Whether a statement runs only where a guard holds."""
    return guard is None or guard in _conjuncts(stmt.guard)


def _conjuncts(guard: Expr | None) -> list[Expr]:
    found = [] if guard is None else [guard]
    if isinstance(guard, Binary) and guard.op == "and":
        found += [*_conjuncts(guard.x), *_conjuncts(guard.y)]
    return found


def is_filled_first(region: Region, computation: Computation, name: str) -> bool:
    """Whether every iteration writes all elements of a space before anything else touches it."""
    space = computation.space(name)
    if region.is_bound(name):
        return False
    for stmt in region.writers(name):
        others = [
            s for s in region.statements if s is not stmt and name in {s.target, *reads_of(s)}
        ]
        times = timed(stmt)
        if stmt.guard is not None or name in reads_of(stmt) or len(times) < 3:
            continue
        ends = [timed(s)[2] for s in others if len(timed(s)) > 2]
        if len(ends) < len(others) or not all(e.is_constant for e in (times[2], *ends)):
            continue
        is_first = all(times[2].constant < e.constant for e in ends)
        if is_first and _covers(region, stmt, space.shape):
            return True
    return False


def _covers(region: Region, stmt: Stmt, shape: tuple[Term, ...]) -> bool:
    """Whether a statement writes x[i, j, ...] for all i, j, ... in the shape, in each iteration."""
    names = [e.atom for e in stmt.index]
    own = [v for v in stmt.variables if v != region.variable]
    if [n.name for n in names if isinstance(n, TupleVar)] != own or len(stmt.index) != len(own):
        return False
    v = Term.of(TupleVar(region.variable))
    wanted = {Constraint.ge(v, region.low), Constraint.lt(v, region.high)}
    for name, extent in zip(own, shape, strict=True):
        x = Term.of(TupleVar(name))
        wanted |= {Constraint.ge(x), Constraint.lt(x, extent)}
    return {*stmt.domain.conjs[0].constraints} <= wanted


def update_kind(region: Region, computation: Computation, name: str) -> str | None:
    """The operator, where an array is updated only, always by one operator that commutes."""
    dtype = computation.space(name).dtype
    writers = region.writers(name)
    if region.is_called(name) or not dtype.is_exact or dtype.is_complex:
        return None
    if any(stmt not in writers for stmt in region.readers(name)):
        return None
    kinds = {update_of(stmt, computation.by_name) for stmt in writers}
    return kinds.pop() if len(kinds) == 1 else None


def adds_constant_one(stmt: Stmt) -> bool:
    """Whether a statement is x[a] = x[a] + 1, given that it is a sum."""
    value = stmt.value
    return isinstance(value, Binary) and any(
        isinstance(part, Const) and part.value == 1 for part in (value.x, value.y)
    )


def is_marked(region: Region, name: str) -> bool:
    """Whether an array is only set, always to one constant."""
    values = {stmt.value for stmt in region.writers(name)}
    return len(values) == 1 and isinstance(values.pop(), Const) and not region.readers(name)


def cursor_of(region: Region, computation: Computation, name: str) -> InsertionCursor | None:
    """The cursor that an array is used as; see the head of the file."""
    writers, readers = region.writers(name), region.readers(name)
    if len(writers) != 1 or len(readers) != 1 or region.is_called(name):
        return None
    (move,), (take,) = writers, readers
    scalar = take.target
    own = element(name, move.index, computation.by_name)
    is_taken = _bare(take.value) == own and is_set_first(region, computation, scalar)
    one = _bare(move.value)
    if not is_taken or not isinstance(one, Binary) or one.op != "add" or take.guard != move.guard:
        return None
    is_moved = {_bare(one.x), _bare(one.y)} >= {Load(scalar, (), take.value.dtype)}
    has_one = any(isinstance(part, Const) and part.value == 1 for part in (one.x, one.y))
    reads = loads(own)[1:]  # what tells the place must stay as it is
    is_still = not {load.array for load in reads} & {s.target for s in region.statements}
    return InsertionCursor(name, take, move) if is_moved and has_one and is_still else None


def _bare(value: Expr) -> Expr:
    """An expression without conversions of the whole."""
    while isinstance(value, Cast):
        value = value.x
    return value


def scan_of(region: Region, computation: Computation) -> Scan | None:
    """The running sum, minimum or maximum that a region is."""
    v = Term.of(TupleVar(region.variable))
    for stmt in region.statements:
        name, value = stmt.target, stmt.value
        if stmt.index != (v + 1,) or stmt.variables != (region.variable,) or stmt.guard is not None:
            continue
        before, own = (element(name, (at,), computation.by_name) for at in (v, v + 1))
        if not isinstance(value, Binary) or before not in (value.x, value.y):
            continue
        step = value.y if value.x == before else value.x
        copies = tuple(s for s in region.statements if s is not stmt)
        is_plain = all(load == own or load.array != name for load in loads(step))
        targets = {s.target for s in copies}
        fits = all(
            s.index == (v,)
            and s.variables == stmt.variables
            and s.guard is None
            and all(load == before for load in loads(s.value))
            for s in copies
        )
        dtype = computation.space(name).dtype
        is_apart = not targets & {name, *(load.array for load in loads(step))}
        is_known = value.op in ("add", "min", "max") and dtype.is_exact
        if is_plain and fits and is_apart and is_known and len(targets) == len(copies):
            return Scan(name, value.op, stmt, step, copies)
    return None


def pointers_of(region: Region) -> tuple[str, ...]:
    """Arrays f, g, ... such that g(f(v)) counts the instances before iteration v.

    Variables inside the loop run from f(v) to f(v+1), those inside of these from g(k) to g(k+1).
    """
    longest: tuple[str, ...] = ()
    for stmt in region.statements:
        conj = stmt.domain.conjs[0]
        found, outer = [], Term.of(TupleVar(region.variable))
        for name in stmt.variables:
            if name == region.variable:
                continue
            k = Term.of(TupleVar(name))
            for call in conj.calls:
                low = Constraint.ge(k, Term.of(call))
                high = Constraint.lt(k, Term.of(UFCall(call.name, (outer + 1,))))
                if call.args == (outer,) and low in conj.constraints and high in conj.constraints:
                    found.append(call.name)
                    outer = k
                    break
        longest = max(longest, tuple(found), key=len)
    return longest
