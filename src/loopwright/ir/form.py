"""Form: the decisions about a contraction that shape its code, free of sizes and strides.

A form says how algorithm 6 of the AOTO dissertation is written down for a pair of operators and
dtypes; sizes, strides, block sizes and offset tables arrive with each launch. Contractions of any
rank and spelling that agree in their form share one compiled kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from loopwright.ir.dtypes import DTYPES, DType
from loopwright.ir.expr import Expr

__all__ = ["Feed", "Form", "Initial", "Kind", "Packing"]


class Kind(Enum):
    """Which algorithm carries the contraction."""

    PRODUCT = "product"  # algorithm 6: register tiles of i x j
    ROWS = "rows"  # algorithm 8: j is empty, lanes run along p (dot products)
    COLUMNS = "columns"  # algorithm 7: i is empty, lanes run along j, several p at a time
    ELEMENTS = "elements"  # p is empty: every element of out is written once


class Packing(Enum):
    """How an operand reaches the register tile. A run is a stretch of unit stride."""

    DIRECT = "direct"  # read where it lies
    ALONG_TILE = "along_tile"  # packed; runs along i (left) or j (right)
    BY_PANEL = "by_panel"  # the same, one panel after another: p lies nearer than the next panel
    ALONG_P = "along_p"  # packed through a transposition; runs along p
    GATHER = "gather"  # packed element by element, one stream per row or column of the tile
    WALK_TILE = "walk_tile"  # packed in the order of memory; neighbours lie along i or j
    WALK_P = "walk_p"  # packed in the order of memory; neighbours lie along p
    ANY = "any"  # read element by element, in no particular order


class Feed(Enum):
    """How one element of the left operand meets a vector of the right one."""

    LANE = "lane"  # from a lane of a vector register: by-lane FMA of ARM
    BROADCAST = "broadcast"  # loaded into all lanes: broadcast operands of x86
    REPLICATED = "replicated"  # packed once per lane, so that plain vector loads serve


class Initial(Enum):
    """What the accumulators hold before the first product."""

    ZERO = "zero"  # the identity of plus
    OUT = "out"  # the old element of out
    SCALED = "scaled"  # beta times the old element of out


@dataclass(frozen=True, slots=True)
class Form:
    """Everything the code of a contraction kernel depends on."""

    kind: Kind
    plus: str | Expr  # operator name, or an expression over Var("x"), Var("y")
    times: str | Expr
    swapped: bool  # the operand fed as `right` is the first factor of times
    left: DType
    right: DType
    out: DType
    accumulator: DType
    zero: bool | int | float | complex  # identity of plus
    rows: int  # M_r, register tile rows
    vectors: int  # N_r in vectors
    lanes: int  # elements per vector of the accumulator
    unroll: int  # steps of p per iteration of the innermost loop
    left_packing: Packing
    right_packing: Packing
    feed: Feed
    initial: Initial
    ahead: int  # steps of p by which packed left is prefetched; 0 for none
    scaled: bool  # left elements are multiplied by alpha while packing
    parallel: str  # "none", "i", "j", "batch"
    group: int = 1  # steps of p that one dot instruction takes
    runs: bool = True  # vectors of out along j are runs of unit stride
    flipped: bool = False  # bytes of left are packed with their sign bit turned, see lower/bias
    apart: bool = False  # steps of p that COLUMNS takes together lie in different parts of p
    guarded: bool = False  # cheaper operators where the data allow them, see lower/guard

    @property
    def packed_left(self) -> DType:
        """The type of left in packed panels."""
        if self.flipped:
            return DTYPES["uint8" if self.left.kind == "i" else "int8"]
        return self._packed(self.left)

    @property
    def packed_right(self) -> DType:
        """The type of right in packed panels."""
        return self._packed(self.right)

    def _packed(self, operand: DType) -> DType:
        """The type an operand of the given type has in packed panels.

        Conversions happen while packing, where they are paid once: half precision to the
        accumulator's, bytes to 16 bits, which widening multiply-adds take in pairs.
        """
        if self.group > 1:
            fits = operand.bits * self.group == self.accumulator.bits
            return operand if fits else DTYPES["int16"]
        if operand == self.accumulator:
            return operand
        if self.scaled or not operand.is_integer:
            return self.accumulator
        if operand.bits == 8 and self.accumulator.bits >= 32:
            return DTYPES["int16"]
        return operand if operand.bits == 16 and self.accumulator.bits == 32 else self.accumulator

    @property
    def columns(self) -> int:
        """N_r in elements."""
        return self.vectors * self.lanes
