"""Copies between arrays and buffers that lie by diagonals: squares are transposed in registers.

    for v in lanes: for t in the diagonals of v: row[v, t - v] = buffer[t, v]
->  for v in lanes by 4:
        for t in the diagonals that all four have, by 4:
            for x in range(4): vector for q: square[x, q] = buffer[t + x, v + q]
            for q in range(4): vector for x: row[v + q, t + x - v - q] = square[x, q]
        the diagonals before and behind these, and the lanes that are left, one by one
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Buffer, Let, Space, Stmt, Store
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import loop, seq, vector
from loopwright.lower.linear_forms import linear, normal

__all__ = ["DiagonalCopy", "square_side"]

_REGISTER_BITS = 128  # what vectors of every machine hold


def square_side(element: Load, column: str) -> int:
    """The side of squares that a copy of elements takes at once; 1: neighbours lie apart."""
    if element.dtype.bits not in (32, 64) or element.dtype.is_complex or not element.index:
        return 1
    slopes = [dict(linear(entry).terms).get(Var(column), 0) for entry in element.index]
    is_row = slopes[-1] == 1 and not any(slopes[:-1])
    return _REGISTER_BITS // element.dtype.bits if is_row else 1


@dataclass(frozen=True, slots=True)
class DiagonalCopy:
    """A copy of the elements of all lanes of a block of diagonals, to or from their array."""

    lane: Var
    t: Var
    width: Expr  # lanes of the strip
    ends: Callable[[Expr], tuple[Expr, Expr]]  # of the diagonals of a lane
    element: Callable[[Expr, Expr], Load]  # of the array, by lane and diagonal
    held: Callable[[Expr, Expr], Load]  # in the buffer
    is_out: bool  # from the buffer to the array
    side: int  # of squares
    names: Callable[[str], str]  # makes names of its own

    def statement(self) -> Stmt:
        """The copy."""
        if self.side == 1:
            return loop(self.lane, 0, self.width, self._lane(self.lane, *self.ends(self.lane)))
        lane, side = self.lane, self.side
        one = Var(self.names(f"{lane.name}_q"))
        first, last = Var(self.names(f"{self.t.name}_f")), Var(self.names(f"{self.t.name}_l"))
        low = [self.ends(normal(lane + at))[0] for at in (0, side - 1)]
        high = [self.ends(normal(lane + at))[1] for at in (0, side - 1)]
        start = normal(low[0].max(low[1]))
        stop = normal(high[0].min(high[1]))
        edge = normal(lane + one)
        begin, end = self.ends(edge)
        edges = seq(
            self._lane(edge, begin, normal(end.min(first))),
            self._lane(edge, normal(begin.max(last)), end),
        )
        whole = normal(first + (stop - first).max(0) // side * side)
        squares = loop(self.t, first, last, self._square(), side)
        body = Let(
            first.name,
            start,
            Let(last.name, whole, seq(squares, loop(one, 0, side, edges))),
        )
        rest = normal(self.width // side * side)
        left = loop(lane, rest, self.width, self._lane(lane, *self.ends(lane)))
        return seq(loop(lane, 0, normal(self.width - (side - 1)), body, side), left)

    def _lane(self, lane: Expr, start: Expr, stop: Expr) -> Stmt:
        """Elements of one lane, one by one."""
        return loop(self.t, start, stop, self._copied(lane, self.t))

    def _copied(self, lane: Expr, t: Expr) -> Stmt:
        to, from_ = self.element(lane, t), self.held(lane, t)
        if not self.is_out:
            to, from_ = from_, to
        return Store(to.array, to.index, from_)

    def _square(self) -> Stmt:
        """A square of elements, by way of registers."""
        side, dtype = self.side, self.element(self.lane, self.t).dtype
        name = self.names("square")
        along = Var(self.names(f"{self.t.name}_x"))
        parts = [*self._rows(name, along), *self._columns(name, along)]
        memory = Buffer(name, dtype, (Const(side), Const(1)), Space.REGISTER, writable=True)
        return Alloc(memory, (Const(side), Const(side)), seq(*parts))

    def _rows(self, name: str, along: Var) -> Iterator[Stmt]:
        for number in range(self.side):
            value = self._pair(number, along)[0 if self.is_out else 1]
            yield vector(along, self.side, Store(name, (Const(number), along), value))

    def _columns(self, name: str, along: Var) -> Iterator[Stmt]:
        dtype = self.element(self.lane, self.t).dtype
        for number in range(self.side):
            to = self._pair(number, along)[1 if self.is_out else 0]
            value = Load(name, (along, Const(number)), dtype)
            yield vector(along, self.side, Store(to.array, to.index, value))

    def _pair(self, number: int, along: Var) -> tuple[Load, Load]:
        """One diagonal of the buffer, and one row of the array."""
        held = self.held(normal(self.lane + along), normal(self.t + number))
        row = self.element(normal(self.lane + number), normal(self.t + along))
        return held, row
