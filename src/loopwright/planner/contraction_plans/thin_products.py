"""Register tiles of products with few rows or columns, whose packed panels are hardly used again.

A packed element of left is used by ceil(N / N_r) tiles, one of right by ceil(M / M_r). Where that
is once or twice, packing costs a load and a store for one or two loads that it makes cheaper, and
the tile of the machine (gemm_model) computes rows or columns that are not there. Here are tiles as
flat or as narrow as the product; contraction_cost says which of them pays.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopwright.ir.kernel_variant import Broadcast
from loopwright.lazy_dataclass import dataclass

__all__ = ["TileLimits", "is_thin", "thin_tiles"]

_FEW = 2  # tiles that use a packed panel, at most
_MOST_ROWS = 8  # streams of left at a time that prefetchers follow
_MOST_VECTORS = 8  # of right: two lines and more of each step
_MOST_COLUMNS = 128  # or as many as the usual tile has: code is written down for each of them
_SPARE = 2  # registers that LLVM wants for itself where rows are read in place
_PRODUCTS = 7  # registers of a replicated step beside sums and right, see gemm_plan


@dataclass(frozen=True, slots=True)
class TileLimits:
    """What bounds the tiles of one product."""

    lanes: int
    registers: int
    broadcast: Broadcast
    left: bool  # left may be read in place
    right: bool  # right may be, too, where tiles are whole
    ragged: bool  # or where the last one may be shifted
    parts: int = 1  # registers of a vector: two of complex numbers

    def fits(self, rows: int, vectors: int) -> bool:
        """Whether sums, a row of right and what left needs find registers.

        Where both parts of a complex element of left are loaded into all lanes, a third register
        holds a part of the next one: without it LLVM spills on some machines (14 x 1 on Zen 4 and,
        four steps at a time, on Cascade Lake; 13 x 1 on none).
        """
        needed = self.parts * (rows * vectors + vectors)
        if self.broadcast is Broadcast.REPLICATED:
            return needed + _PRODUCTS <= self.registers
        if self.broadcast is Broadcast.LOAD:
            return needed + (1 if self.parts == 1 else self.parts + 1) <= self.registers
        column = rows + _SPARE if self.left else self.parts * -(-rows // self.lanes)
        return needed + column <= self.registers

    def most_rows(self, vectors: int) -> int:
        """Rows of the highest tile of so many vectors; 0: none fits."""
        return next((rows for rows in range(_MOST_ROWS, 0, -1) if self.fits(rows, vectors)), 0)

    def most_vectors(self, rows: int, limit: int) -> int:
        """Vectors of the widest tile of so many rows, up to a limit; 0: none fits."""
        sizes = range(min(_MOST_VECTORS, limit), 0, -1)
        return next((vectors for vectors in sizes if self.fits(rows, vectors)), 0)

    def rounded(self, rows: int) -> int:
        """Rows in whole vectors where a lane of a packed column is taken."""
        if self.left or self.broadcast is not Broadcast.LANE or rows < self.lanes:
            return rows
        return -(-rows // self.lanes) * self.lanes


def is_thin(m: int, n: int, rows: int, columns: int) -> bool:
    """Whether panels of an operand are used by few tiles of `rows` x `columns`."""
    return m <= _FEW * rows or n <= _FEW * columns


def thin_tiles(
    m: int, n: int, rows: int, columns: int, limits: TileLimits
) -> Iterator[tuple[int, int, bool]]:
    """Rows, vectors and whether right is read in place, of tiles that share `m` x `n` evenly."""
    whole = -(-n // limits.lanes)
    widest = max(1, max(columns, _MOST_COLUMNS) // limits.lanes)
    found: dict[tuple[int, int, bool], None] = {}
    if n <= _FEW * columns:
        for parts in range(1, _FEW + 1):
            vectors = -(-whole // parts)
            most = limits.most_rows(vectors)
            if most and vectors <= widest:
                found[limits.rounded(-(-m // -(-m // most))), vectors, False] = None
    if m <= _FEW * rows:
        for parts in range(1, _FEW + 1):
            high = limits.rounded(-(-m // parts))
            most = limits.most_vectors(high, min(whole, widest))
            if not most:
                continue
            vectors = -(-whole // -(-whole // most))
            found[high, vectors, False] = None
            if not limits.right:
                continue
            even = [v for v in range(1, most + 1) if n % (v * limits.lanes) == 0]
            if even:
                found[high, even[-1], True] = None
            # As wide as one tile of all columns does not always do: two share them then.
            narrow = vectors if n >= vectors * limits.lanes else -(-whole // 2)
            if limits.ragged and n >= narrow * limits.lanes:
                found[high, narrow, True] = None
    return iter(found)
