"""How the sums of a product on a GPU get to out by way of shared memory.

    for every round, which has some rows of each thread
      all threads of all slices put their sums of these rows into shared memory
      barrier
      every thread takes blocks of them, adds up those of all slices, and stores them
      barrier

So all threads of the block store, whatever slice they belong to, and each of them takes what lies
together in out: `out_width` elements, which are `out_apart` columns from each other. Where that is
more than one column, a thread takes as many neighbouring columns too, reads along these and stores
across. Offset tables are read before the last steps of the reduction, whose time hides it.

Sums of slices are added in the order of the slices. Old elements of out come last.
"""

from __future__ import annotations

import math

from loopwright.ir.expr import Binary, Const, Expr, Load, Var, cast
from loopwright.ir.grid_kernel import GridKernel
from loopwright.ir.kernel_variant import Initial
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    BarrierScope,
    Buffer,
    Copy,
    If,
    Space,
    Stmt,
    Store,
)
from loopwright.lower.build import lets, seq, unrolled
from loopwright.lower.contraction_nests.combine import apply, start_from
from loopwright.lower.contraction_nests.operand_layout import Layout, Place, bind
from loopwright.lower.grid_nests.grid_tables import GridTables
from loopwright.lower.grid_nests.operand_tile import THREAD, OperandTile

__all__ = ["SLICE", "Ending"]

SLICE = Var("slice")
_MOST_BYTES = 16  # that one instruction moves
_BANKS_BYTES = 128  # that shared memory gives in a cycle
_MEET = Barrier(BarrierScope.BLOCK)
_ONE = Const(1)
_element = Var("element")


class Ending:
    """Writes what threads do with the sums of a tile."""

    def __init__(
        self,
        kernel: GridKernel,
        layout: Layout,
        left: OperandTile,
        right: OperandTile,
    ) -> None:
        self.kernel, self.variant, self.layout = kernel, kernel.variant, layout
        self.left, self.right = left, right
        v = kernel.variant
        self.own = v.thread_rows // v.rounds  # rows of a thread in a round
        self.rows = v.rows // v.rounds  # and of the block
        # A thread takes blocks of `across` columns by out_width runs that it reads.
        self.across = v.out_width if v.out_apart > 1 else 1

    def allocated(self, body: Stmt) -> Stmt:
        """`body` with the shared memory that sums pass through."""
        v, dtype = self.variant, self.kernel.algebra.accumulator
        pitch = v.join_pitch(dtype.bytes)
        shape = (Const(v.slices), Const(self.rows), Const(pitch))
        strides = (Const(self.rows * pitch), Const(pitch), _ONE)
        return Alloc(Buffer("joins", dtype, strides, Space.SHARED), shape, body)

    def around(self, body: Stmt) -> Stmt:
        """`body`, the last steps of the reduction, and all rounds; tables are read first."""
        v, dtype = self.variant, self.kernel.algebra.accumulator
        early: list[tuple[Var, Expr]] = []
        late: list[tuple[Var, Expr]] = []
        by_row, by_column = (early if self._is_looked_up(x) else late for x in "ij")
        parts: list[Stmt] = []
        columns = self._columns(by_column)
        taken = [
            [self._block(q, u, by_row, columns) for u in range(self._turns)] for q in self._all
        ]
        for q in self._all:
            parts += [*self._put(q), _MEET, *taken[q]]
            parts += [_MEET] if q + 1 < v.rounds else []
        found = Buffer("found", dtype, (_ONE,), Space.REGISTER)
        joined = Buffer("joined", dtype, (Const(v.out_width), _ONE), Space.REGISTER)
        rounds = Alloc(joined, (Const(self.across), Const(v.out_width)), seq(*parts))
        rounds = Alloc(found, (Const(v.out_width),), rounds)
        return lets(early, seq(body, lets(late, rounds)))

    def _is_looked_up(self, bundle: str) -> bool:
        return isinstance(self.layout, GridTables) and not self.variant.has_stride(bundle)

    # -- who takes what ---------------------------------------------------------------------------

    @property
    def _all(self) -> range:
        return range(self.variant.rounds)

    @property
    def _blocks(self) -> int:
        """Blocks of a round that threads take."""
        return self.rows * self.variant.columns // (self.variant.out_width * self.across)

    @property
    def _turns(self) -> int:
        """Blocks of a round that a thread takes."""
        return -(-self._blocks // self.variant.threads)

    @property
    def _lanes(self) -> tuple[int, int, int]:
        """Blocks side by side along columns, rows that come next, blocks further along columns.

        Threads that read at the same time find all banks: rows are `out_apart` elements longer than
        what the banks hold.
        """
        v, size = self.variant, self.kernel.algebra.accumulator.bytes
        near = v.out_apart // self.across
        further = v.columns // (v.out_width * v.out_apart)
        at_once = max(1, _BANKS_BYTES // (size * v.out_width * near))
        return near, math.gcd(self.rows, at_once) if self.across > 1 else 1, further

    def _at(self, turn: int) -> tuple[Expr, Expr]:
        """Row of the round, and column in the tile, where a block of the thread begins."""
        v = self.variant
        near, low, further = self._lanes
        line, threads = near * low * further, v.threads
        number: Expr = THREAD if threads % line == 0 else THREAD + turn * threads
        high = number // line + (turn * (threads // line) if threads % line == 0 else 0)
        row = high if low == 1 else high * low + number // near % low
        column = number // (near * low) % further * (v.out_width * v.out_apart)
        return row, column if near == 1 else column + number % near * self.across

    def _columns(self, bound: list[tuple[Var, Expr]]) -> list[tuple[Var, list[Place]]]:
        """The first column of every turn's block, and where its columns lead in out."""
        found: list[tuple[Var, list[Place]]] = []
        seen: dict[Expr, tuple[Var, list[Place]]] = {}
        for turn in range(self._turns):
            column = self._at(turn)[1]
            if column not in seen:
                j = Var(f"out_column{len(seen)}")
                bound.append((j, self.right.start + column))
                places: list[Place] = []
                v = self.variant
                last = self.right.size - (v.out_apart * (v.out_width - 1) + self.across)
                last = last if v.out_apart > 1 else self.right.size - v.out_width
                for c in range(self.across):
                    at = self.layout.at("out", "j", (j + c).min(last + c))
                    place, more = bind(f"out_j{len(seen)}_{c}", at)
                    bound += more
                    places.append(place)
                seen[column] = j, places
            found.append(seen[column])
        return found

    def _row(self, q: int, row: Expr) -> Expr:
        """The row of the tile that is row `row` of round q."""
        own, piece = self.own, self.left.piece
        apart = self.left.tile // (self.left.own // piece)
        first = q * own // piece * apart + q * own % piece
        if own == piece:
            return row + first
        inside = row % own
        far = inside // piece * apart if own > piece else Const(0)
        return row // own * piece + far + (inside % piece if piece > 1 else 0) + first

    # -- what is done -----------------------------------------------------------------------------

    def _put(self, q: int) -> list[Stmt]:
        """The sums of a round to shared memory."""
        v, dtype = self.variant, self.kernel.algebra.accumulator
        number = SLICE if v.slices > 1 else Const(0)
        piece = self.right.piece
        width = math.gcd(piece, max(1, _MOST_BYTES // dtype.bytes), v.join_pitch(dtype.bytes))
        parts: list[Stmt] = []
        for r in range(self.own):
            for first in range(0, v.thread_columns, piece):
                cell = (number, self.left.place * self.own + r, self.right.element(Const(first)))
                source = (Const(q * self.own + r), Const(first))
                parts.append(Copy("joins", cell, "sums", source, (Const(piece),), width=width))
        return parts

    def _block(
        self,
        q: int,
        turn: int,
        bound: list[tuple[Var, Expr]],
        columns: list[tuple[Var, list[Place]]],
    ) -> Stmt:
        """One block of a thread: the sums of all slices, to out."""
        v = self.variant
        row, column = self._at(turn)
        j, places = columns[turn]
        i = Var(f"out_row{q}_{turn}")
        bound.append((i, self.left.start + self._row(q, row)))
        last = self.left.size - 1
        along = self.layout.base("out") + self.layout.at("out", "i", i.min(last))
        start, more = bind(f"out_i{q}_{turn}", along)
        bound += more
        parts: list[Stmt] = []
        for at in range(v.out_width if self.across > 1 else 1):
            parts += self._read(row, column + at * v.out_apart, at)
        for c in range(self.across):
            parts.append(self._stored(c, start + places[c]))
        inside = If(Binary("lt", j, self.right.size), seq(*parts))
        inside = If(Binary("lt", i, self.left.size), inside)
        if self._turns * v.threads == self._blocks:
            return inside
        return If(Binary("lt", THREAD + turn * v.threads, Const(self._blocks)), inside)

    def _read(self, row: Expr, column: Expr, at: int) -> list[Stmt]:
        """The sums of out_width neighbouring columns: run `at` of a block that is stored across."""
        v, algebra = self.variant, self.kernel.algebra
        parts: list[Stmt] = []
        here = (_element, Const(at)) if self.across > 1 else (Const(0), _element)
        for s in range(v.slices):
            cell = (Const(s), row, column)
            shape = (Const(v.out_width),)
            parts.append(Copy("found", (Const(0),), "joins", cell, shape, width=v.out_width))
            value: Expr = Load("found", (_element,), algebra.accumulator)
            if s:
                value = apply(algebra.plus, Load("joined", here, algebra.accumulator), value)
            parts.append(unrolled(_element, v.out_width, Store("joined", here, value)))
        return parts

    def _stored(self, c: int, place: Place) -> Stmt:
        """Run `c` of the block to out."""
        v, algebra = self.variant, self.kernel.algebra
        out = self.layout.buffer("out")
        parts: list[Stmt] = []
        if algebra.initial is not Initial.ZERO:
            here = (Const(c), _element)
            old = Load(out, place.along(_element).index, algebra.out)
            total = Load("joined", here, algebra.accumulator)
            both = apply(algebra.plus, start_from(self.kernel, old), total)
            parts.append(unrolled(_element, v.out_width, Store("joined", here, both)))
        if v.out_width > 1:
            first = (Const(c), Const(0))
            shape = (Const(v.out_width),)
            parts.append(Copy(out, place.index, "joined", first, shape, width=v.out_width))
        else:
            total = Load("joined", (Const(c), Const(0)), algebra.accumulator)
            parts.append(Store(out, place.index, cast(total, algebra.out)))
        return seq(*parts)
