"""A tile of one operand of a product on a GPU: where it lies in shared memory, and who loads what.

Rows of a tile are steps of the reduction, so that the elements of one step lie beside each other.
Where memory runs along the reduction, runs are stored across, columns in another order for each of
them, so that threads store to different banks; for the matrix unit, whose lanes read single
elements, such a tile is stored as it lies in memory.
"""

from __future__ import annotations

import math

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.grid_kernel import WARP
from loopwright.lazy_dataclass import dataclass

__all__ = ["MMA_STEPS", "THREAD", "OperandTile", "in_z_order"]

THREAD = Var("thread.x")
MMA_STEPS = 4  # of the reduction, that the matrix unit takes at a time
_FEW_RUNS = 1  # of a thread, which needs no other address
_NEAR_BYTES = 64  # that neighbouring threads load of a run which is stored across


@dataclass(frozen=True, slots=True)
class OperandTile:
    """One operand on its way to the threads; its bundle is i (left) or j (right)."""

    name: str
    dtype: DType
    bundle: str
    size: Var  # of the bundle
    start: Var  # where the tile of the block begins along the bundle
    tile: int  # elements of the tile along the bundle
    depth: int  # and along p
    along_p: bool  # runs in memory lie along p
    width: int  # elements of a run
    threads: int
    own: int  # elements of a thread along the bundle
    piece: int  # of them that are neighbours
    place: Var  # number of the thread along the bundle
    rows: int  # of the tile in shared memory
    pitch: int  # elements between them
    apart: int = 1  # steps from one element of a run along p to the next
    lanes: int = 0  # threads along p that store across to different banks, where they do
    for_mma: bool = False  # lanes read single elements: a tile is stored as it lies in memory

    @property
    def shared(self) -> str:
        return f"{self.name}_tile"

    @property
    def is_turned(self) -> bool:
        """Whether rows of the tile lie along p; else each of them is a step of p."""
        return self.for_mma and self.along_p and self.apart == 1

    @property
    def keeps_runs(self) -> bool:
        """Whether a run of memory is one in the tile; else its elements go to different rows."""
        return self.is_turned or not self.along_p

    def cell(self, buffer: Expr, step: Expr, at: Expr) -> tuple[Expr, Expr, Expr]:
        """Where an element lies in shared memory; `at` is its column there (`column`)."""
        return (buffer, at, step) if self.is_turned else (buffer, step, at)

    def piece_of(self, buffer: Expr, step: Expr, turn: Expr, first: int) -> tuple[Expr, ...]:
        """Where a piece of the thread begins in shared memory: its element `first`.

        `turn` is that of the step.
        """
        if not self.lanes or self.own == self.piece:
            return self.cell(buffer, step, self._moved(self.element(Const(first)), turn))
        # Pieces of a thread are whole turns of the banks apart, which stay in their order.
        far = first // self.piece * (self.tile // (self.own // self.piece))
        return self.cell(buffer, step, self._moved(self.place * self.piece, turn) + far)

    @property
    def steps_of_turn(self) -> int:
        """Steps of p whose columns lie in the same order."""
        return self.width * self.apart

    def _moved(self, at: Expr, turn: Expr) -> Expr:
        """The column where an element lies: those of a warp's threads are in different banks.

        Threads that follow each other along p have WARP / lanes columns each.
        """
        return Binary("xor", at, turn * (WARP // self.lanes)) if self.lanes else at

    @property
    def runs(self) -> int:
        """Runs that a thread loads of one tile."""
        return self.tile * self.depth // (self.width * self.threads)

    def run(self, number: int) -> tuple[Expr, Expr]:
        """Where run `number` of the thread begins in the tile: along the bundle, and along p.

        Neighbouring threads take neighbours in memory. Of wide runs along p that are stored across
        it is two sectors, where columns do not change places: then they go on across, so that they
        store to different banks.
        """
        if not self.along_p:
            line = self.tile // self.width
            lines, rest = divmod(number * self.threads, line)
            if rest == 0:
                return (THREAD % line) * self.width, THREAD // line + lines
            at = THREAD + number * self.threads
            return (at % line) * self.width, at // line
        at = THREAD + number * self.threads
        together = self.depth // (self.apart * self.width)  # runs that continue each other
        near = together
        if self.lanes:
            near = math.gcd(near, self.lanes)
        elif self.width > 1 and not self.is_turned:
            near = math.gcd(near, max(1, _NEAR_BYTES // (self.width * self.dtype.bytes)))
        lanes, turns = self.threads // near, together // near
        if self.runs > _FEW_RUNS and self.threads % near == 0 and self.tile % lanes == 0:
            # Compilers do not know how few threads there are: written so, runs of a thread lie
            # constant distances apart in the tile, and one address serves all of them.
            rows = number * lanes
            along = (THREAD % near + rows // self.tile % turns * near) * (self.width * self.apart)
            step = rows // self.tile // turns
            return THREAD // near + rows % self.tile, along if self.apart == 1 else along + step
        across, block = at // near % self.tile, at // (near * self.tile)
        along = (block % turns * near + at % near) * (self.width * self.apart)
        return across, along if self.apart == 1 else along + block // turns

    def column(self, number: int) -> Expr:
        """Where run `number` of the thread goes in the rows of the tile."""
        at, _ = self.run(number)
        if not self.lanes:
            return at
        first, _ = self.run(0)
        turn = THREAD % self.lanes
        far = number * (self.threads // self.lanes) % self.tile
        if far % WARP == 0 and at == first + far:  # the same order of columns
            return self._moved(first, turn) + far
        return self._moved(at, turn)

    def element(self, number: Expr) -> Expr:
        """Element `number` of the thread, counted in the tile of the block."""
        if self.piece == self.own:
            return self.place * self.piece + number
        apart = self.tile // (self.own // self.piece)
        return number // self.piece * apart + self.place * self.piece + number % self.piece


def in_z_order(lane: Expr, rows: int) -> tuple[Expr, Expr]:
    """Row and column of a lane whose warp has `rows` rows; bits of its number go to both in turns.

    Eight neighbours read four runs of one operand and two of the other: shared memory serves a warp
    in fewer cycles than where they read eight of one.
    """
    found: tuple[list[Expr], list[Expr]] = ([], [])
    left = [rows.bit_length() - 1, (WARP // rows).bit_length() - 1]
    side = 1
    for bit in range(WARP.bit_length() - 1):
        side = side if left[side] else 1 - side
        left[side] -= 1
        found[side].append(lane // (1 << bit) % 2 * (1 << len(found[side])))
        side = 1 - side
    row, column = (sum(parts[1:], parts[0]) if parts else Const(0) for parts in found)
    return row, column
