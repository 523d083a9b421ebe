"""ContractionShape: a contraction with its numbers filled in.

The loops of each bundle are linearised: a linear index counts through the bundle's loops in their
order, the last one fastest. Which operand plays left, and the order of loops inside a bundle, are
free choices that decide how memory is met: see planner/contraction_plans/arrange.
"""

from __future__ import annotations

import math

import numpy as np

from loopwright.lazy_dataclass import dataclass

__all__ = [
    "MOST_TABLE_BYTES",
    "ContractionShape",
    "Dim",
    "has_runs",
    "offsets",
    "offsets_at",
    "strided_bundles",
    "table_bytes",
]

MOST_TABLE_BYTES = 1 << 24  # of the offset tables of one launch; they are kept with its kernel
_OPERANDS = {"g": 3, "i": 2, "j": 2, "p": 2}  # that a bundle moves: tables of which it may need


@dataclass(frozen=True, slots=True)
class Dim:
    """One loop of a bundle: its extent, and the element strides along it in each operand."""

    extent: int
    left: int
    right: int
    out: int

    def turned(self) -> Dim:
        """The same loop after left and right change places."""
        return Dim(self.extent, self.right, self.left, self.out)


@dataclass(frozen=True, slots=True)
class ContractionShape:
    """The loops of all four bundles."""

    batch: tuple[Dim, ...]
    i: tuple[Dim, ...]
    j: tuple[Dim, ...]
    p: tuple[Dim, ...]
    swapped: bool = False  # left and right have changed places
    bases: tuple[int, int, int] = (0, 0, 0)  # offset of the first element: left, right, out

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """G, M, N, K."""
        batch, m, n, k = (math.prod(d.extent for d in x) for x in self.bundles)
        return batch, m, n, k

    @property
    def bundles(self) -> tuple[tuple[Dim, ...], ...]:
        return self.batch, self.i, self.j, self.p

    def turned(self) -> ContractionShape:
        """Left and right, i and j change places: the transposed product."""
        turn = [tuple(d.turned() for d in dims) for dims in self.bundles]
        left, right, out = self.bases
        return ContractionShape(
            turn[0], turn[2], turn[1], turn[3], not self.swapped, (right, left, out)
        )


def has_runs(dims: tuple[Dim, ...], operand: str, lanes: int) -> bool:
    """Whether vectors at multiples of `lanes` in a bundle are runs of unit stride."""
    if not dims or getattr(dims[-1], operand) != 1:
        return False
    return len(dims) == 1 or dims[-1].extent % lanes == 0


def offsets(dims: tuple[Dim, ...], operand: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Offset of every linear index of a bundle in one operand."""
    total = np.zeros(1, dtype=np.int64)
    for d in dims:
        steps = np.arange(d.extent, dtype=np.int64) * getattr(d, operand)
        total = (total[:, None] + steps).reshape(-1)
    return total


def offsets_at(
    dims: tuple[Dim, ...], operand: str, index: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Offsets of some linear indices of a bundle in one operand."""
    total = np.zeros_like(index)
    for d in reversed(dims):
        index, number = np.divmod(index, d.extent)
        total += number * getattr(d, operand)
    return total


def table_bytes(
    shape: ContractionShape, strided: str, entry: int = 8, tiles: int | None = None
) -> int:
    """The most bytes that the offset tables of the bundles without strides take.

    An entry has so many bytes; tables of p have an entry for each step, or `tiles` in all.
    """
    counts = _entries(shape, tiles).items()
    return sum(entry * _OPERANDS[x] * count for x, count in counts if x not in strided)


def _entries(shape: ContractionShape, tiles: int | None) -> dict[str, int]:
    """The entries of a table of each bundle."""
    found = dict(zip("gijp", shape.sizes, strict=True))
    return found if tiles is None else found | {"p": tiles}


def strided_bundles(
    shape: ContractionShape, looked_up: str = "", entry: int = 8, tiles: int | None = None
) -> str:
    """`strided` of the variant for an arranged shape: the bundles that go without tables.

    A bundle of one loop has a stride in every operand. The offsets of several loops are looked up,
    which is fastest, while their tables are small. Beyond MOST_TABLE_BYTES the largest bundles are
    counted by division, which takes no memory. Bundles that are `looked_up` have tables while they
    are small, whether they have a stride or not. For `entry` and `tiles` see table_bytes.
    """
    loops = dict(zip("gijp", (len(dims) for dims in shape.bundles), strict=True))
    chosen = {name for name, count in loops.items() if count <= 1} - set(looked_up)

    def strided() -> str:
        return "".join(x * max(1, loops[x]) for x in "gijp" if x in chosen)

    while table_bytes(shape, strided(), entry, tiles) > MOST_TABLE_BYTES:
        counts = _entries(shape, tiles).items()
        _, largest = max((_OPERANDS[x] * count, x) for x, count in counts if x not in chosen)
        chosen.add(largest)
    return strided()
