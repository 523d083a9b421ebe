"""Fix strides that are known when a kernel is compiled: unit strides make vector accesses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.loops import Buffer, LoopNest

__all__ = ["specialise"]


def specialise(nest: LoopNest, known: Mapping[str, int]) -> LoopNest:
    """`nest` with the stride scalars named in `known` replaced by numbers in its arguments."""

    def fixed(stride: Expr) -> Expr:
        if isinstance(stride, Var) and stride.name in known:
            return Const(known[stride.name])
        return stride

    def buffer(argument: Buffer) -> Buffer:
        return replace(argument, strides=tuple(map(fixed, argument.strides)))

    return replace(nest, buffers=tuple(map(buffer, nest.buffers)))
