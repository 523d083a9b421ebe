"""Products of matrices and vectors as plain loops.

Sums of products are chains of fused multiply-adds: by eight accumulators where the fastest axis of
both factors is summed, along the rows of the right factor otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Const, Expr, Load
from loopwright.ir.loops import For, Mark, Stmt, Store
from loopwright.lower.procedure_nests.build_loops import Builder, block, loops
from loopwright.lower.procedure_nests.element_maps import ElementMap
from loopwright.lower.procedure_nests.pairwise_sums import accumulate_in_lanes

__all__ = ["lower_product"]

_LANES = 8
_ZERO, _ONE = Const(0), Const(1)


def lower_product(
    builder: Builder, target: ElementMap, left: ElementMap, right: ElementMap
) -> Stmt:
    """The loops of `target[...] = left @ right`."""
    dtype = target.dtype
    has_row, has_column = len(left.axes) > 1, len(right.axes) > 1
    index = builder.index(len(target.axes))
    summed = builder.index(1)[0]
    batch = index[: len(index) - has_row - has_column]
    row = index[len(batch) : len(batch) + has_row]
    column = index[len(batch) + has_row :]
    extent = left.shape[-1]

    def first(at: Expr) -> Expr:
        return left.load(_broadcast(left, (*batch, *row, at), 1 + has_row))

    def second(at: Expr) -> Expr:
        inner = (at, *column) if has_column else (at,)
        return right.load(_broadcast(right, (*batch, *inner), 1 + has_column))

    place = target.element(index)
    order = tuple(range(len(index)))
    if not has_column or right.by_memory()[-1] == len(right.axes) - 2:
        total = builder.cell("total", dtype)
        product = accumulate_in_lanes(
            builder,
            _LANES,
            extent,
            lambda before, at: _added(before, first(at), second(at), dtype),
            total,
        )
        body = block(product, Store(target.base, place, total.load()))
        return loops(index, target.shape, order, total.around(body), Mark.SERIAL)
    zero = Const(0.0 if dtype.kind in "fc" else False if dtype.kind == "b" else 0, dtype)
    innermost = (index[-1],), (target.shape[-1],), (0,)
    now = Load(target.base, place, dtype)
    updated = _added(now, first(summed), second(summed), dtype)
    update = loops(*innermost, Store(target.base, place, updated), Mark.SIMD)
    body = block(
        loops(*innermost, Store(target.base, place, zero), Mark.SIMD),
        For(summed.name, _ZERO, extent, update, _ONE),
    )
    return loops(index[:-1], target.shape[:-1], order[:-1], body, Mark.SERIAL)


def _added(before: Expr, x: Expr, y: Expr, dtype: DType) -> Expr:
    if dtype.is_float and dtype.bits > 16:
        return Call("fma", (x, y, before))
    return Binary("add", before, Binary("mul", x, y))


def _broadcast(factor: ElementMap, index: Sequence[Expr], own: int) -> tuple[Expr, ...]:
    """The index of an element of a factor: its batch axes broadcast, the last `own` do not."""
    taken = index[len(index) - len(factor.axes) :]
    batch = len(factor.axes) - own
    pairs = zip(factor.axes[:batch], taken[:batch], strict=True)
    return (*(_ZERO if x.extent == _ONE else at for x, at in pairs), *taken[batch:])
