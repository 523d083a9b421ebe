"""The order of a contraction's loops on a GPU, where two operands want different ones fastest.

Neighbouring threads of a warp should meet neighbours in memory, in every operand. Where right lies
along one loop of j and out along another, both are cut, and the inner pieces put last:

    ..., b, c  with b the run of right and c that of out   ->   ..., b1, c1, c0, b0

so that a tile holds whole sectors of both. A run may go on over several loops. Loops that their
pieces do not divide stay as they are.
"""

from __future__ import annotations

import math
from dataclasses import replace

from loopwright.ir.contraction_shape import ContractionShape, Dim

__all__ = ["elements_in_order", "fastest", "in_tiles", "joined_loops"]

_SECTOR = 32  # bytes
_LINE = 128


def in_tiles(
    shape: ContractionShape, columns: int, depth: int, sizes: tuple[int, int, int]
) -> ContractionShape:
    """An arranged shape whose tiles of j and of p hold runs of both operands that they touch.

    `sizes` are the bytes of an element of left, right and out.
    """
    # Right is loaded for every step, out stored once: of right, a tile holds longer runs.
    near = max(2, _SECTOR // sizes[1], min(_LINE // sizes[1], columns // (_SECTOR // sizes[2])))
    j = _interleaved(shape.j, "right", "out", near, max(2, columns // near))
    first, second = ("left", "right") if _unit(shape.p, "left") == _last(shape.p) else _TURNED
    p = _interleaved(shape.p, first, second, min(4, depth // 2), max(2, depth // 4), most=1)
    return replace(shape, j=j, p=p)


_TURNED = ("right", "left")


def fastest(dims: tuple[Dim, ...], operand: str) -> int:
    """The stride of the fastest loop in an operand; 0 where it has none."""
    return abs(getattr(dims[-1], operand)) if dims else 0


def _unit(dims: tuple[Dim, ...], operand: str) -> int:
    """The number of the loop of unit stride; -1 where there is none."""
    return next((n for n, d in enumerate(dims) if getattr(d, operand) == 1), -1)


def _last(dims: tuple[Dim, ...]) -> int:
    return len(dims) - 1


def _interleaved(
    dims: tuple[Dim, ...],
    inner: str,
    outer: str,
    inner_run: int,
    outer_run: int,
    most: int = 8,
) -> tuple[Dim, ...]:
    """Pieces of the runs of two operands last: that of `inner` fastest.

    A run is `most` loops at most, each of which goes on where the ones before it end.
    """
    fast, slow = _run(dims, inner, inner_run, most), _run(dims, outer, outer_run, most)
    if not fast or not slow:
        return dims
    if next(iter(fast)) == next(iter(slow)):  # along the same loop
        if len(fast) == 1:
            return dims
        slow = {}
    fast = {n: max(piece, slow.get(n, 1)) for n, piece in fast.items()}
    slow = {n: piece for n, piece in slow.items() if n not in fast}
    cut = {n: _cut(dims[n], piece) for n, piece in (*fast.items(), *slow.items())}
    found = [d for n, d in enumerate(dims) if n not in cut]
    found += [cut[n][0] for n in (*reversed(fast), *reversed(slow))]
    found += [cut[n][1] for n in (*reversed(slow), *reversed(fast))]
    return tuple(d for d in found if d.extent > 1)


def _run(dims: tuple[Dim, ...], operand: str, length: int, most: int) -> dict[int, int]:
    """Numbers of loops whose neighbours are neighbours in an operand, and pieces of them.

    From the one of unit stride on; together they make up to `length` elements.
    """
    found: dict[int, int] = {}
    size = 1
    while len(found) < most:
        n = next(
            (n for n, d in enumerate(dims) if getattr(d, operand) == size and n not in found), -1
        )
        piece = _divisor(dims[n].extent, length // size) if n >= 0 else 1
        if piece == 1:
            break
        found[n] = piece
        size *= piece
        if piece < dims[n].extent:
            break
    return found


def _divisor(extent: int, most: int) -> int:
    """The greatest divisor of an extent up to `most`."""
    return max(n for n in range(1, max(1, min(most, extent)) + 1) if extent % n == 0)


def _cut(d: Dim, piece: int) -> tuple[Dim, Dim]:
    outer = Dim(d.extent // piece, d.left * piece, d.right * piece, d.out * piece)
    return outer, replace(d, extent=piece)


def elements_in_order(shape: ContractionShape, sizes: tuple[int, int, int]) -> ContractionShape:
    """All loops of out as i, ordered for the operands of most bytes, and those of p likewise.

    Left and right are those of the program. Loops that continue each other are one.
    """
    if shape.swapped:
        shape = shape.turned()
    free = joined_loops((*shape.batch, *shape.i, *shape.j))
    p = joined_loops(shape.p)
    names = ("left", "right", "out")
    everything = (*free, *p)
    weight = {
        x: size * math.prod(d.extent for d in everything if getattr(d, x))
        for x, size in zip(names, sizes, strict=True)
    }
    lead = max(names, key=lambda x: (weight[x] if _unit(free, x) >= 0 else -1, x == "out"))
    free = _by_stride(free, lead)
    reads = max(("left", "right"), key=lambda x: weight[x] if _unit(p, x) >= 0 else -1)
    p = _by_stride(p, reads)
    if lead != "out" and not p:
        near = _SECTOR // max(1, sizes[names.index(lead)])
        free = _interleaved(free, lead, "out", near, 32, most=1)
    elif lead == "out" and not p:
        other = max(("left", "right"), key=lambda x: weight[x] if sizes[names.index(x)] else -1)
        free = _interleaved(free, "out", other, max(2, _SECTOR // sizes[2]), 32, most=1)
    return ContractionShape((), free, (), p, False, shape.bases)


def _by_stride(dims: tuple[Dim, ...], operand: str) -> tuple[Dim, ...]:
    """Loops by falling stride in one operand; those that it does not have come first."""

    def key(d: Dim) -> tuple[int, int]:
        stride = abs(getattr(d, operand))
        return (-stride if stride else -(1 << 62), -d.extent)

    return tuple(sorted(dims, key=key))


def joined_loops(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Loops by falling strides, without those of one step; neighbours that continue are one."""
    found: list[Dim] = []
    for d in sorted(dims, key=lambda d: (-abs(d.out), -abs(d.left), -abs(d.right))):
        if d.extent == 1:
            continue
        if found and all(
            getattr(found[-1], x) == getattr(d, x) * d.extent for x in ("left", "right", "out")
        ):
            d = replace(d, extent=found.pop().extent * d.extent)
        found.append(d)
    return tuple(found)
