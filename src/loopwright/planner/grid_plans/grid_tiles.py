"""The tiles that products on a GPU may have, by the size of a sum."""

from __future__ import annotations

from loopwright.lazy_dataclass import dataclass

__all__ = ["TILES_4", "TILES_8", "TILES_16", "TILES_MMA", "ProductTile"]


@dataclass(frozen=True, slots=True)
class ProductTile:
    """A row of the table: a tile, and how many blocks of it a multiprocessor shall hold."""

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    resident: int = 0
    stages: int = 2
    piece: int = 4
    slices: int = 1
    uses_mma: bool = False

    @property
    def threads(self) -> int:
        group = (self.rows // self.thread_rows) * (self.columns // self.thread_columns)
        return group * self.slices


# Large tiles first (measured on an H200): speed follows the elements that a thread computes with
# what it reads. The last ones are for results of few rows or columns.
TILES_4 = (
    ProductTile(128, 256, 16, 8, 16, resident=1),
    ProductTile(128, 128, 16, 8, 8, resident=2, stages=3),
    ProductTile(128, 128, 8, 8, 8, resident=2),
    ProductTile(128, 64, 32, 16, 8, resident=1, slices=4),
    ProductTile(64, 128, 32, 8, 16, resident=1, slices=4),
    ProductTile(64, 128, 8, 8, 8),
    ProductTile(128, 64, 8, 8, 8),
    ProductTile(64, 64, 32, 8, 8, resident=1, slices=4),
    ProductTile(64, 64, 16, 8, 4),
    ProductTile(32, 64, 32, 8, 4, slices=4),
    ProductTile(32, 32, 32, 8, 4, slices=8),
    ProductTile(32, 64, 16, 4, 4),
    ProductTile(64, 32, 16, 4, 4),
    ProductTile(32, 32, 16, 4, 4),
    ProductTile(128, 16, 16, 4, 4),
    ProductTile(16, 128, 16, 4, 4),
    ProductTile(256, 8, 16, 4, 4),
    ProductTile(8, 256, 16, 4, 4),
)
# Of the matrix unit, for machines that have one of float64: a warp has 8 by 4 threads.
TILES_MMA = (
    ProductTile(64, 128, 8, 8, 8, resident=2, stages=4, uses_mma=True),
    ProductTile(128, 64, 16, 8, 8, resident=2, stages=3, uses_mma=True),
    ProductTile(64, 64, 16, 4, 8, resident=2, stages=3, uses_mma=True),
    ProductTile(32, 64, 16, 4, 4, resident=2, stages=3, uses_mma=True),
    ProductTile(64, 32, 16, 4, 4, resident=2, stages=3, uses_mma=True),
    ProductTile(32, 32, 16, 2, 4, resident=2, stages=3, uses_mma=True),
)
TILES_8 = (
    ProductTile(64, 128, 16, 8, 8, resident=2, stages=4, piece=2),
    ProductTile(64, 128, 8, 8, 8, resident=2, stages=3, piece=2),
    ProductTile(128, 64, 8, 8, 8, resident=2, stages=3, piece=2),
    ProductTile(64, 128, 8, 8, 8, resident=2, piece=2),
    ProductTile(64, 128, 16, 8, 8, resident=1, piece=2, slices=2),
    ProductTile(64, 64, 16, 8, 8, resident=1, piece=2, slices=4),
    ProductTile(64, 64, 8, 8, 4, piece=2),
    ProductTile(32, 64, 16, 8, 4, piece=2, slices=4),
    ProductTile(32, 64, 16, 4, 4, piece=2),
    ProductTile(64, 32, 16, 4, 4, piece=2),
    ProductTile(32, 32, 16, 4, 4, piece=2),
    ProductTile(128, 16, 16, 4, 4, piece=2),
    ProductTile(16, 128, 16, 4, 4, piece=2),
)
# Of complex128: four registers to each sum.
TILES_16 = (
    ProductTile(64, 64, 8, 8, 4, piece=1),
    ProductTile(64, 64, 8, 4, 4, piece=1),
    ProductTile(32, 64, 8, 4, 4, piece=1),
    ProductTile(64, 32, 8, 4, 4, piece=1),
    ProductTile(32, 32, 8, 4, 4, piece=1),
    ProductTile(128, 16, 8, 4, 4, piece=1),
    ProductTile(16, 128, 8, 4, 4, piece=1),
)
