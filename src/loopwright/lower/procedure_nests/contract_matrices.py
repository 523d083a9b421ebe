"""Products of large matrices by the kernels of contractions, on the arrays of the procedure.

Both ways add the products of an element in the order of the sum, each with one rounding, so that
sizes may choose between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from loopwright.ir.contraction import (
    LOOP_I,
    LOOP_J,
    LOOP_P,
    AffineSubscripts,
    ElementIndex,
    Factor,
    InnerContraction,
    InnerProduct,
    LoopRange,
)
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.expr import Binary, Const, Expr
from loopwright.ir.kernel_variant import Initial
from loopwright.ir.loops import Stmt
from loopwright.ir.program import Access
from loopwright.ir.schedule import ScheduledContraction
from loopwright.lower.contraction_nests.contraction_nest import lower_inner_contraction
from loopwright.lower.procedure_nests.element_maps import ElementMap

__all__ = ["PlanProduct", "contracted", "is_large"]

PlanProduct: TypeAlias = Callable[[InnerContraction, ContractionShape], ScheduledContraction]

_EXPECTED = 2048  # extents that only a call tells
_APART = 1 << 13  # elements between neighbours that are not beside each other
_LEAST_WORK = 1 << 18  # multiply-adds: fewer do not repay packing (64 x 64 x 64)
_LEAST_SIDE = 16  # rows and columns: each packed element is used that often
_ZERO = Const(0)


def is_large(rows: Expr, columns: Expr, steps: Expr) -> Expr:
    """Whether a product is large enough for the kernels of contractions."""
    work = Binary("ge", rows * columns * steps, Const(_LEAST_WORK))
    for side in (rows, columns):
        work = Binary("and", work, Binary("ge", side, Const(_LEAST_SIDE)))
    return work


def contracted(
    maps: tuple[ElementMap, ElementMap, ElementMap],
    batch: tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[Expr, ...]],
    plan: PlanProduct,
    taken: Collection[str],
) -> Stmt | None:
    """`target[...] = left @ right` of matrices; None where kernels do not fit it.

    They want constant steps, and rows and columns that are not few in all calls.

    `maps` are the target, the left and the right factor, `batch` are their subscripts before the
    axes of the matrices; `taken` are the names that must not be bound again.
    """
    target, left, right = maps
    places = [
        _subscripts(found, before, loops)
        for found, before, loops in zip(
            maps, batch, ((LOOP_I, LOOP_J), (LOOP_I, LOOP_P), (LOOP_P, LOOP_J)), strict=True
        )
    ]
    subscripts = [place for place in places if place is not None]
    sides = (left.shape[-2], right.shape[-1])
    if any(isinstance(side, Const) and side.value.real < _LEAST_SIDE for side in sides):
        return None
    if len(subscripts) < len(places) or _stride(target, subscripts[0], LOOP_J) != 1:
        return None
    out, first, second = subscripts
    extents = (left.shape[-2], right.shape[-1], left.shape[-1])
    ranges = zip((LOOP_I, LOOP_J, LOOP_P), extents, strict=True)
    found = InnerContraction(
        statements=("product",),
        outer=(),
        ranges=tuple(LoopRange(loop, _ZERO, extent) for loop, extent in ranges),
        guards=(),
        plus="add",
        zero=0.0 if target.dtype.kind in "fc" else 0,
        products=(InnerProduct("mul", _factor(left, first), _factor(right, second), False),),
        out=Access(target.base, out.base, target.dtype),
        subscripts=out,
        is_in_place=False,
    )
    dims = {
        loop: Dim(
            int(extent.value.real) if isinstance(extent, Const) else _EXPECTED,
            _stride(left, first, loop),
            _stride(right, second, loop),
            _stride(target, out, loop),
        )
        for loop, extent in zip((LOOP_I, LOOP_J, LOOP_P), extents, strict=True)
    }
    shape = ContractionShape((), (dims[LOOP_I],), (dims[LOOP_J],), (dims[LOOP_P],))
    return lower_inner_contraction(plan(found, shape), {}, taken, Initial.ZERO)


def _factor(found: ElementMap, subscripts: AffineSubscripts) -> Factor:
    place = Access(found.base, subscripts.base, found.dtype)
    return Factor(place.load(), None, ElementIndex(found.base, subscripts.base), subscripts)


def _subscripts(
    found: ElementMap, before: tuple[Expr, ...], loops: tuple[str, str]
) -> AffineSubscripts | None:
    """Where the elements of a matrix lie; None where a step is not constant."""
    steps = {loop: [0] * len(found.start) for loop in (LOOP_I, LOOP_J, LOOP_P)}
    for loop, axis in zip(loops, found.axes[-2:], strict=True):
        for dimension, step in axis.steps:
            if not isinstance(step, Const):
                return None
            steps[loop][dimension] += int(step.value.real)
    base = found.element((*before, _ZERO, _ZERO))
    return AffineSubscripts(base, {loop: tuple(step) for loop, step in steps.items()})


def _stride(found: ElementMap, place: AffineSubscripts, loop: str) -> int:
    """Elements from one iteration to the next, as far as plans need it: 1 along rows of memory."""
    step = place.steps[loop]
    moving = [dimension for dimension, by in enumerate(step) if by]
    if not moving:
        return 0
    last = len(step) - 1
    is_run = moving == [last] and found.order[-1] == last
    return step[last] if is_run else _APART * sum(map(abs, step))
