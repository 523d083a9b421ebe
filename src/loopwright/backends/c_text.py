"""LoopNest to C: one printer, whose dialects are tables (c_dialect).

Threads run a nest as the interpreter says: all of them enter it, share out the iterations of
parallel loops and do the rest each for itself. In OpenMP that is a parallel region with
worksharing loops in it; a nest that is one parallel loop becomes a `parallel for`. Without OpenMP
the same text runs on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from loopwright.backends.c_dialect import Dialect
from loopwright.backends.c_names import Names
from loopwright.backends.c_reductions import Gathered, gathered
from loopwright.backends.c_scopes import Scopes, memory_runs
from loopwright.backends.c_shape import allocations, is_flat, is_once, is_single_loop, is_team
from loopwright.backends.c_types import ATOM, INDEX, Code, Width, c_type
from loopwright.backends.c_vectors import register_lanes, stores_of, vector_lanes
from loopwright.diagnostics import InternalError
from loopwright.ir.expr import Binary, Const, Expr, Load, Unary, Var
from loopwright.ir.extent import constant_trips
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Prefetch,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.visit import statements

__all__ = ["Printer"]

_COMPOUND = {"add": "+=", "sub": "-=", "mul": "*="}
_MOST_UNROLL = 64  # what compilers unroll whole
Origin = Callable[[Store], str]  # where in the source a store comes from, in words


class Printer(Scopes):
    """Writes the statements of a nest."""

    def __init__(
        self,
        dialect: Dialect,
        names: Names,
        *,
        from_c: bool = False,
        margin: str = "",
        origin: Origin | None = None,
    ) -> None:
        super().__init__(names, from_c=from_c, margin=margin)
        self.dialect = dialect
        self._origin = origin
        self._is_shared_out = False  # inside a parallel loop
        self._may_reorder = False  # floating sums may be taken in another order

    # -- the nest as a whole ----------------------------------------------------------------------

    def nest(self, nest: LoopNest) -> None:
        """All statements of a nest whose arguments have their places."""
        body, scalars = nest.body, frozenset(nest.scalars)
        self._may_reorder = nest.reassoc
        self.runs = memory_runs(nest, self.places)
        self.registers = register_lanes(nest, self.is_run)
        has_team = any(is_team(s) for s in statements(body)) and bool(self.dialect.team)
        shared = self.hoist(body, scalars, Space.SCRATCH, has_team=has_team)
        if not has_team:
            private = self.hoist(body, scalars, Space.PRIVATE)
            self.statement(body)
            self.free(private)
        elif is_single_loop(body) and not allocations(body, Space.PRIVATE):
            self._single_loop(body)
        else:
            self.pragma(self.dialect.team)
            with self.block():
                private = self.hoist(body, scalars, Space.PRIVATE)
                self.statement(body)
                self.free(private)
        self.free(shared)

    def _single_loop(self, stmt: Stmt) -> None:
        """A nest that is one parallel loop, perhaps with bindings around it."""
        match stmt:
            case Block(body=(only,)):
                self._single_loop(only)
            case Let(body=inner):
                with self.bound(stmt):
                    self._single_loop(inner)
            case Alloc(body=inner):
                with self.allocated(stmt):
                    self._single_loop(inner)
            case For():
                self.pragma(self.dialect.team_share)
                self._is_shared_out = True
                self._for(stmt)
                self._is_shared_out = False
            case _:
                raise AssertionError(f"not a single loop: {stmt}")

    # -- statements -------------------------------------------------------------------------------

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Block(body=body):
                self._sequence(body)
            case For(mark=Mark.PARALLEL) if not self._is_shared_out:
                self._shared_loop(stmt, waits=False)
            case For():
                self._loop(stmt)
            case If(cond=cond, body=Block(body=()), orelse=inner) if inner is not None:
                self.statement(If(Unary("not", cond), inner))
            case If(cond=cond, body=inner, orelse=orelse):
                self._branches(cond, inner, orelse)
            case Let(body=inner):
                with self.bound(stmt):
                    self.statement(inner)
            case Alloc(body=inner):
                with self.allocated(stmt):
                    self.statement(inner)
            case Store():
                self._store(stmt)
            case Copy():
                self._copy(stmt, ())
            case Barrier():
                self.pragma(self.dialect.barrier)
            case Prefetch(buffer=name, index=index, write=write, level=level):
                near = max(0, 4 - level)
                place = self.element(name, index)
                self.lines.add(f"__builtin_prefetch(&{place}, {int(write)}, {near});")
            case _:
                assert_never(stmt)

    def _sequence(self, body: tuple[Stmt, ...]) -> None:
        """Statements in order; a barrier behind a shared loop is the loop's own."""
        skip = False
        for at, stmt in enumerate(body):
            if skip:
                skip = False
            elif isinstance(stmt, For) and stmt.mark is Mark.PARALLEL and not self._is_shared_out:
                skip = isinstance(body[at + 1] if at + 1 < len(body) else None, Barrier)
                self._shared_loop(stmt, waits=skip)
            else:
                self.statement(stmt)

    def _branches(self, cond: Expr, body: Stmt, orelse: Stmt | None) -> None:
        self.lines.add(f"if ({self.condition(cond, is_guard=True)}) {{")
        with self.inside():
            self.statement(body)
        if orelse is not None:
            self.lines.add("} else {")
            with self.inside():
                self.statement(orelse)
        self.lines.add("}")

    def _shared_loop(self, stmt: For, *, waits: bool) -> None:
        """A parallel loop among other things that all threads do."""
        suffix = "" if waits else self.dialect.no_wait
        self._is_shared_out = True
        if self.dialect.once and is_once(stmt):
            self.pragma(self.dialect.once + suffix)
            self.spelling[stmt.var] = Code("0", ATOM)
            with self.block():
                self.statement(stmt.body)
        else:
            if self.dialect.share:
                self.pragma(self.dialect.share + suffix)
            self._for(stmt)
        self._is_shared_out = False

    def _loop(self, stmt: For) -> None:
        if stmt.mark in (Mark.BLOCK, Mark.THREAD):
            raise InternalError(f"loop {stmt.var} is for a GPU, not for {self.dialect.name}")
        # Without register tiles, loops read better and leave the lanes to the compiler.
        lanes = vector_lanes(stmt, self.is_run) if self.registers else None
        if lanes is not None:
            for store in stores_of(stmt.body) or ():
                self._told_store(self.vector_store(store, stmt, lanes), store)
            return
        trips = constant_trips(stmt)
        if trips == 1 and isinstance(stmt.start, Const):
            with self.constant(stmt.var, stmt.start):
                self.statement(stmt.body)
            return
        if self._may_reorder and self.dialect.gather:
            updates = gathered(stmt)
            if updates is not None:
                self._gather(stmt, updates)
                return
        match stmt.mark:
            case Mark.VECTOR | Mark.SIMD if is_flat(stmt.body):
                self.pragma(self.dialect.vector)
            case Mark.UNROLL if trips is not None and 1 < trips <= _MOST_UNROLL:
                self.pragma(self.dialect.unroll.format(count=trips))
        self._for(stmt)

    def _gather(self, stmt: For, updates: list[Gathered]) -> None:
        """A loop of sums: into variables, which the compiler may split into lanes.

        A loop without iterations must not touch the elements: they need not exist.
        """
        some = Binary("lt", stmt.start, stmt.stop)
        with self.block(f"if ({self.condition(some, is_guard=True)})"):
            names: list[str] = []
            for update in updates:
                name = self.names.declare(f"{update.target.array}_sum")
                element = self.element(update.target.array, update.target.index)
                self.lines.add(f"{c_type(update.target.dtype)} {name} = {element};")
                names.append(name)
            clauses = (f"({u.sign}:{n})" for n, u in zip(names, updates, strict=True))
            self.pragma(self.dialect.gather + "".join(f" reduction{c}" for c in clauses))
            with self.loop(stmt):
                for name, update in zip(names, updates, strict=True):
                    text = f"{name} {_COMPOUND[update.op]} {self.value(update.value)};"
                    self._told_store(text, update.store)
            for name, update in zip(names, updates, strict=True):
                element = self.element(update.target.array, update.target.index)
                self.lines.add(f"{element} = {name};")

    def _for(self, stmt: For) -> None:
        with self.loop(stmt):
            self.statement(stmt.body)

    def _store(self, stmt: Store) -> None:
        target = self.element(stmt.buffer, stmt.index)
        text = f"{target} = {self.value(stmt.value)};"
        match stmt.value:
            case Binary(op="add" | "sub" | "mul" as op, x=Load(array=array, index=index), y=y) if (
                (array, index) == (stmt.buffer, stmt.index)
                and stmt.value.dtype.is_float
                and stmt.value.dtype.bits > 16
            ):
                text = f"{target} {_COMPOUND[op]} {self.value(y)};"
        self._told_store(text, stmt)

    def _told_store(self, text: str, stmt: Store) -> None:
        """A store with where it comes from."""
        told = "" if self._origin is None else self._origin(stmt)
        self.lines.add(text, told if told != self.told else "")
        self.told = told

    def _copy(self, stmt: Copy, offset: tuple[Expr, ...]) -> None:
        """One loop per dimension around an assignment."""
        done = len(offset)
        if done < len(stmt.shape):
            variable = Var(f"x{done} of copy")
            inner = (*offset, variable)
            with self.names.block():
                name = self.names.declare(f"x{done}")
                self.spelling[variable.name] = Code(name, ATOM, Width.LONG)
                bound = self.index(stmt.shape[done])
                loop = f"for ({INDEX} {name} = 0; {name} < {bound}; {name}++)"
                with self.braces(loop):
                    self._copy(stmt, inner)
            return
        to = tuple(a + x for a, x in zip(stmt.target_start, offset, strict=True))
        origin = tuple(a + x for a, x in zip(stmt.source_start, offset, strict=True))
        self.lines.add(f"{self.element(stmt.target, to)} = {self.element(stmt.source, origin)};")
