"""Rows of equal length, several at a time: their sums side by side in the lanes of vectors.

    for i: s = 0; for d in range(n): s = s + A[m*i + d] * x[i + off[d]]; y[i] = s

Neighbouring rows read neighbouring elements of x, but elements of A that lie m apart. These are
loaded along the rows, squares of as many rows as columns, and turned in registers, so that a load
takes a whole vector everywhere. Lines of A are asked for long before they are used: a row is short,
and one stream at a time leaves most of the memory's bandwidth idle (dixmaanl in dia 1.4 times).

Every sum keeps its order, so rows have the same values whether they go together or alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    For,
    Let,
    LoopNest,
    Mark,
    Prefetch,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.walk import fresh_name, loads, names, rewrite, substitute
from loopwright.lower.build import CACHE_LINE, bound_names, seq, unrolled, vector
from loopwright.lower.linear_forms import linear, normal

__all__ = ["with_rows_together"]

_VECTORS = 2  # side by side; with four, lines are asked for in too long runs (N1: 10 to 20%)
_AHEAD = 512  # bytes by which lines are asked for before they are used (N1: 256 to 1024 alike)
_MOST_LANES = 4  # larger squares take more shuffles than they save loads
_MOST_STEPS = 16  # of a row that is written out


@dataclass(frozen=True)
class _Rows:
    """for var: total = zero; for step in range(first, last): total = value; store total."""

    loop: For
    total: Buffer
    zero: Expr
    step: str
    first: int
    last: int
    value: Expr  # over the total, the variable and the step
    out: Store
    streams: tuple[Load, ...]  # loads along the rows: place = pitch*var + step + ...
    pitches: tuple[int, ...]


def with_rows_together(nest: LoopNest, vector_bytes: int) -> LoopNest:
    """`nest` with independent outermost loops over rows of equal length taken in vectors.

    rewrite:  for i in range(a, b): S(i)
              ->  for t in range((b - a) // 4): i = a + 4*t; fetch rows further on; S(i, .., i + 3)
                  for i in range(a + (b - a) // 4 * 4, b): S(i)
    """
    taken = bound_names(nest)
    read_only = frozenset(buffer.name for buffer in nest.buffers if not buffer.writable)

    def visit(stmt: Stmt) -> Stmt:
        match stmt:
            case For(mark=Mark.PARALLEL):
                rows = _rows(stmt, read_only)
                lanes = 0 if rows is None else _lanes(rows, vector_bytes)
                return stmt if rows is None or lanes < 2 else _together(rows, lanes, taken)
            case Block(body=body):
                return Block(tuple(map(visit, body)))
        return stmt

    return replace(nest, body=visit(nest.body))


def _rows(loop: For, read_only: frozenset[str]) -> _Rows | None:
    """The rows that a loop goes over, where they have the form above."""
    match loop:
        case For(
            body=Alloc(
                buffer=Buffer(space=Space.STACK) as total,
                shape=(),
                body=Block(
                    body=(
                        Store(value=zero) as begin,
                        For(
                            var=step,
                            start=Const(value=int(first)),
                            stop=Const(value=int(last)),
                            step=Const(value=1),
                            mark=Mark.SERIAL,
                            body=Store(value=value) as add,
                        ),
                        Store(value=Load(array=summed)) as out,
                    )
                ),
            ),
            step=Const(value=1),
        ):
            pass
        case _:
            return None
    is_sum = begin.buffer == add.buffer == summed == total.name
    if not is_sum or names(zero) or loads(zero) or not 0 < last - first <= _MOST_STEPS:
        return None
    if [_moves(x, loop.var) for x in out.index] != [1]:
        return None
    streams: dict[Load, int] = {}
    for load in loads(value):
        if load.array == total.name:
            continue
        pitch = _pitch(load, loop.var)
        if load.array not in read_only or pitch is None:
            return None
        if pitch > 1 and _moves(load.index[-1], step) == 1:
            streams[load] = pitch
        elif pitch not in (0, 1):
            return None
    if not streams:
        return None
    found = tuple(streams), tuple(streams.values())
    return _Rows(loop, total, zero, step, first, last, value, out, *found)


def _pitch(load: Load, var: str) -> int | None:
    """How far apart a load is in neighbouring rows; None where that is no constant."""
    moves = [_moves(x, var) for x in load.index]
    return None if any(move != 0 for move in moves[:-1]) else moves[-1] if moves else 0


def _moves(index: Expr, var: str) -> int | None:
    """By how much a subscript moves with a variable; None where that is no constant."""
    form = linear(index)
    inside = (atom for atom, _ in form.terms if atom != Var(var))
    if any(var in names(atom) for atom in inside):
        return None
    return dict(form.terms).get(Var(var), 0)


def _lanes(rows: _Rows, vector_bytes: int) -> int:
    """Rows in a vector; 1 where there is no vector of the sums."""
    types = [rows.total.dtype, *(load.dtype for load in rows.streams)]
    if any(dtype.is_complex or dtype.bytes < 4 for dtype in types):
        return 1
    lanes = vector_bytes // max(dtype.bytes for dtype in types)
    return min(lanes, _MOST_LANES)


class _Writer:
    def __init__(self, rows: _Rows, lanes: int, taken: set[str]) -> None:
        self.rows = rows
        self.lanes = lanes
        self.count = _VECTORS * lanes  # of rows at a time

        def named(wish: str) -> str:
            name = fresh_name(wish, taken)
            taken.add(name)
            return name

        words = ("block", "first", "vector", "lane", "turn", "line")
        found = [Var(named(f"{rows.loop.var}_{word}")) for word in words]
        self.block, self.first, self.vector, self.lane, self.turn, self.line = found
        self.sums = named("sums")
        self.squares = {load: named(f"square{n}") for n, load in enumerate(rows.streams)}
        self.total = Load(self.sums, (self.vector, self.lane), rows.total.dtype)

    def body(self) -> Stmt:
        """The sums of rows from `first` on."""
        rows, lanes = self.rows, self.lanes
        whole = rows.first + (rows.last - rows.first) // lanes * lanes
        parts = [
            self._fetches(),
            self._in_vectors(self._in_lanes(self._sum(rows.zero))),
            *(self._in_vectors(self._square(at)) for at in range(rows.first, whole, lanes)),
            *(self._in_vectors(self._in_lanes(self._add(at))) for at in range(whole, rows.last)),
            self._in_vectors(self._in_lanes(self._out())),
        ]
        return Alloc(
            _registers(self.sums, rows.total.dtype, lanes),
            (Const(_VECTORS), Const(lanes)),
            seq(*parts),
        )

    def _fetches(self) -> Stmt:
        """Lines that will be used _AHEAD bytes further on, each once in all blocks."""
        found: list[Stmt] = []
        for load, pitch in zip(self.rows.streams, self.rows.pitches, strict=True):
            per_line = CACHE_LINE // load.dtype.bytes
            lines = -(-self.count * pitch // per_line)
            *outer, place = self._moved(load, self.first, Const(self.rows.first))
            ahead = self.line * per_line + _AHEAD // load.dtype.bytes
            index = (*outer, normal(place + ahead))
            found.append(unrolled(self.line, lines, Prefetch(load.array, index)))
        return seq(*found)

    def _square(self, at: int) -> Stmt:
        """The next steps of the rows of a vector, as many as it has lanes."""
        row = self.first + self.vector * self.lanes + self.turn
        parts: list[Stmt] = []
        for load, square in self.squares.items():
            read = Load(load.array, self._moved(load, row, self.lane + at), load.dtype)
            along = self._in_lanes(Store(square, (self.turn, self.lane), read))
            parts.append(unrolled(self.turn, self.lanes, along))
        parts += [self._in_lanes(self._add(at + n, n)) for n in range(self.lanes)]
        body = seq(*parts)
        for load, square in self.squares.items():
            shape = (Const(self.lanes), Const(self.lanes))
            body = Alloc(_registers(square, load.dtype, self.lanes), shape, body)
        return body

    def _add(self, step: int, column: int | None = None) -> Stmt:
        """One step of the rows of a vector; a column is one of the squares."""

        def change(e: Expr) -> Expr:
            if isinstance(e, Load) and e.array == self.rows.total.name:
                return self.total
            if isinstance(e, Load) and e in self.squares and column is not None:
                return Load(self.squares[e], (self.lane, Const(column)), e.dtype)
            return e

        here = {self.rows.loop.var: self._row(), self.rows.step: Const(step)}
        return self._sum(substitute(rewrite(self.rows.value, change), here))

    def _sum(self, value: Expr) -> Stmt:
        return Store(self.sums, self.total.index, value)

    def _out(self) -> Stmt:
        here = {self.rows.loop.var: self._row()}
        index = tuple(normal(substitute(x, here)) for x in self.rows.out.index)
        return Store(self.rows.out.buffer, index, self.total)

    def _row(self) -> Expr:
        return self.first + self.vector * self.lanes + self.lane

    def _moved(self, load: Load, row: Expr, step: Expr) -> tuple[Expr, ...]:
        here = {self.rows.loop.var: row, self.rows.step: step}
        return tuple(normal(substitute(x, here)) for x in load.index)

    def _in_vectors(self, stmt: Stmt) -> Stmt:
        return unrolled(self.vector, _VECTORS, stmt)

    def _in_lanes(self, stmt: Stmt) -> Stmt:
        return vector(self.lane, self.lanes, stmt)


def _together(rows: _Rows, lanes: int, taken: set[str]) -> Stmt:
    loop = rows.loop
    writer = _Writer(rows, lanes, taken)
    blocks = (loop.stop - loop.start).max(0) // writer.count
    here = loop.start + writer.block * writer.count
    body = Let(writer.first.name, here, writer.body())
    whole = For(writer.block.name, Const(0), blocks, body, Const(1), Mark.PARALLEL)
    rest = replace(loop, start=normal(loop.start + blocks * writer.count))
    return Block((whole, rest))


def _registers(name: str, dtype: DType, lanes: int) -> Buffer:
    return Buffer(name, dtype, (Const(lanes), Const(1)), Space.REGISTER, writable=True)
