"""How the operands of a contraction may be moved on a GPU: types, runs in memory, wide accesses."""

from __future__ import annotations

import math

from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DType
from loopwright.ir.kernel_variant import Algebra

__all__ = [
    "access_width",
    "farthest",
    "is_along_p",
    "operand_bytes",
    "operand_types",
    "out_access",
    "repeats_in_tiles",
    "steps_apart",
    "table_entry_bytes",
    "tile_entries",
]

_MOST_BYTES = 16  # that one instruction moves


def operand_bytes(algebra: Algebra, shape: ContractionShape) -> tuple[int, int, int]:
    """Of an element of left, right and out."""
    left, right = operand_types(algebra, shape.swapped)
    return left.bytes, right.bytes, algebra.out.bytes


def operand_types(algebra: Algebra, swapped: bool) -> tuple[DType, DType]:
    return (algebra.right, algebra.left) if swapped else (algebra.left, algebra.right)


def is_along_p(shape: ContractionShape, operand: str) -> bool:
    """Whether neighbours of an operand in memory lie along the reduction."""
    dims = shape.i if operand == "left" else shape.j
    along = min((abs(getattr(d, operand)) or math.inf for d in shape.p), default=math.inf)
    across = min((abs(getattr(d, operand)) or math.inf for d in dims), default=math.inf)
    return bool(along < across)


def steps_apart(shape: ContractionShape, operand: str, depth: int) -> int:
    """Steps of p between neighbours of an operand that lie along its last loop but one.

    Where a tile holds both of them whole; else 1.
    """
    if len(shape.p) < 2 or getattr(shape.p[-2], operand) != 1:
        return 1
    slow, fast = shape.p[-2:]
    return fast.extent if slow.extent * fast.extent == depth else 1


def repeats_in_tiles(shape: ContractionShape, depth: int) -> bool:
    """Whether tiles of `depth` steps are whole, and steps lead equally far in all of them."""
    inner = 1
    for d in reversed(shape.p):
        if depth % inner == 0 and inner * d.extent % depth == 0:
            return True
        inner *= d.extent
    return False


def access_width(
    shape: ContractionShape, run: tuple[Dim, ...], operand: str, dtype: DType, alignment: int
) -> int:
    """Elements along the last loop of a run that may be moved at once.

    They are neighbours in memory and begin at multiples of the width.
    """
    if not run or getattr(run[-1], operand) != 1:
        return 1
    others = [d for dims in shape.bundles for d in dims if d is not run[-1]]
    width = min(4, _MOST_BYTES // dtype.bytes)
    while width > 1 and (
        run[-1].extent % width
        or alignment % (width * dtype.bytes)
        or any(getattr(d, operand) % width for d in others)
    ):
        width //= 2
    return width


def out_access(
    shape: ContractionShape, dtype: DType, alignment: int, columns: int
) -> tuple[int, int]:
    """Elements of out that a tile of so many columns may store at once, and columns between them.

    Neighbours of out lie along one loop of j, and as many columns apart as the loops behind it have
    steps.
    """
    at = next((n for n, d in enumerate(shape.j) if d.out == 1), -1)
    if at < 0:
        return 1, 1
    width = access_width(shape, shape.j[: at + 1], "out", dtype, alignment)
    apart = math.prod(d.extent for d in shape.j[at + 1 :])
    if apart == 1:
        return width, 1
    fits = width > 1 and apart % width == 0 and columns % (apart * width) == 0
    return (width, apart) if fits else (1, 1)


def table_entry_bytes(shape: ContractionShape) -> int:
    """The size of an entry of an offset table that holds every offset in the operands."""
    return 8 if farthest(shape) >= 1 << 31 else 4


def tile_entries(shape: ContractionShape, depth: int) -> int:
    """Entries of a table of p where all tiles of `depth` steps are alike: see GridTables.tile."""
    return depth + shape.sizes[3] // depth


def farthest(shape: ContractionShape) -> int:
    """The greatest offset of an element in any operand."""
    dims = [d for bundle in shape.bundles for d in bundle]

    def reach(operand: str) -> int:
        return sum(abs(int(getattr(d, operand))) * (d.extent - 1) for d in dims)

    return max(map(reach, ("left", "right", "out")))
