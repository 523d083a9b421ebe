"""Blocked closures (Floyd-Warshall in blocks) as a LoopNest, with a fallback to source order.

    guard                                    sums cannot overflow, no element is NaN
    for K step block
      save a[K, K]; close it in source order
      if some a[k, k] is better than the identity of times: restore it, leave
      a[K, :], a[:, K] in source order
      a[i, j] = a[i, j] plus over k in K of a[i, k] times a[k, j]       for i outside K
    for k from the block that was left on: source order

`left_at` holds the first step k that was not taken in blocks; the end where all were.
"""

from __future__ import annotations

import math

import numpy as np

from loopwright.ir.closure import BlockedClosure, Closure
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var, cast
from loopwright.ir.loops import Alloc, Buffer, If, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.program import Program
from loopwright.lower.buffers import argument_buffers, scalar_names
from loopwright.lower.build import lets, loop, nothing, seq, unrolled, vector

__all__ = ["PREFIX", "guard_limits", "lower_closure"]

# Names of programs do not begin so (transform/blocked_closure sees to it).
PREFIX = "closure_"
CHUNK = 128  # columns that stay in L1 together with all rows of a block
first, end, side, low, high = (Var(PREFIX + x) for x in ("first", "end", "side", "low", "high"))
i, j, k, row, part, lane = (Var(PREFIX + x) for x in ("i", "j", "k", "row", "part", "lane"))
chunk, limit = Var(PREFIX + "chunk"), Var(PREFIX + "limit")


def lower_closure(program: Program, blocked: BlockedClosure) -> LoopNest:
    """The nest of a program that is one closure, in blocks."""
    body = _Writer(blocked).nest()
    return LoopNest(program.name, argument_buffers(program), scalar_names(program), body)


def guard_limits(closure: Closure) -> tuple[Expr, Expr]:
    """Between which numbers all elements must lie so that no sum along a path overflows.

    See _Writer._guard; NaN lies nowhere.
    """
    low = _limit(closure, -1, improves=closure.plus == "min")
    return low, _limit(closure, 1, improves=closure.plus == "max")


def _limit(closure: Closure, sign: int, *, improves: bool) -> Expr:
    """How large elements of a sign may be; where sums `improve` they grow along a path."""
    dtype = closure.dtype
    if not dtype.is_integer:
        # NaN compares false with everything; infinities must not meet their negatives.
        largest = float(np.finfo(dtype.name).max)
        return Const(sign * (largest if improves else math.inf), dtype)
    half = int(np.iinfo(dtype.name).max) // 2
    if not improves:
        return Const(sign * half, dtype)
    per_step = Binary("floordiv", Const(half), (closure.stop - closure.start).max(1))
    return cast(per_step * sign, dtype)


class _Writer:
    """Writes the phases of one blocked closure."""

    def __init__(self, blocked: BlockedClosure) -> None:
        self.blocked = blocked
        self.closure = blocked.closure
        self.array = self.closure.array
        self.dtype = self.closure.dtype
        self.start, self.stop = self.closure.start, self.closure.stop

    def nest(self) -> Stmt:
        """All phases of all blocks, then the steps that were left to source order."""
        guarded = self.closure.needs_guard
        here = [(end, (first + self.blocked.block).min(self.stop))]
        square = self._in_order((first, end), (first, end), (first, end))
        phases = seq(self._rows(), self._others())
        if guarded:
            taken = self._left().equals(self.stop)
            # One thread decides; the others read what it decided after the barrier that follows.
            tested = seq(self._save(), square, self._test(), If(taken, nothing, self._restore()))
            body: Stmt = seq(If(taken, tested), If(taken, phases))
        else:
            body = seq(square, phases)
        blocks = loop(first, self.start, self.stop, lets(here, body), self.blocked.block)
        if not guarded:
            return blocks
        whole = (self.start, self.stop)
        rest = self._in_order((self._left(), self.stop), whole, whole)
        memory = Buffer(PREFIX + "left_at", INT64, (Const(1),), Space.SCRATCH, writable=True)
        side_length = self.blocked.block
        saved = Buffer(
            PREFIX + "saved",
            self.dtype,
            (Const(side_length), Const(1)),
            Space.SCRATCH,
            writable=True,
        )
        shape = (Const(side_length), Const(side_length))
        return Alloc(memory, (Const(1),), Alloc(saved, shape, seq(self._guard(), blocks, rest)))

    def _left(self) -> Expr:
        return Load(PREFIX + "left_at", (Const(0),), INT64)

    def _leave(self, at: Expr) -> Stmt:
        return Store(PREFIX + "left_at", (Const(0),), at)

    def _element(self, x: Expr, y: Expr) -> Load:
        return Load(self.array, (x, y), self.dtype)

    def _better(self, old: Expr, left: Expr, right: Expr) -> Expr:
        product = Binary(self.closure.times, left, right)
        return Binary(self.closure.plus, old, product)

    def _in_order(
        self, ks: tuple[Expr, Expr], rows: tuple[Expr, Expr], columns: tuple[Expr, Expr]
    ) -> Stmt:
        """The steps `ks` in source order, over the given rows and columns."""
        value = self._better(self._element(i, j), self._element(i, k), self._element(k, j))
        inner = loop(j, *columns, Store(self.array, (i, j), value))
        return loop(k, *ks, loop(i, *rows, inner))

    def _guard(self) -> Stmt:
        """Set left_at to the end, or to the start where sums might overflow or an element is NaN.

        A path has fewer than n = stop - start steps, and no step lengthens a path. So with all
        elements between low and high, sums lie between 2 n min(low, 0) and 2 high for (min, +).
        """
        least, most = (self._extreme(x) for x in ("least", "most"))
        clear = seq(
            self._leave(self.stop),
            Store(PREFIX + "least", (), Const(0, self.dtype)),
            Store(PREFIX + "most", (), Const(0, self.dtype)),
        )
        value = self._element(i, j)
        fold = seq(
            Store(PREFIX + "least", (), Binary("min", least, value)),
            Store(PREFIX + "most", (), Binary("max", most, value)),
        )
        scan = loop(i, self.start, self.stop, loop(j, self.start, self.stop, fold))
        low, high = guard_limits(self.closure)
        safe = Binary("and", Binary("ge", least, low), Binary("le", most, high))
        test = If(safe, nothing, self._leave(self.start))
        body = seq(clear, scan, test)
        for name in ("least", "most"):
            body = Alloc(
                Buffer(PREFIX + name, self.dtype, (), Space.STACK, writable=True), (), body
            )
        return body

    def _extreme(self, name: str) -> Load:
        return Load(PREFIX + name, (), self.dtype)

    def _test(self) -> Stmt:
        """Leave at this block when a cycle through some k is better than the identity of times."""
        zero = Const(0, self.dtype)
        worse = "lt" if self.closure.plus == "min" else "gt"
        improves = Binary(worse, self._element(k, k), zero)
        return loop(k, first, end, If(improves, self._leave(first)))

    def _save(self) -> Stmt:
        copy = Store(PREFIX + "saved", (i - first, j - first), self._element(i, j))
        return loop(i, first, end, loop(j, first, end, copy))

    def _restore(self) -> Stmt:
        back = Store(self.array, (i, j), Load(PREFIX + "saved", (i - first, j - first), self.dtype))
        return loop(i, first, end, loop(j, first, end, back))

    def _sides(self, body: Stmt) -> Stmt:
        """`body` for the range before the block and for the one after it."""
        before = side.equals(0)
        lows = [(low, Select(before, self.start, end)), (high, Select(before, first, self.stop))]
        return loop(side, 0, 2, lets(lows, body))

    @property
    def _share(self) -> Mark:
        return Mark.PARALLEL if self.blocked.is_parallel else Mark.SERIAL

    def _rows(self) -> Stmt:
        """Update the block's rows in all columns outside of it, CHUNK columns at a time."""
        steps = loop(k, first, end, loop(i, first, end, self._row_step(i, chunk, limit)))
        body = lets([(limit, (chunk + CHUNK).min(high))], steps)
        return self._sides(loop(chunk, low, high, body, CHUNK, self._share))

    def _row_step(self, at: Expr, start: Expr, stop: Expr) -> Stmt:
        """Step k of one row, in the columns from `start` up to `stop`."""
        lanes = self.blocked.lanes
        factor = Var(PREFIX + "factor", self.dtype)

        def update(column: Expr) -> Stmt:
            value = self._better(self._element(at, column), factor, self._element(k, column))
            return Store(self.array, (at, column), value)

        whole = start + (stop - start) // lanes * lanes
        vectors = loop(j, start, whole, vector(lane, lanes, update(j + lane)), lanes)
        singles = loop(j, whole, stop, update(j)) if lanes > 1 else nothing
        return lets([(factor, self._element(at, k))], seq(vectors, singles))

    def _others(self) -> Stmt:
        """Update all rows outside the block: first in the block's columns, then in all columns."""
        tall = self.blocked.rows
        whole = low + (high - low).max(0) // tall * tall
        many = loop(i, low, whole, self._strip(tall), tall, self._share)
        singles = loop(i, whole, high, self._strip(1), mark=self._share) if tall > 1 else nothing
        return self._sides(seq(many, singles))

    def _strip(self, rows: int) -> Stmt:
        """`rows` rows from i on. The steps of one row depend on that row and the square only."""
        closed = loop(row, 0, rows, loop(k, first, end, self._row_step(i + row, first, end)))
        return seq(closed, self._across(rows))

    def _across(self, rows: int) -> Stmt:
        """`rows` rows from i on: wide tiles, single vectors, single columns."""
        lanes, vectors = self.blocked.lanes, self.blocked.vectors
        wide = lanes * vectors
        length = self.stop - self.start
        many, some = self.start + length // wide * wide, self.start + length // lanes * lanes
        parts = [loop(j, self.start, many, self._tile(rows, vectors, lanes), wide)]
        if vectors > 1:
            parts.append(loop(j, many, some, self._tile(rows, 1, lanes), lanes))
        if lanes > 1:
            parts.append(loop(j, some, self.stop, self._tile(rows, 1, 1)))
        return seq(*parts)

    def _tile(self, rows: int, vectors: int, lanes: int) -> Stmt:
        """`rows` x `vectors` accumulators through all steps of the block."""
        strides = (Const(vectors * lanes), Const(lanes), Const(1))
        best = Buffer(PREFIX + "best", self.dtype, strides, Space.REGISTER, writable=True)
        across = Buffer(
            PREFIX + "across", self.dtype, (Const(lanes), Const(1)), Space.REGISTER, writable=True
        )
        here = (row, part, lane)
        column = j + part * lanes + lane
        held = Load(PREFIX + "best", here, self.dtype)

        def each(body: Stmt) -> Stmt:
            return unrolled(row, rows, unrolled(part, vectors, vector(lane, lanes, body)))

        fetch = unrolled(
            part,
            vectors,
            vector(lane, lanes, Store(PREFIX + "across", (part, lane), self._element(k, column))),
        )
        value = self._better(
            held, self._element(i + row, k), Load(PREFIX + "across", (part, lane), self.dtype)
        )
        step = Alloc(
            across,
            (Const(vectors), Const(lanes)),
            seq(fetch, each(Store(PREFIX + "best", here, value))),
        )
        body = seq(
            each(Store(PREFIX + "best", here, self._element(i + row, column))),
            loop(k, first, end, step),
            each(Store(self.array, (i + row, column), held)),
        )
        return Alloc(best, (Const(rows), Const(vectors), Const(lanes)), body)
