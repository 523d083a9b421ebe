"""Kernels of contractions for a GPU: how blocks and threads share out the work.

A product of matrices has tiles (GridVariant); everything else, from elementwise products to sums of
one operand, is computed element by element of out (ElementsVariant).

What is computed is the same Algebra as on a processor; sizes, strides and offset tables arrive with
each launch.
"""

from __future__ import annotations

import math

from loopwright.ir.kernel_variant import Algebra, OperandTypes
from loopwright.lazy_dataclass import dataclass

__all__ = ["TURNED_SIDE", "ElementsKernel", "ElementsVariant", "GridKernel", "GridVariant"]

WARP = 32
_BANKS = 128  # bytes that shared memory gives at once
_PAD_BYTES = 16  # behind a row of a tile that is stored across: rows begin in other banks
_MMA_PAD = 4  # elements behind a row of a tile for the matrix unit
_ALIGNED = 16  # bytes


@dataclass(frozen=True, slots=True)
class GridVariant:
    """The decisions about a contraction on a GPU that shape its code, free of sizes.

    A block computes `rows` x `columns` elements of out, `depth` steps of the reduction at a time
    from tiles of both operands in shared memory. A thread keeps thread_rows x thread_columns of
    them in registers: pieces of `piece` neighbours, spread evenly over the tile, so that the
    threads of a warp read a tile without conflicts.
    """

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    left_along_p: bool  # runs of left in memory lie along the reduction, not along its rows
    right_along_p: bool  # likewise of right, whose other direction is its columns
    left_width: int = 1  # elements of left that are loaded at once
    right_width: int = 1
    out_width: int = 1  # elements of out that are stored at once, along j
    out_apart: int = 1  # columns from one of them to the next
    # Steps of the reduction from one element of a run along it to the next: a tile holds `depth` /
    # left_apart neighbours of left in memory, for each of left_apart steps.
    left_apart: int = 1
    right_apart: int = 1
    piece: int = 4
    warp_rows: int = 4  # threads of a warp along the rows of the tile
    swapped: bool = False  # right is the first factor of times
    # Bundles of "gijp" without tables: named once where offsets are multiples of one stride, else
    # once for each of their loops, whose indices are found by division.
    strided: str = "gijp"
    # Where p has a table: steps of a tile lead equally far in all tiles, which are whole.
    by_tiles: bool = False
    is_wide: bool = False  # tables hold 64 bits
    resident: int = 0  # blocks that a multiprocessor must hold at a time; 0: as many as it can
    # Tiles in shared memory at a time. 2: the next one passes through registers; more: tiles are
    # copied asynchronously, past the registers.
    stages: int = 2
    # With 2 stages: the tile after the next one is on its way to registers during all steps of a
    # tile, not from within them.
    is_early: bool = False
    # Blocks share out the reduction, too: `parts` of it go to arrays of sums that lie one behind
    # another, `chunk` steps to each.
    is_split: bool = False
    # Groups of threads that share out the steps of every tile, each with sums of the whole tile of
    # out: more warps for blocks that have a multiprocessor for themselves.
    slices: int = 1
    # Turns in which sums pass through shared memory to out, where they do; each has equally many
    # rows of every thread.
    rounds: int = 1
    # Warps add up 16 x 8 x 4 products at a time by the matrix unit, of float64.
    uses_mma: bool = False
    # Steps of a tile that the code repeats at a time, in registers of their own; 0: all of them.
    copies: int = 0
    # What the last steps and the way to out need to know is computed again after the steps of whole
    # tiles, not kept in registers during them.
    ends_anew: bool = False
    in_registers: bool = True  # sums are private to threads; else they stay in shared memory
    registers: int = 0  # of a thread, at most; 0: what the machine has

    def has_stride(self, bundle: str) -> bool:
        """Whether offsets along a bundle are multiples of one stride."""
        return self.strided.count(bundle) == 1

    @property
    def looked_up(self) -> str:
        """The bundles that have offset tables."""
        return "".join(x for x in "gijp" if x not in self.strided)

    @property
    def left_piece(self) -> int:
        """Neighbours among the rows of a thread."""
        return 1 if self.uses_mma else min(self.piece, self.thread_rows)

    @property
    def right_piece(self) -> int:
        """Neighbours among the columns of a thread."""
        return 2 if self.uses_mma else min(self.piece, self.thread_columns)

    @property
    def group(self) -> int:
        """Threads that share out the tile of out."""
        return (self.rows // self.thread_rows) * (self.columns // self.thread_columns)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.group * self.slices

    @property
    def joins(self) -> bool:
        """Whether sums pass through shared memory: those of slices meet there, others turn."""
        return self.slices > 1 or self.out_apart > 1

    def turned_lanes(self, operand: str, size: int) -> int:
        """Threads of a warp along p that store a tile across to different banks; 0: not all do.

        Columns of the tile change places from step to step, by bits of their number: a thread
        stores 16 bytes of p to 4 steps, and reads pieces of neighbouring columns, which stay so.
        """
        is_left = operand == "left"
        along_p = self.left_along_p if is_left else self.right_along_p
        width, apart, extent, own, piece = (
            (self.left_width, self.left_apart, self.rows, self.thread_rows, self.left_piece)
            if is_left
            else (
                *(self.right_width, self.right_apart),
                *(self.columns, self.thread_columns, self.right_piece),
            )
        )
        if self.uses_mma or not along_p or (width, size) != (4, 4):
            return 0
        lanes = math.gcd(_BANKS // 16, self.depth // (apart * width))
        fits = extent // (own // piece) % WARP == 0 and WARP // lanes % piece == 0
        # The rows of a warp begin at a multiple of their number.
        return lanes if fits and self.threads % WARP == 0 and lanes > 1 else 0

    def tile_shape(self, operand: str, size: int) -> tuple[int, int]:
        """Rows of an operand's tile in shared memory, and elements of `size` bytes between them.

        A row is a step of p, or for the matrix unit, whose lanes read single elements, what lies
        so in memory. Lanes that read 8 rows or columns by 4 steps of float64 find all banks where
        rows are 4 elements more than a multiple of 8.
        """
        is_left = operand == "left"
        extent = self.rows if is_left else self.columns
        along_p = self.left_along_p if is_left else self.right_along_p
        apart = self.left_apart if is_left else self.right_apart
        if self.uses_mma and along_p and apart == 1:
            return extent, self.depth + _MMA_PAD
        if self.uses_mma:
            return self.depth, extent + _MMA_PAD
        is_padded = along_p and not self.turned_lanes(operand, size)
        return self.depth, extent + (_PAD_BYTES // size if is_padded else 0)

    def tile_bytes(self, left: int, right: int) -> int:
        """Shared memory for the tiles of operands whose elements have so many bytes."""
        total = 0
        for operand, size in (("left", left), ("right", right)):
            rows, pitch = self.tile_shape(operand, size)
            total += -(-self.stages * rows * pitch * size // _ALIGNED) * _ALIGNED
        return total

    def join_pitch(self, size: int) -> int:
        """Elements of `size` bytes between rows of the sums in shared memory.

        Threads read `out_apart` neighbours of several rows at a time, and those of the matrix unit
        write half the banks of two rows: longer rows put these into different banks.
        """
        if self.out_apart > 1:
            return self.columns + (self.out_apart if self.out_apart * size < _BANKS else 0)
        return self.columns + (_BANKS // (2 * size) if self.uses_mma else 0)

    def join_bytes(self, size: int) -> int:
        """Shared memory for sums of `size` bytes on their way to out."""
        rows = self.slices * self.rows // self.rounds
        return rows * self.join_pitch(size) * size if self.joins else 0

    def __str__(self) -> str:
        tile = f"{self.rows} x {self.columns} x {self.depth}"
        apart = f", {self.slices} slices" if self.slices > 1 else ""
        own = f"{self.thread_rows} x {self.thread_columns}"
        unit = ", matrix unit" if self.uses_mma else ""
        place = "" if self.in_registers else ", sums in shared memory"
        return f"{tile} in {self.threads} threads of {own}{apart}{unit}{place}"


@dataclass(frozen=True, slots=True)
class GridKernel(OperandTypes):
    """Everything the code of a contraction on a GPU depends on."""

    algebra: Algebra
    variant: GridVariant

    @property
    def swapped(self) -> bool:
        """Whether right is the first factor of times."""
        return self.variant.swapped


TURNED_SIDE = 32  # elements of a tile that is turned in shared memory, along both of its loops


@dataclass(frozen=True, slots=True)
class ElementsVariant:
    """Each element of out by itself, by one thread or by neighbouring `lanes` of a block.

    Loops of out are one bundle "e", those of the reduction are "p"; indices are digits, the last
    loop fastest, of which extents and strides arrive with each launch.
    """

    free: int  # loops of out
    reduced: int  # loops of the reduction
    lanes: int = 1  # threads that share the reduction of an element; a power of two
    threads: int = 256  # of a block
    # Operands ("left", "right", "both") whose neighbours lie along the loop of out before the last:
    # tiles of these two loops come through shared memory.
    turned: str = ""

    @property
    def is_turned(self) -> tuple[bool, bool]:
        """Whether left and right come through shared memory."""
        return self.turned in ("left", "both"), self.turned in ("right", "both")

    def __str__(self) -> str:
        shared = f", {self.lanes} to each" if self.lanes > 1 else ""
        shared += f", {self.turned} turned in shared memory" if self.turned else ""
        return f"elements of {self.free} loops over {self.reduced}{shared}"


@dataclass(frozen=True, slots=True)
class ElementsKernel:
    """Everything the code of a contraction by elements depends on."""

    algebra: Algebra
    variant: ElementsVariant

    @property
    def swapped(self) -> bool:
        """Whether right is the first factor of times."""
        return False
