"""Kernels of contractions: what they compute (Algebra) and how (KernelVariant).

A variant says how algorithm 6 of the AOTO dissertation, or its kin for empty bundles, is written
down; sizes, strides, block sizes and offset tables arrive with each launch. Contractions of any
rank and spelling that agree in algebra and variant share one compiled kernel.
"""

from __future__ import annotations

from enum import Enum

from loopwright.ir.dtypes import DTYPES, DType
from loopwright.ir.expr import Expr
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "Algebra",
    "Algorithm",
    "Broadcast",
    "ContractionKernel",
    "Initial",
    "KernelVariant",
    "OperandTypes",
    "Packing",
    "steps_in_run",
]


class Algorithm(Enum):
    """Which loops carry the contraction."""

    PRODUCT = "product"  # algorithm 6: register tiles of i x j
    ROWS = "rows"  # algorithm 8: j is empty, lanes run along p (dot products)
    COLUMNS = "columns"  # algorithm 7: i is empty, lanes run along j, several p at a time
    ELEMENTS = "elements"  # p is empty: every element of out is written once


class Packing(Enum):
    """How an operand reaches the register tile. A run is a stretch of unit stride."""

    DIRECT = "direct"  # read where it lies
    ALONG_TILE = "along_tile"  # packed; runs along i (left) or j (right)
    BY_PANEL = "by_panel"  # the same, one panel after another: p lies nearer than the next panel
    BY_TILE = "by_tile"  # the same, right by the first tile of a panel, which reads it in place
    ALONG_P = "along_p"  # packed through a transposition; runs along p
    GATHER = "gather"  # packed element by element, one stream per row or column of the tile
    WALK_TILE = "walk_tile"  # packed in the order of memory; neighbours lie along i or j
    WALK_P = "walk_p"  # packed in the order of memory; neighbours lie along p
    ANY = "any"  # read element by element, in no particular order
    STRIDED = "strided"  # read where it lies, by its stride: right of ROWS for a single row


class Broadcast(Enum):
    """How one element of the left operand meets all lanes of a vector of the right one."""

    LANE = "lane"  # from a lane of a vector register: by-element FMA of ARM
    LOAD = "broadcast"  # loaded into all lanes: broadcast operands of x86
    REPLICATED = "replicated"  # packed once per lane, so that plain vector loads serve


class Initial(Enum):
    """What the accumulators hold before the first product."""

    ZERO = "zero"  # the identity of plus
    OUT = "out"  # the old element of out
    SCALED = "scaled"  # beta times the old element of out


@dataclass(frozen=True, slots=True)
class Algebra:
    """What a contraction computes, apart from its loops and strides.

    out = final value of: initial plus SUM_p left times right, left being the first factor.
    """

    plus: str | Expr  # operator name, or an expression over Var("x"), Var("y")
    times: str | Expr  # the same; "first" where there is no right operand
    zero: bool | int | float | complex  # identity of plus
    left: DType
    right: DType
    out: DType
    accumulator: DType
    initial: Initial
    scaled: bool  # products are multiplied by alpha


@dataclass(frozen=True, slots=True)
class KernelVariant:
    """The decisions about a contraction that shape its code, free of sizes and strides.

    Left and right are those of the kernel: the program's have changed places where `swapped`.
    """

    algorithm: Algorithm
    rows: int  # M_r, register tile rows
    vectors: int  # N_r in vectors
    lanes: int  # elements per vector of the accumulator
    left_packing: Packing
    right_packing: Packing
    swapped: bool = False  # right is the first factor of times
    broadcast: Broadcast = Broadcast.LOAD
    unroll: int = 1  # steps of p per iteration of the innermost loop
    ahead: int = 0  # prefetch distance in steps of p; 0 for none
    parallel: str = "none"  # the bundle that threads share out: "none", "i", "j", "batch"
    group: int = 1  # steps of p that one dot instruction takes
    runs: bool = True  # vectors of out along j are runs of unit stride
    flipped: bool = (
        False  # bytes of left are packed with their sign bit turned, see contraction_nests/combine
    )
    apart: bool = False  # steps of p that COLUMNS takes together lie in different parts of p
    guarded: bool = (
        False  # cheaper operators where the data allow them, see contraction_nests/operand_scan
    )
    # Bundles of "gijp" without offset tables, each as often as it has loops and at least once: one
    # loop has a stride, several are counted by division. Follows from the shape of a call.
    strided: str = "gijp"

    @property
    def columns(self) -> int:
        """N_r in elements."""
        return self.vectors * self.lanes

    def __str__(self) -> str:
        """The decisions that are not the usual ones, in a line."""
        words = [f"{self.algorithm.value} of {self.rows} x {self.vectors} x {self.lanes}"]
        words.append(f"left {self.left_packing.value}, right {self.right_packing.value}")
        words.append(f"elements of left by {self.broadcast.value}")
        words += [f"{self.unroll} steps at a time"] * (self.unroll > 1)
        words += [f"{self.group} steps an instruction"] * (self.group > 1)
        words += [f"prefetch {self.ahead} steps ahead"] * (self.ahead > 0)
        words += [f"{self.streams} partial sums"] * (self.streams > 1)
        words += [f"parallel over {self.parallel}"] * (self.parallel != "none")
        flags = ("swapped", "flipped", "apart", "guarded")
        words += [flag for flag in flags if getattr(self, flag)]
        missing = [x for x in "gijp" if x not in self.strided]
        words += [f"offset tables for {', '.join(missing)}"] * bool(missing)
        divided = [x for x in "gijp" if self.strided.count(x) > 1]
        words += [f"{', '.join(divided)} counted by division"] * bool(divided)
        return "; ".join(words if self.runs else [*words, "out element by element"])

    @property
    def steps_in_run(self) -> int:
        """Steps of p that packing through a transposition reads as one vector."""
        return steps_in_run(self.lanes, self.group)

    @property
    def streams(self) -> int:
        """Partial sums of one element of out that are kept side by side; 1: the order of p."""
        match self.algorithm:
            case Algorithm.ROWS:
                # The steps that do not fill a vector have a sum of their own.
                return self.columns + (self.lanes > 1)
            case Algorithm.COLUMNS:
                return self.rows if self.apart else 1
            case _:
                return 1


def steps_in_run(lanes: int, group: int) -> int:
    """Steps that packing along p reads as one vector."""
    return lanes if group == 1 else group * min(4, max(1, lanes // group))


class OperandTypes:
    """Which types the operands of a kernel have: those of the program, or exchanged."""

    __slots__ = ()
    algebra: Algebra

    @property
    def swapped(self) -> bool:
        """Whether right is the first factor of times."""
        raise NotImplementedError

    @property
    def left(self) -> DType:
        """The type of the operand that plays left."""
        return self.algebra.right if self.swapped else self.algebra.left

    @property
    def right(self) -> DType:
        """The type of the operand that plays right."""
        return self.algebra.left if self.swapped else self.algebra.right


@dataclass(frozen=True, slots=True)
class ContractionKernel(OperandTypes):
    """Everything the code of a contraction kernel depends on."""

    algebra: Algebra
    variant: KernelVariant

    @property
    def swapped(self) -> bool:
        """Whether right is the first factor of times."""
        return self.variant.swapped

    @property
    def packed_left(self) -> DType:
        """The type of left in packed panels."""
        if self.variant.flipped:
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
        accumulator, group = self.algebra.accumulator, self.variant.group
        if group > 1:
            fits = operand.bits * group == accumulator.bits
            return operand if fits else DTYPES["int16"]
        if operand == accumulator:
            return operand
        if self.algebra.scaled or not operand.is_integer:
            return accumulator
        if operand.bits == 8 and accumulator.bits >= 32:
            return DTYPES["int16"]
        return operand if operand.bits == 16 and accumulator.bits == 32 else accumulator
