"""Elementwise assignments as a LoopNest: prologues and epilogues around a contraction."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.contraction import LoopRange
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.loops import Buffer, For, LoopNest, Mark, Stmt, Store
from loopwright.ir.program import Access, Array
from loopwright.ir.visit import loads
from loopwright.lower.buffers import stride_name
from loopwright.lower.vectorize import vectorize

__all__ = ["lower_elementwise"]


def lower_elementwise(
    name: str,
    loops: Sequence[LoopRange],
    target: Access,
    value: Expr,
    arrays: Sequence[Array],
    params: Sequence[str],
    lanes: int,
) -> LoopNest:
    """`target = value` for every point of the loops, the last one in vectors.

    `value` reads any of `arrays`, and of the target's array at most the element it writes, so all
    points are independent.
    """
    body: Stmt = Store(target.array, target.index, value)
    for depth, loop in enumerate(reversed(loops)):
        mark = Mark.VECTOR if depth == 0 else Mark.SERIAL
        body = For(loop.name, loop.start, loop.stop, body, Const(1), mark)
    used = {target.array, *(x.array for x in loads(value))}
    kept = [a for a in arrays if a.name in used]
    buffers = tuple(
        Buffer(
            a.name,
            a.dtype,
            tuple(Var(stride_name(a.name, d)) for d in range(a.rank)),
            writable=a.name == target.array,
        )
        for a in kept
    )
    strides = (stride_name(a.name, d) for a in kept for d in range(a.rank))
    nest = LoopNest(name, buffers, (*params, *strides), body)
    return vectorize(nest, {loops[-1].name: lanes}) if loops else nest
