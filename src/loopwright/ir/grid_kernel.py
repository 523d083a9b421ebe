"""Kernels of contractions for a GPU: how blocks and threads share out the work.

A product of matrices has tiles (GridVariant); everything else, from elementwise products to sums of
one operand, is computed element by element of out (ElementsVariant).

What is computed is the same Algebra as on a processor; sizes, strides and offset tables arrive with
each launch.
"""

from __future__ import annotations

from loopwright.ir.kernel_variant import Algebra, OperandTypes
from loopwright.lazy_dataclass import dataclass

__all__ = ["ElementsKernel", "ElementsVariant", "GridKernel", "GridVariant"]

WARP = 32


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
    # Steps of the reduction from one element of a run along it to the next: a tile holds `depth` /
    # left_apart neighbours of left in memory, for each of left_apart steps.
    left_apart: int = 1
    right_apart: int = 1
    piece: int = 4
    warp_rows: int = 4  # threads of a warp along the rows of the tile
    swapped: bool = False  # right is the first factor of times
    # Bundles of "gijp" whose offsets are multiples of one stride; others have tables.
    strided: str = "gijp"
    is_wide: bool = False  # tables hold 64 bits
    resident: int = 0  # blocks that a multiprocessor must hold at a time; 0: as many as it can
    # Tiles in shared memory at a time. 2: the next one passes through registers; more: tiles are
    # copied asynchronously, past the registers.
    stages: int = 2
    # Blocks share out the reduction, too: `parts` of it go to arrays of sums that lie one behind
    # another, `chunk` steps to each.
    is_split: bool = False
    # Groups of threads that share out the steps of every tile, each with sums of the whole tile of
    # out: more warps for blocks that have a multiprocessor for themselves.
    slices: int = 1
    # Warps add up 16 x 8 x 4 products at a time by the matrix unit, of float64.
    uses_mma: bool = False
    # Steps of a tile that the code repeats at a time, in registers of their own; 0: all of them.
    copies: int = 0
    in_registers: bool = True  # sums are private to threads; else they stay in shared memory
    registers: int = 0  # of a thread, at most; 0: what the machine has

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

    def __str__(self) -> str:
        shared = f", {self.lanes} to each" if self.lanes > 1 else ""
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
