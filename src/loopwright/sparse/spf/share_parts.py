"""The pieces of a computation in shares: rows for each share, loops over shares, joins of rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import Const, Expr
from loopwright.ir.loops import Mark
from loopwright.ir.program import Role
from loopwright.sparse.spf.bodies import as_expr, element
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.regions import Region, timed
from loopwright.sparse.uf import (
    Call,
    Conj,
    Constraint,
    IntegerSet,
    Linear,
    Sym,
    Var,
    calls,
    symbols,
)
from loopwright.sparse.uf.conj import fresh

__all__ = ["Parts", "neutral"]

GAP = 32  # elements between rows, so that threads do not write to one line
BLOCK = 1024  # elements of rows that are joined at a time
PHASES = 64  # entries of the new schedule for one of the old
_PREFIX = "shares_of_"


class Parts:
    """Collects statements, rows and marks of the new computation."""

    def __init__(self, computation: Computation, region: Region) -> None:
        self.old, self.region = computation, region
        taken = {*computation.by_name, *computation.symbols}
        taken |= {v for stmt in computation.statements for v in stmt.variables}
        wishes = ("t", "x_", "block", "SHARES", "cut")
        self.t, self.x, self.block, self.shares, self.cut = (fresh(w, taken) for w in wishes)
        self.taken = taken | {self.t, self.x, self.block, self.shares, self.cut}
        cut = DataSpace(self.cut, INT64, (self.count + 1,), Role.IN)
        self.spaces = {**computation.by_name, self.cut: cut}
        self.rows: list[DataSpace] = []  # made anew
        self.longest = Linear.of(0)  # elements in the rows of one share
        self.body: list[Stmt] = []
        self.marks: list[tuple[str, int, Mark]] = []

    # -- names and terms -----------------------------------------------------------------------

    @property
    def count(self) -> Linear:
        """How many shares there are."""
        return Linear.of(Sym(self.shares))

    @property
    def here(self) -> Linear:
        """The number of a share."""
        return Linear.of(Var(self.t))

    @property
    def at(self) -> Linear:
        """The variable that runs over the elements of rows."""
        return Linear.of(Var(self.x))

    def time(self, phase: int, region: Region | None = None) -> Linear:
        return Linear.of((region or self.region).time * PHASES + phase)

    def load(self, name: str, *index: Linear) -> Expr:
        return element(name, index, self.spaces)

    def number(self, term: Linear) -> Expr:
        return as_expr(term, self.spaces)

    def row(self, name: str, extent: Linear, dtype: DType) -> str:
        """A fresh row for each share, of undefined elements."""
        found = self.kept_row(_PREFIX + name, extent, dtype)
        self.rows.append(self.spaces[found])
        self.longest = self.longest + extent
        return found

    def kept_row(self, wish: str, extent: Linear, dtype: DType) -> str:
        """Rows that were made before."""
        name = fresh(wish, self.taken)
        self.taken.add(name)
        self.spaces[name] = DataSpace(name, dtype, (self.count, extent + GAP), Role.INOUT)
        return name

    def scalar(self, wish: str, dtype: DType) -> str:
        name = fresh(wish, self.taken)
        self.taken.add(name)
        self.spaces[name] = DataSpace(name, dtype, (), Role.LOCAL)
        return name

    # -- statements ----------------------------------------------------------------------------

    def add(self, stmt: Stmt, *, is_parallel: bool = True) -> None:
        name = fresh(stmt.name, (s.name for s in self.body))
        self.body.append(replace(stmt, name=name))
        if is_parallel:
            self.marks.append((name, 1, Mark.PARALLEL))

    def keep(self, region: Region, without: Collection[str] = ()) -> None:
        """A region that one thread runs; statements that set the spaces `without` are left out."""
        for stmt in region.statements:
            if stmt.target not in without:
                times = (self.time(0, region), *timed(stmt)[1:])
                self.add(replace(stmt, schedule=times), is_parallel=False)

    def in_share(self, stmt: Stmt, phase: int, at: int = 1) -> Stmt:
        """A statement of the region for the iterations of one share."""
        v = Linear.of(Var(self.region.variable))
        first, end = (Linear.of(Call(self.cut, (t,))) for t in (self.here, self.here + 1))
        within = [Constraint.ge(v, first), Constraint.lt(v, end)]
        return self.in_all(stmt, phase, at, within)

    def in_all(
        self, stmt: Stmt, phase: int, at: int = 1, within: Iterable[Constraint] = ()
    ) -> Stmt:
        """A statement of the region for all iterations, in each share."""
        conj = stmt.domain.conjs[0].conjoined([*self._shares(), *within])
        domain = IntegerSet((self.t, *stmt.variables), (conj,))
        times = (self.time(phase), self.here, Linear.of(at), *timed(stmt)[1:])
        return replace(stmt, domain=domain, schedule=times)

    def once_in_share(
        self,
        name: str,
        phase: int,
        at: int,
        target: tuple[str, *tuple[Linear, ...]],
        value: Expr,
        guard: Expr | None = None,
    ) -> Stmt:
        """target = value for each share."""
        times = (self.time(phase), self.here, Linear.of(at))
        return Stmt(name, self.each_share, times, target[0], target[1:], value, guard)

    def along_row(
        self,
        name: str,
        phase: int,
        at: int,
        span: tuple[Linear, ...],
        target: str,
        index: Linear,
        value: Expr,
    ) -> Stmt:
        """target[t, index] = value for x from span[0] to before the rest of span, by each share."""
        conj = Conj.of([*self._shares(), *_within(self.at, *span)])
        domain = IntegerSet((self.t, self.x), (conj,))
        times = (self.time(phase), self.here, Linear.of(at), self.at)
        return Stmt(name, domain, times, target, (self.here, index), value)

    def across_rows(
        self,
        name: str,
        phase: int,
        at: int,
        extent: Linear,
        target: tuple[str, *tuple[Linear, ...]],
        value: Expr,
        guard: Expr | None = None,
    ) -> None:
        """Add target = value for all shares in turn and 0 <= x < extent, blocks of x in parallel.

        One thread does what is less than a block.
        """
        b = Linear.of(Var(self.block))
        is_small = extent.is_constant and extent.constant <= BLOCK
        within = [*self._shares(), *_within(self.at, Linear.of(0), extent)]
        if not is_small:
            within += _within(self.at, b * BLOCK, (b + 1) * BLOCK)
            within += _within(b, Linear.of(0), (extent + BLOCK - 1).floor(BLOCK))
        names = (self.t, self.x) if is_small else (self.block, self.t, self.x)
        times = (self.time(phase), *(Linear.of(Var(n)) for n in names), Linear.of(at))
        domain = IntegerSet(names, (Conj.of(within),))
        stmt = Stmt(name, domain, times, target[0], target[1:], value, guard)
        self.add(stmt, is_parallel=not is_small)

    def by_blocks(
        self, name: str, phase: int, span: tuple[Linear, ...], target: str, value: Expr
    ) -> Stmt:
        """target[x] = value for x from span[0] to before the rest of span, shared out."""
        domain = IntegerSet((self.x,), (Conj.of(_within(self.at, *span)),))
        return Stmt(name, domain, (self.time(phase), self.at), target, (self.at,), value)

    @property
    def each_share(self) -> IntegerSet:
        """{ [t] : 0 <= t < SHARES }"""
        return IntegerSet((self.t,), (Conj.of(self._shares()),))

    def _shares(self) -> list[Constraint]:
        return _within(self.here, Linear.of(0), self.count)

    # -- all of it -----------------------------------------------------------------------------

    def computation(self) -> Computation:
        """The statements so far; what they use is found from them."""
        used = {name for stmt in self.body for name in (stmt.target, *stmt.reads)}
        used |= {c.name for stmt in self.body for e in stmt.index for c in calls(e)}
        written = {stmt.target for stmt in self.body}
        spaces = tuple(
            replace(space, role=Role.INOUT if space.name in written else Role.IN)
            if space.role is not Role.LOCAL
            else space
            for space in self.spaces.values()
            if space.name in used
        )
        wanted = {s for space in spaces for extent in space.shape for s in symbols(extent)}
        names = dict.fromkeys((*self.old.symbols, self.shares, *sorted(wanted)))
        return replace(
            self.old,
            spaces=spaces,
            statements=tuple(self.body),
            symbols=tuple(names),
            marks=tuple(self.marks),
        )


def neutral(op: str, dtype: DType) -> Expr | None:
    """e with e op x = x for all x of an exact type."""
    is_bool = dtype.kind == "b"
    if op in ("add", "or", "xor"):
        return Const(False if is_bool else 0, dtype)
    if op == "and" and is_bool:
        return Const(True, dtype)
    if op not in ("min", "max") or is_bool:
        return None
    signed = dtype.kind == "i"
    least = -(1 << (dtype.bits - 1)) if signed else 0
    most = (1 << (dtype.bits - signed)) - 1
    return Const(most if op == "min" else least, dtype)


def _within(x: Linear, low: Linear, *highs: Linear) -> list[Constraint]:
    return [Constraint.ge(x, low), *(Constraint.lt(x, high) for high in highs)]
