"""Loops that are dealt out to the cores of a mesh, as the program of one core.

Every core runs the whole nest: host loops, its part of the mapped loops, and barriers where a core
may use what another one has written since the last barrier. What stands in no mapped loop is done
by the first core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Select, Var
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Barrier,
    BarrierScope,
    Block,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.visit import expressions, fresh_name, loads, statements
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, seq
from loopwright.lower.grid_nests.map_to_grid import coordinate
from loopwright.lower.linear_forms import normal
from loopwright.lower.mesh_nests.put_order import in_order_on_one_core
from loopwright.lower.mesh_nests.uniform_cores import has_broadcast, uniform

__all__ = ["COLUMN", "ROW", "is_by_first_core", "is_mapped_to_mesh", "map_to_mesh", "on_mesh"]

ROW, COLUMN = (coordinate(Mark.THREAD, axis) for axis in (Axis.ROW, Axis.COLUMN))
_BOTH = frozenset({Axis.ROW, Axis.COLUMN})
_MEET = Barrier(BarrierScope.BLOCK)


def map_to_mesh(nest: LoopNest, shape: tuple[int, int] | None) -> LoopNest:
    """The nest as rows and columns of cores, each with its part of the mapped loops.

        thread row for i_t in range(0, n, 32): thread column for j_t in range(0, m, 32): S
        T
    ->  thread row for thread.row in range(8): thread column for thread.column in range(8):
            for i_t in range(32 * thread.row, n, 256):
                for j_t in range(32 * thread.column, m, 256): S
            barrier
            if thread.row == 0 and thread.column == 0: T
    """
    if shape is None:
        return nest
    memory: list[Alloc] = []
    body = nest.body
    while isinstance(body, Alloc) and body.buffer.space is Space.SCRATCH:
        memory.append(body)
        body = body.body
    body = on_mesh(_Mesh(*shape, bound_names(nest)).host(body), shape)
    for alloc in reversed(memory):
        body = replace(alloc, body=body)
    return replace(nest, body=body)


def on_mesh(body: Stmt, shape: tuple[int, int]) -> Stmt:
    """A statement that every core of a mesh runs."""
    for name, axis, count in ((COLUMN, Axis.COLUMN, shape[1]), (ROW, Axis.ROW, shape[0])):
        body = For(name, Const(0), Const(count), body, Const(1), Mark.THREAD, axis=axis)
    return body


def is_mapped_to_mesh(nest: LoopNest) -> bool:
    return any(isinstance(stmt, For) and stmt.var == ROW for stmt in statements(nest.body))


@dataclass(slots=True)
class _Mesh:
    """Writes the program of one core, and knows what was accessed since the last barrier."""

    rows: int
    columns: int
    taken: set[str]  # names of the nest
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)

    def host(self, stmt: Stmt) -> Stmt:
        """A statement that all cores run, or that the first one runs alone."""
        if not _holds_mapped(stmt):
            is_shared = has_broadcast(stmt)
            alone = _first(_BOTH, in_order_on_one_core(stmt))
            return self._phase(stmt, self._same(stmt) if is_shared else alone)
        match stmt:
            case For(mark=Mark.THREAD):
                is_shared = has_broadcast(stmt)
                return self._phase(stmt, self._same(stmt) if is_shared else self._dealt(stmt))
            case For(body=body):
                # What the end of an iteration leaves open meets the head of the next one.
                reads, writes = _accessed(body)
                was_open = bool(writes & (reads | writes))
                before = set(self.reads), set(self.writes)
                made = self.host(body)
                tail = [_MEET] if was_open and self._clear() else []
                # Without an iteration nobody has met: what was open before still is.
                self.reads, self.writes = self.reads | before[0], self.writes | before[1]
                return replace(stmt, body=seq(made, *tail))
            case Block(body=children):
                return seq(*(self.host(child) for child in children))
            case If(body=body, orelse=orelse):
                before = set(self.reads), set(self.writes)
                inner = self.host(body)
                met = self.reads, self.writes
                self.reads, self.writes = before
                other = None if orelse is None else self.host(orelse)
                self.reads, self.writes = self.reads | met[0], self.writes | met[1]
                return replace(stmt, body=inner, orelse=other)
            case Let(body=body) | Alloc(body=body):
                return replace(stmt, body=self.host(body))
        raise AssertionError(f"a loop is mapped in {stmt}")

    def _phase(self, stmt: Stmt, made: Stmt) -> Stmt:
        """What cores do between barriers, behind one where it depends on what they did before."""
        reads, writes = _accessed(stmt)
        is_open = bool(writes & (self.reads | self.writes) or reads & self.writes)
        if is_open:
            self._clear()
        self.reads |= reads
        self.writes |= writes
        return seq(_MEET, made) if is_open else made

    def _clear(self) -> bool:
        """A barrier: nothing is open any more. True where something was."""
        was_open = bool(self.reads or self.writes)
        self.reads, self.writes = set(), set()
        return was_open

    def _same(self, stmt: Stmt) -> Stmt:
        """What all cores run of a nest in which they give boxes to each other."""
        cores = {ROW: self.rows, COLUMN: self.columns}
        return uniform(stmt, self._number, cores, _BOTH)

    def _dealt(self, stmt: Stmt, left: frozenset[Axis] = _BOTH) -> Stmt:
        """The part of a core; along the axes that are `left` the first one does all.

        isl leaves out loops of one iteration: of two mapped loops one may be gone.
        """
        if left and not _holds_mapped(stmt):
            return _first(left, stmt)
        match stmt:
            case For(mark=Mark.THREAD, axis=axis):
                number, count = self._number(axis or Axis.MESH)
                name = fresh_name(f"{stmt.var}_core", self.taken) if axis is Axis.CIRCLE else ""
                start = normal(stmt.start + (Var(name) if name else number) * stmt.step)
                step = normal(stmt.step * count)
                done = {axis} if axis in left else _BOTH
                body = self._dealt(stmt.body, left - done)
                own = replace(stmt, start=start, step=step, body=body, mark=Mark.SERIAL, axis=None)
                return Let(name, number, own) if name else own
            case For(body=body) | Let(body=body) | Alloc(body=body):
                return replace(stmt, body=self._dealt(body, left))
            case Block(body=children):
                return Block(tuple(self._dealt(child, left) for child in children))
            case If(body=body, orelse=orelse):
                other = None if orelse is None else self._dealt(orelse, left)
                return replace(stmt, body=self._dealt(body, left), orelse=other)
        return stmt

    def _number(self, axis: Axis) -> tuple[Expr, int]:
        """The number of a core along an axis, and how many there are."""
        row, column = Var(ROW), Var(COLUMN)
        cores = self.rows * self.columns
        back = normal(self.columns - 1 - column)
        beside = Select(Binary("eq", row % 2, Const(0)), column, back) if self.rows > 1 else column
        along: Mapping[Axis, tuple[Expr, int]] = {
            Axis.ROW: (row, self.rows),
            Axis.COLUMN: (column, self.columns),
            Axis.MESH: (normal(row * self.columns + column), cores),
            Axis.CIRCLE: (row * self.columns + beside, cores),
        }
        return along[axis]


def is_by_first_core(stmt: Stmt) -> bool:
    """Whether a statement is one that `map_to_mesh` leaves to the first core."""
    return isinstance(stmt, If) and stmt == _first(_BOTH, stmt.body)


def _first(axes: frozenset[Axis], stmt: Stmt) -> If:
    """A statement that the first row, column or core runs."""
    alone: Expr = Const(True, BOOL)
    for axis in (Axis.ROW, Axis.COLUMN):
        if axis in axes:
            own = Binary("eq", Var(coordinate(Mark.THREAD, axis)), Const(0))
            alone = normal(Binary("and", alone, own))
    return If(alone, stmt)


def _holds_mapped(stmt: Stmt) -> bool:
    return any(isinstance(s, For) and s.mark is Mark.THREAD for s in statements(stmt))


def _accessed(stmt: Stmt) -> tuple[set[str], set[str]]:
    """The buffers outside of a statement that it reads and writes."""
    reads: set[str] = set()
    writes: set[str] = set()
    own: set[str] = set()
    for inner in statements(stmt):
        reads |= {load.array for expr in expressions(inner) for load in loads(expr)}
        match inner:
            case Store(buffer=name):
                writes.add(name)
            case Copy(target=target, source=source):
                writes.add(target)
                reads.add(source)
            case Alloc(buffer=buffer):
                own.add(buffer.name)
    return reads - own, writes - own
