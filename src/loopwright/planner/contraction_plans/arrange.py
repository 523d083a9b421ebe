"""The order of a contraction's loops and the role of its operands, from strides alone.

Decided here once, so that speed does not depend on how indices are named or operands ordered.
"""

from __future__ import annotations

import math
from dataclasses import replace

from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.kernel_variant import Algorithm, KernelVariant

__all__ = ["arrange", "arrange_elements", "arrange_for"]


def arrange(shape: ContractionShape, lanes: int, reorder: bool = True) -> ContractionShape:
    """The equivalent shape whose memory accesses suit the kernels.

    With `reorder` False the reduction loops keep their order: floating sums are then taken exactly
    as the program wrote them.

    Loops of extent 1 vanish and loops that continue each other in every operand become one. The
    bundle that holds the unit stride of out becomes j, along which vectors run. Then each bundle's
    fastest loop is the one with unit stride where vectors read or write.
    """
    batch, i, j = (_fused(_by_stride(x)) for x in (shape.batch, shape.i, shape.j))
    p = _fused(_by_stride(shape.p) if reorder else shape.p)
    found = replace(shape, batch=batch, i=i, j=j, p=p)
    if _prefers_turning(found, lanes):
        found = found.turned()
    return replace(
        found,
        batch=_sorted(found.batch, "out"),
        i=_sorted(found.i, "left"),
        j=_sorted(found.j, "out" if _follows_out(found, lanes) else "right"),
        p=_sorted(found.p, _fastest_operand(found)) if reorder else found.p,
    )


def _follows_out(shape: ContractionShape, lanes: int) -> bool:
    """Whether j counts along out rather than along right.

    It does where out is then written in whole vectors, or is met more often than right: out is read
    and written for every block of p, right is packed once.
    """
    _, rows, _, steps = shape.sizes
    if steps > 2 * rows and _unit_run(shape.j, "right") >= lanes:
        return False
    return _vector_run(shape.j, lanes) or steps <= 2 * rows


def _prefers_turning(shape: ContractionShape, lanes: int) -> bool:
    """Whether vectors should run along i rather than j."""
    if not shape.j:
        return _unit_run(shape.i, "left") > 1
    if not shape.i:
        # Rows whose elements lie far apart along j are read along p: as those of left would be.
        return _unit_run(shape.j, "right") == 1
    along_i, along_j = (_vector_run(x, lanes) for x in (shape.i, shape.j))
    if along_i != along_j:
        return along_i > along_j
    # Neither (or both) can be written in vectors: columns that lie near each other in out share
    # its cache lines; else let vectors run along the longer bundle.
    near_i, near_j = (_nearest(x, "out") for x in (shape.i, shape.j))
    if near_i != near_j:
        return near_i < near_j
    return math.prod(d.extent for d in shape.i) > math.prod(d.extent for d in shape.j)


def _vector_run(dims: tuple[Dim, ...], lanes: int) -> bool:
    """Whether out can be written in whole vectors along these loops."""
    for d in dims:
        if d.out == 1:
            return len(dims) == 1 or d.extent % lanes == 0
    return False


def _unit_run(dims: tuple[Dim, ...], operand: str) -> int:
    """Length of the loop of unit stride; 1 when there is none."""
    return max((d.extent for d in dims if getattr(d, operand) == 1), default=1)


def _nearest(dims: tuple[Dim, ...], operand: str) -> int:
    """The smallest distance between neighbours along these loops, in elements."""
    return min(int(abs(getattr(d, operand))) for d in dims)


def _fastest_operand(shape: ContractionShape) -> str:
    """The operand whose unit stride the reduction loops should follow.

    An operand with its unit stride in i or j is packed along those; what is left to p is the other
    one, or the larger when both have theirs in p.
    """
    left, right = (_unit_run(shape.p, x) for x in ("left", "right"))
    if (left > 1) != (right > 1):
        return "left" if left > 1 else "right"
    rows = math.prod(d.extent for d in shape.i)
    columns = math.prod(d.extent for d in shape.j)
    return "left" if rows >= columns else "right"


def _sorted(dims: tuple[Dim, ...], operand: str) -> tuple[Dim, ...]:
    """Loops by falling stride in one operand, so that the last one is the nearest in memory."""

    def key(d: Dim) -> tuple[int, int]:
        stride = abs(getattr(d, operand))
        # A loop the operand does not have comes first; it must not end up as the fastest one.
        return (-stride if stride else -(1 << 62), -d.extent)

    return tuple(sorted(dims, key=key))


def _by_stride(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Loops by falling stride, so that those that continue each other become neighbours."""
    return tuple(sorted(dims, key=lambda d: (-abs(d.out), -abs(d.left), -abs(d.right))))


def _fused(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Drop loops of extent 1 and join neighbours that continue each other in all operands."""
    joined: list[Dim] = []
    for d in dims:
        if d.extent == 1:
            continue
        if joined and _continues(joined[-1], d):
            d = replace(d, extent=joined.pop().extent * d.extent)
        joined.append(d)
    return tuple(joined)


def _continues(outer: Dim, inner: Dim) -> bool:
    return (
        outer.left == inner.left * inner.extent
        and outer.right == inner.right * inner.extent
        and outer.out == inner.out * inner.extent
    )


def arrange_elements(shape: ContractionShape) -> ContractionShape:
    """A shape without reduction as one loop, j, and all others linearised as a batch.

    j is the loop with the nearest elements of out, along which vectors run.
    """
    dims = [*shape.batch, *shape.i, *shape.j]
    dims.sort(key=lambda d: (-abs(d.out), -d.extent))
    inner = dims.pop() if dims else Dim(1, 0, 0, 1)
    return replace(shape, batch=tuple(dims), i=(), j=(inner,), p=())


def arrange_for(
    variant: KernelVariant, shape: ContractionShape, lanes: int, *, reorder: bool
) -> ContractionShape:
    """The shape as a kernel variant takes it: which operand is left is the variant's decision.

    `lanes` are those of the machine, as for `arrange`: a variant may have fewer.
    """
    arranged = arrange(shape, lanes, reorder)
    if arranged.swapped != variant.swapped:
        arranged = arranged.turned()
    if variant.algorithm is Algorithm.ELEMENTS and not arranged.p:
        arranged = arrange_elements(arranged)
    return arranged
