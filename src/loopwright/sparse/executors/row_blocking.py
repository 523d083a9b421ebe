"""Several rows at a time: unroll-and-jam of ragged rows, vectorisation across equal ones.

Ragged rows whose entries lie across the memory (ell(column), sell) are jammed, eight at a time, so
that a cache line that is read is used whole:

    for i: s = 0; for w in range(n[i]): s = s + A[i + m*w] * x[col[i + m*w]]; y[p(i)] = s

Steps of one row are m apart, the same step of adjacent rows is contiguous. Eight rows go together
as far as the shortest of them, and each goes on alone from there. Only sums private to a row are
touched before rows are stored, and those are stored in order: this is legal whatever y and p are.

Rows of equal length (dia) are vectorised, a row in each lane:

    for i: s = 0; for d in range(n): s = s + A[m*i + d] * x[i + off[d]]; y[i] = s

Adjacent rows read adjacent elements of x, but elements of A that lie m apart. These are loaded
along the rows, squares of as many rows as columns, and transposed in registers, so that every load
is a full vector. Lines of A are prefetched: a row is short, and one stream at a time leaves most of
the memory bandwidth idle (dixmaanl in dia 1.4 times).

Every sum keeps its order, so a row has the same value whether it goes with others or alone.
"""

from __future__ import annotations

from dataclasses import replace

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
from loopwright.ir.visit import fresh_name, loads, names, rebuild, rewrite, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import CACHE_LINE, bound_names, seq, unrolled, vector
from loopwright.lower.linear_forms import linear, normal

__all__ = ["unroll_and_jam_rows", "vectorize_rows"]

_ROWS = 8  # as many float64 as fill a line
_AHEAD_ROWS = 32  # prefetch distance in rows
_FAR = 1 << 20  # elements


@dataclass(frozen=True)
class _RaggedRows:
    """for var: total = zero; for step in range(start, stop): total = value; end."""

    loop: For
    total: Buffer
    zero: Expr
    inner: For  # over the step
    value: Expr
    end: Store


def unroll_and_jam_rows(nest: LoopNest) -> LoopNest:
    """`nest` with loops over rows that lie across the memory taken eight rows at a time.

    rewrite:  for i in range(a, b): S(i)
              ->  for t in range((b - a) // 8): i = a + 8*t; least = min(stop(i), .., stop(i + 7))
                      for w in range(start, least): add(i, w); ..; add(i + 7, w)
                      for w in range(least, stop(i)): add(i, w);  ..  the same for i + 7
                      end(i); ..; end(i + 7)
                  for i in range(a + (b - a) // 8 * 8, b): S(i)
    """
    taken = bound_names(nest)
    read_only = frozenset(buffer.name for buffer in nest.buffers if not buffer.writable)

    def visit(stmt: Stmt, scalars: dict[str, Buffer]) -> Stmt:
        match stmt:
            case For(mark=Mark.SERIAL | Mark.PARALLEL, body=body):
                rows = _ragged_rows(stmt, scalars, read_only)
                if rows is None:
                    return replace(stmt, body=visit(body, scalars))
                return _jammed(rows, taken)
            case Block(body=parts):
                return Block(tuple(visit(part, scalars) for part in parts))
            case Alloc(buffer=buffer, body=body):
                return replace(stmt, body=visit(body, {**scalars, buffer.name: buffer}))
        return stmt

    return replace(nest, body=visit(nest.body, {}))


def _ragged_rows(
    loop: For, scalars: dict[str, Buffer], read_only: frozenset[str]
) -> _RaggedRows | None:
    """Match a loop over ragged rows that lie across the memory."""
    body = loop.body
    if isinstance(body, Alloc):
        scalars = {**scalars, body.buffer.name: body.buffer}
        body = body.body
    match body:
        case Block(
            body=(
                Store(buffer=begun, index=(), value=Const() as zero),
                For(
                    step=Const(value=1),
                    mark=Mark.SERIAL,
                    until=None,
                    body=Store(buffer=name, index=(), value=value),
                ) as inner,
                Store() as end,
            )
        ) if begun == name and name in scalars and loop.step == Const(1) and loop.until is None:
            pass
        case _:
            return None
    total = scalars[name]
    read = {load.array for x in (value, inner.start, inner.stop) for load in loads(x)}
    is_own = total.space is Space.STACK and not total.strides and end.buffer != name
    # Where all rows are as long, nothing is gained over what LLVM makes of them.
    is_ragged = loop.var in names(inner.stop) and loop.var not in names(inner.start)
    if not is_own or not is_ragged or not read - {name} <= read_only:
        return None
    lies_across = any(_row_stride(load, loop.var, inner.var) >= _ROWS for load in loads(value))
    return _RaggedRows(loop, total, zero, inner, value, end) if lies_across else None


def _row_stride(load: Load, row: str, step: str) -> int:
    """The distance between steps of a row, where adjacent rows are contiguous; else 0.

    A distance that is not known beforehand counts as far.
    """
    if not load.index:
        return 0
    *outer, last = load.index
    if any(row in names(x) for x in outer) or _moves(last, row) != 1:
        return 0
    found = _moves(last, step)
    is_known = found is not None and not any(step in names(x) for x in outer)
    return abs(found or 0) if is_known else _FAR


def _moves(index: Expr, var: str) -> int | None:
    """By how much a subscript moves with a variable; None where that is no constant."""
    form = linear(index)
    if any(var in names(atom) for atom, _ in form.terms if atom != Var(var)):
        return None
    return dict(form.terms).get(Var(var), 0)


def _jammed(rows: _RaggedRows, taken: set[str]) -> Stmt:
    loop, inner = rows.loop, rows.inner

    def named(wish: str) -> str:
        name = fresh_name(wish, taken)
        taken.add(name)
        return name

    words = ("block", "first", "beside", "least")
    block, first, beside, least = (Var(named(f"{loop.var}_{word}")) for word in words)
    sums = named("sums")
    row = {loop.var: first + beside}
    total = Load(sums, (beside,), rows.total.dtype)

    def own(e: Expr) -> Expr:
        """An expression of one row, rewritten for the row `beside` the first."""
        put = rewrite(e, lambda x: total if _is_load(x, rows.total.name) else x)
        return substitute(put, row)

    def each(stmt: Stmt) -> Stmt:
        return unrolled(beside, _ROWS, stmt)

    shortest = substitute(inner.stop, {loop.var: first})
    for number in range(1, _ROWS):
        shortest = shortest.min(substitute(inner.stop, {loop.var: first + number}))
    add = Store(sums, (beside,), own(rows.value))
    fetches = _fetches(rows, first)
    parts = seq(
        each(Store(sums, (beside,), rows.zero)),
        replace(inner, stop=least, body=seq(*fetches, each(add))),
        each(replace(inner, start=least.max(inner.start), stop=own(inner.stop), body=add)),
        each(rebuild(rows.end, expression=own)),
    )
    buffer = Buffer(sums, rows.total.dtype, (Const(1),), Space.STACK, writable=True)
    body: Stmt = Alloc(buffer, (Const(_ROWS),), Let(least.name, shortest, parts))
    body = Let(first.name, loop.start + block * _ROWS, body)
    blocks = (loop.stop - loop.start).max(0) // _ROWS
    whole = For(block.name, Const(0), blocks, body, Const(1), loop.mark)
    rest = replace(loop, start=normal(loop.start + blocks * _ROWS))
    return Block((whole, rest))


def _fetches(rows: _RaggedRows, first: Expr) -> list[Stmt]:
    """Prefetch the same step of later rows, where consecutive steps are not contiguous.

    Few steps of eight rows fit into a processor's reorder window, so that lines must be prefetched
    (ell(column) 1.2 to 1.9 times).
    """
    found: list[Stmt] = []
    for load in dict.fromkeys(loads(rows.value)):
        apart = _row_stride(load, rows.loop.var, rows.inner.var)
        if apart > _ROWS:
            later = {rows.loop.var: first + min(_AHEAD_ROWS, apart // 2)}
            index = tuple(normal(substitute(x, later)) for x in load.index)
            found.append(Prefetch(load.array, index))
    return found


def _is_load(expr: Expr, name: str) -> bool:
    return isinstance(expr, Load) and expr.array == name


_VECTORS = 2  # at a time; with four, prefetches come in too long bursts (N1: 10 to 20%)
_AHEAD_BYTES = 512  # prefetch distance (N1: 256 to 1024 alike)
_MOST_LANES = 4  # larger squares take more shuffles than they save loads
_MOST_STEPS = 16  # of a row that is fully unrolled


@dataclass(frozen=True)
class _EqualRows:
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


def vectorize_rows(nest: LoopNest, vector_bytes: int) -> LoopNest:
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
                rows = _equal_rows(stmt, read_only)
                lanes = 0 if rows is None else _lanes(rows, vector_bytes)
                return stmt if rows is None or lanes < 2 else _vectorized(rows, lanes, taken)
            case Block(body=body):
                return Block(tuple(map(visit, body)))
        return stmt

    return replace(nest, body=visit(nest.body))


def _equal_rows(loop: For, read_only: frozenset[str]) -> _EqualRows | None:
    """Match a loop over rows of equal length."""
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
    return _EqualRows(loop, total, zero, step, first, last, value, out, *found)


def _pitch(load: Load, var: str) -> int | None:
    """The distance of a load between adjacent rows; None where that is no constant."""
    moves = [_moves(x, var) for x in load.index]
    return None if any(move != 0 for move in moves[:-1]) else moves[-1] if moves else 0


def _lanes(rows: _EqualRows, vector_bytes: int) -> int:
    """Rows in a vector; 1 where there is no vector of the sums."""
    types = [rows.total.dtype, *(load.dtype for load in rows.streams)]
    if any(dtype.is_complex or dtype.bytes < 4 for dtype in types):
        return 1
    lanes = vector_bytes // max(dtype.bytes for dtype in types)
    return min(lanes, _MOST_LANES)


class _Writer:
    def __init__(self, rows: _EqualRows, lanes: int, taken: set[str]) -> None:
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
            ahead = self.line * per_line + _AHEAD_BYTES // load.dtype.bytes
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


def _vectorized(rows: _EqualRows, lanes: int, taken: set[str]) -> Stmt:
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
