"""Build chunked computations: private rows per chunk, loops over chunks, reductions of rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import Const, Expr
from loopwright.ir.loops import Mark
from loopwright.ir.program import Role
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.regions import Region, timed
from loopwright.sparse.spf.term_exprs import as_expr, element
from loopwright.sparse.uf import (
    Conj,
    Constraint,
    IntegerSet,
    Sym,
    Term,
    TupleVar,
    UFCall,
    calls,
    symbols,
)
from loopwright.sparse.uf.constraints import fresh

__all__ = ["ChunkBuilder", "identity_element"]

GAP = 32  # elements between rows, so that threads do not write to one line
BLOCK = 1024  # elements of rows that are joined at a time
PHASES = 64  # entries of the new schedule for one of the old
_PREFIX = "shares_of_"


class ChunkBuilder:
    """Collects statements, rows and marks of the new computation."""

    def __init__(self, computation: Computation, region: Region) -> None:
        self.old, self.region = computation, region
        taken = {*computation.by_name, *computation.symbols}
        taken |= {v for stmt in computation.statements for v in stmt.variables}
        wishes = ("t", "x_", "block", "SHARES", "cut")
        self.t, self.x, self.block, self.chunks, self.cut = (fresh(w, taken) for w in wishes)
        self.taken = taken | {self.t, self.x, self.block, self.chunks, self.cut}
        cut = DataSpace(self.cut, INT64, (self.count + 1,), Role.IN)
        self.spaces = {**computation.by_name, self.cut: cut}
        self.rows: list[DataSpace] = []  # allocated per run
        self.longest = Term.of(0)  # elements in the private rows of one chunk
        self.body: list[Stmt] = []
        self.marks: list[tuple[str, int, Mark]] = []

    # -- names and terms -----------------------------------------------------------------------

    @property
    def count(self) -> Term:
        """The number of chunks."""
        return Term.of(Sym(self.chunks))

    @property
    def here(self) -> Term:
        """The index of a chunk."""
        return Term.of(TupleVar(self.t))

    @property
    def at(self) -> Term:
        """The variable that runs over the elements of rows."""
        return Term.of(TupleVar(self.x))

    def time(self, phase: int, region: Region | None = None) -> Term:
        return Term.of((region or self.region).time * PHASES + phase)

    def load(self, name: str, *index: Term) -> Expr:
        return element(name, index, self.spaces)

    def number(self, term: Term) -> Expr:
        return as_expr(term, self.spaces)

    def row(self, name: str, extent: Term, dtype: DType) -> str:
        """Allocate a private row for each chunk; its elements are undefined."""
        found = self.kept_row(_PREFIX + name, extent, dtype)
        self.rows.append(self.spaces[found])
        self.longest = self.longest + extent
        return found

    def kept_row(self, wish: str, extent: Term, dtype: DType) -> str:
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

    def in_chunk(self, stmt: Stmt, phase: int, at: int = 1) -> Stmt:
        """A statement of the region, restricted to the iterations of one chunk."""
        v = Term.of(TupleVar(self.region.variable))
        first, end = (Term.of(UFCall(self.cut, (t,))) for t in (self.here, self.here + 1))
        within = [Constraint.ge(v, first), Constraint.lt(v, end)]
        return self.in_all(stmt, phase, at, within)

    def in_all(
        self, stmt: Stmt, phase: int, at: int = 1, within: Iterable[Constraint] = ()
    ) -> Stmt:
        """A statement of the region for all iterations, repeated in each chunk."""
        conj = stmt.domain.conjs[0].conjoined([*self._chunk_range(), *within])
        domain = IntegerSet((self.t, *stmt.variables), (conj,))
        times = (self.time(phase), self.here, Term.of(at), *timed(stmt)[1:])
        return replace(stmt, domain=domain, schedule=times)

    def once_in_chunk(
        self,
        name: str,
        phase: int,
        at: int,
        target: tuple[str, *tuple[Term, ...]],
        value: Expr,
        guard: Expr | None = None,
    ) -> Stmt:
        """target = value, once per chunk."""
        times = (self.time(phase), self.here, Term.of(at))
        return Stmt(name, self.each_chunk, times, target[0], target[1:], value, guard)

    def along_row(
        self,
        name: str,
        phase: int,
        at: int,
        span: tuple[Term, ...],
        target: str,
        index: Term,
        value: Expr,
    ) -> Stmt:
        """target[t, index] = value for x from span[0] to before the rest of span, in each chunk."""
        conj = Conj.of([*self._chunk_range(), *_within(self.at, *span)])
        domain = IntegerSet((self.t, self.x), (conj,))
        times = (self.time(phase), self.here, Term.of(at), self.at)
        return Stmt(name, domain, times, target, (self.here, index), value)

    def across_rows(
        self,
        name: str,
        phase: int,
        at: int,
        extent: Term,
        target: tuple[str, *tuple[Term, ...]],
        value: Expr,
        guard: Expr | None = None,
    ) -> None:
        """Add target = value for all chunks in turn and 0 <= x < extent, blocks of x in parallel.

        One thread does what is less than a block.
        """
        b = Term.of(TupleVar(self.block))
        is_small = extent.is_constant and extent.constant <= BLOCK
        within = [*self._chunk_range(), *_within(self.at, Term.of(0), extent)]
        if not is_small:
            within += _within(self.at, b * BLOCK, (b + 1) * BLOCK)
            within += _within(b, Term.of(0), (extent + BLOCK - 1).floor(BLOCK))
        names = (self.t, self.x) if is_small else (self.block, self.t, self.x)
        times = (self.time(phase), *(Term.of(TupleVar(n)) for n in names), Term.of(at))
        domain = IntegerSet(names, (Conj.of(within),))
        stmt = Stmt(name, domain, times, target[0], target[1:], value, guard)
        self.add(stmt, is_parallel=not is_small)

    def by_blocks(
        self, name: str, phase: int, span: tuple[Term, ...], target: str, value: Expr
    ) -> Stmt:
        """target[x] = value for x from span[0] to before the rest of span, in parallel."""
        domain = IntegerSet((self.x,), (Conj.of(_within(self.at, *span)),))
        return Stmt(name, domain, (self.time(phase), self.at), target, (self.at,), value)

    @property
    def each_chunk(self) -> IntegerSet:
        """{ [t] : 0 <= t < SHARES }"""
        return IntegerSet((self.t,), (Conj.of(self._chunk_range()),))

    def _chunk_range(self) -> list[Constraint]:
        return _within(self.here, Term.of(0), self.count)

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
        names = dict.fromkeys((*self.old.symbols, self.chunks, *sorted(wanted)))
        return replace(
            self.old,
            spaces=spaces,
            statements=tuple(self.body),
            symbols=tuple(names),
            marks=tuple(self.marks),
        )


def identity_element(op: str, dtype: DType) -> Expr | None:
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


def _within(x: Term, low: Term, *highs: Term) -> list[Constraint]:
    return [Constraint.ge(x, low), *(Constraint.lt(x, high) for high in highs)]
