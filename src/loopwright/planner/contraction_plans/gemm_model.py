"""Block sizes of the generalised matrix product, from the machine alone.

The loops of algorithm 6 (theory 1, section 3), outermost first:

    j step N_c, p step K_c (pack B(p, j) to B_c), i step M_c (pack A(i, p) to A_c),
    j_c step N_r, i_c step M_r, p_c: rank-1 update of an M_r x N_r register tile.

Numbers in brackets are the equations of the seed. Sizes are numbers of elements. Every function is
pure and takes constant time: no search, no machine at hand.
"""

from __future__ import annotations

import math
from enum import Enum

from loopwright.ir.machine import Cache, Machine, Processor
from loopwright.lazy_dataclass import dataclass

__all__ = ["GemmBlocks", "MicroTile", "TileRule", "gemm_blocks"]

# Without a third cache level B_c lives in memory; the seed's implementation then takes this many
# register tiles as N_c.
_TILES_WITHOUT_LAST_LEVEL = 256
# Registers for products on their way to the sums, where the two are separate instructions: with
# one or two LLVM's register allocator spills accumulators in the innermost loop (measured, N1).
_PRODUCTS = 3


class TileRule(Enum):
    """How the register tile is chosen."""

    LARGEST = "largest"  # the best ratio of arithmetic to loads that fits the registers
    PRINTED = "printed"  # the seed's [1.1, 1.2]: the smallest tile that fills the pipes


@dataclass(frozen=True, slots=True)
class MicroTile:
    """The part of C that stays in registers over the innermost loop."""

    m_r: int  # rows
    n_r: int  # columns, a multiple of N_VEC

    @property
    def ratio(self) -> float:
        """Updates per element loaded, M_r * N_r / (M_r + N_r)."""
        return self.m_r * self.n_r / (self.m_r + self.n_r)


@dataclass(frozen=True, slots=True)
class GemmBlocks:
    """All sizes of algorithm 6."""

    m_r: int  # rows of the register tile
    n_r: int  # columns of the register tile
    k_c: int  # depth of the packed panels
    m_c: int  # rows of A_c
    n_c: int  # columns of B_c
    registers: int  # vector registers the innermost loop needs


def printed_tile(processor: Processor) -> MicroTile:
    """The smallest tile without a bubble in the vector pipe.

    With gamma = N_VEC * L_VMMA * N_VMMA: M_r * N_r >= gamma [1.1], as square as possible [1.2]:
    N_r = ceil(sqrt(gamma) / N_VEC) * N_VEC, M_r = ceil(gamma / N_r).
    """
    gamma = processor.gamma
    n_r = ceiling(math.sqrt(gamma) / processor.lanes) * processor.lanes
    return MicroTile(ceiling(gamma / n_r), n_r)


def largest_tile(processor: Processor) -> MicroTile:
    """The tile of the best ratio M_r * N_r / (M_r + N_r) among those the machine can keep fed.

    gamma is only a lower bound: the seed needed more registers than [1.2] for library speed. A tile
    fits when its accumulators, one column of A and one row of B fit N_REG. It is kept fed when the
    loads of a rank-1 update issue within the cycles of its arithmetic and are no more than its
    vector updates. Ties go to the larger N_r, which passes over A_c less often. When no tile that
    fits reaches gamma, the best of those that fit is taken.
    """
    tiles = _fitting_tiles(processor)
    if not tiles:
        return MicroTile(1, processor.lanes)
    full = [t for t in tiles if t.m_r * t.n_r >= processor.gamma]
    fed = [t for t in full if _is_fed(t, processor)]
    return max(fed or full or tiles, key=lambda tile: (tile.ratio, tile.n_r))


def _fitting_tiles(processor: Processor) -> list[MicroTile]:
    # An instruction that takes a lane reads A in whole registers, so M_r is a multiple of them.
    rows = processor.lanes if processor.by_element else 1
    tiles = [
        MicroTile(m_r, vectors * processor.lanes)
        for vectors in range(1, processor.registers + 1)
        for m_r in range(rows, processor.registers // vectors + 1, rows)
    ]
    return [t for t in tiles if tile_registers(t, processor) <= processor.registers]


def tile_registers(tile: MicroTile, processor: Processor) -> int:
    """Registers of a rank-1 update: the accumulators, the row of B, the column of A, a product."""
    vectors = tile.n_r // processor.lanes
    # A column of A stays packed where an instruction takes one lane of it; elsewhere one register
    # at a time holds a broadcast element. An unfused step keeps some products for a moment.
    column = ceiling(tile.m_r / processor.lanes) if processor.by_element else 1
    return tile.m_r * vectors + vectors + column + (0 if processor.fused else _PRODUCTS)


def _is_fed(tile: MicroTile, processor: Processor) -> bool:
    """True when the loads of a rank-1 update neither outlast nor outnumber its vector updates.

    Broadcasting machines load each element of A; the others whole registers of it.
    """
    vectors = tile.n_r // processor.lanes
    column = ceiling(tile.m_r / processor.lanes) if processor.by_element else tile.m_r
    loads, updates = vectors + column, tile.m_r * vectors
    return loads <= updates and loads / processor.loads_per_cycle <= updates / processor.per_cycle


def block_depth(tile: MicroTile, l1: Cache, element_bytes: int) -> int:
    """K_c: the deepest panels A_r (M_r x K_c) and B_r (K_c x N_r) that share L1 with a line of C.

    A_r fills C_Ar whole lines of every set, M_r * K_c * S_DATA = C_Ar * N_L1 * C_L1 [1.3], so that
    the next A_r falls on the lines of the last one; hence K_c = C_Ar * N_L1 * C_L1 / (M_r * S_DATA)
    [1.4]. B_r takes C_Br = N_r * C_Ar / M_r lines [1.7]; one line is left to C, so C_Ar + C_Br <=
    W_L1 - 1 [1.5, 1.6], which gives C_Ar = floor((W_L1 - 1) / (1 + N_r / M_r)).

    Where not even one line of each set is left to A_r (few ways, or N_r far above M_r), C_Ar is
    taken as the fraction it is: the panels still fit together, but share lines.
    """
    share = (l1.ways - 1) / (1 + tile.n_r / tile.m_r)
    lines = math.floor(share + 1e-9) or share or 1 / 2  # a direct-mapped cache: half of it
    return max(1, math.floor(lines * l1.way_bytes / (tile.m_r * element_bytes) + 1e-9))


def half_cache_depth(tile: MicroTile, l1: Cache, element_bytes: int) -> int:
    """K_c of the largest tiles: B_r (K_c x N_r) takes half of L1, A_r and C pass by in the rest.

    [1.4] leaves room for whole lines of A_r in every set, which LRU caches with few ways pay for
    with short panels: C is then read and written more often. Measured on Neoverse N1 (4 ways):
    512 steps against 256 gain 5% in double, 682 against 341 4% in single precision.
    """
    return max(1, l1.size // 2 // (tile.n_r * element_bytes))


def block_rows(k_c: int, l2: Cache, element_bytes: int) -> int:
    """M_c = (W_L2 - 2) * S_L2 / (K_c * S_DATA * W_L2): A_c fills L2 but for two lines of each set.

    The two are for B_r and C; a cache of two ways or fewer gives half of itself.
    """
    share = max(l2.ways - 2, l2.ways / 2) / l2.ways
    return max(1, math.floor(share * l2.size / (k_c * element_bytes)))


def block_columns(k_c: int, n_r: int, b_bytes: int, element_bytes: int) -> int:
    """N_c = floor(C_Bc / (K_c * S_DATA * N_r)) * N_r: B_c in the C_Bc bytes given to it."""
    return max(1, b_bytes // (k_c * element_bytes * n_r)) * n_r


def gemm_blocks(
    machine: Machine,
    plus: str,
    times: str,
    dtype_name: str,
    *,
    rule: TileRule = TileRule.LARGEST,
    b_bytes: int | None = None,
) -> GemmBlocks:
    """All sizes of algorithm 6 for one machine, operator pair and element type.

    `b_bytes` is C_Bc; by default half of the last of at least three cache levels. Under the
    printed rule M_c is the printed quotient; otherwise it is cut to whole register tiles.
    """
    processor = machine.processor(plus, times, dtype_name)
    size = processor.element_bytes
    if rule is TileRule.PRINTED:
        tile = printed_tile(processor)
    else:
        tile = largest_tile(processor)
    depth = block_depth if rule is TileRule.PRINTED else half_cache_depth
    k_c = depth(tile, processor.l1, size)
    m_c = block_rows(k_c, processor.l2, size)
    if rule is TileRule.LARGEST:
        m_c = max(1, m_c // tile.m_r) * tile.m_r
    if b_bytes is None and len(machine.caches) < 3:
        n_c = _TILES_WITHOUT_LAST_LEVEL * tile.n_r
    else:
        given = machine.caches[-1].size // 2 if b_bytes is None else b_bytes
        n_c = block_columns(k_c, tile.n_r, given, size)
    return GemmBlocks(tile.m_r, tile.n_r, k_c, m_c, n_c, tile_registers(tile, processor))


def ceiling(value: float) -> int:
    """Round up, but not for the last digit of a float: 3.0000000000000004 is 3."""
    return math.ceil(value - 1e-9)
