"""Rows whose entries lie across the memory, eight at a time: a line that is read is used whole.

    for i: s = 0; for w in range(n[i]): s = s + A[i + m*w] * x[col[i + m*w]]; y[p(i)] = s

Steps of one row are m apart, the same step of neighbouring rows lies side by side. Eight rows go
together as far as the shortest of them, and each goes on alone from there.

Only sums of a loop's own are touched before rows are stored, and those are stored in their order as
ever: this is legal whatever y and p are. Every sum keeps its order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from loopwright.ir.visit import rebuild
from loopwright.ir.walk import fresh_name, loads, names, rewrite, substitute
from loopwright.lower.build import bound_names, seq, unrolled
from loopwright.lower.linear_forms import linear, normal

__all__ = ["with_rows_jammed"]

_ROWS = 8  # as many float64 as fill a line
_AHEAD = 32  # rows by which lines are asked for before they are used
_FAR = 1 << 20  # elements


@dataclass(frozen=True)
class _Rows:
    """for var: total = zero; for step in range(start, stop): total = value; end."""

    loop: For
    total: Buffer
    zero: Expr
    inner: For  # over the step
    value: Expr
    end: Store


def with_rows_jammed(nest: LoopNest) -> LoopNest:
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
                rows = _rows(stmt, scalars, read_only)
                if rows is None:
                    return replace(stmt, body=visit(body, scalars))
                return _jammed(rows, taken)
            case Block(body=parts):
                return Block(tuple(visit(part, scalars) for part in parts))
            case Alloc(buffer=buffer, body=body):
                return replace(stmt, body=visit(body, {**scalars, buffer.name: buffer}))
        return stmt

    return replace(nest, body=visit(nest.body, {}))


def _rows(loop: For, scalars: dict[str, Buffer], read_only: frozenset[str]) -> _Rows | None:
    """The rows that a loop goes over, where they have the form above and lie across the memory."""
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
    lies_across = any(_apart(load, loop.var, inner.var) >= _ROWS for load in loads(value))
    return _Rows(loop, total, zero, inner, value, end) if lies_across else None


def _apart(load: Load, row: str, step: str) -> int:
    """How far the steps of a row are apart, where neighbouring rows are side by side; else 0.

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


def _jammed(rows: _Rows, taken: set[str]) -> Stmt:
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
        """An expression of one row as it is of the row `beside` the first."""
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


def _fetches(rows: _Rows, first: Expr) -> list[Stmt]:
    """The same step of rows further on, where the steps that follow do not lie behind each other.

    Few steps of eight rows fit between a processor's instructions that wait, so that lines must be
    asked for early (ell(column) 1.2 to 1.9 times).
    """
    found: list[Stmt] = []
    for load in dict.fromkeys(loads(rows.value)):
        apart = _apart(load, rows.loop.var, rows.inner.var)
        if apart > _ROWS:
            later = {rows.loop.var: first + min(_AHEAD, apart // 2)}
            index = tuple(normal(substitute(x, later)) for x in load.index)
            found.append(Prefetch(load.array, index))
    return found


def _is_load(expr: Expr, name: str) -> bool:
    return isinstance(expr, Load) and expr.array == name
