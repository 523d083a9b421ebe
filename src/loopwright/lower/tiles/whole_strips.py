"""Strips of vectors without ends: whole ones have a constant number of iterations."""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import Const, Var
from loopwright.ir.loops import Block, For, Let, LoopNest, Mark, Stmt
from loopwright.ir.visit import operands, rebuild
from loopwright.lower.linear_forms import linear, normal
from loopwright.lower.statement_uses import StatementUses

__all__ = ["whole_strips"]

_MOST = 128  # iterations of a strip that compilers write out in vectors


def whole_strips(nest: LoopNest) -> LoopNest:
    """Separate the last, shorter strip of a serial loop over strips of vectors.

        for t in range(a, b, 32): simd for i in range(t, min(b, t + 32)): S(i)
    ->  for t in range(a, b - 31, 32): simd for i in range(t, t + 32): S(i)
        simd for i in range(a + max(b - a, 0) // 32 * 32, b): S(i)

    Each strip keeps its iterations, and so their independence. A shorter strip whose iterations
    read `t` binds it to its start.
    """
    return replace(nest, body=rebuild(nest.body, _separated))


def _separated(stmt: Stmt) -> Stmt:
    match stmt:
        case For(mark=Mark.SERIAL, until=None, step=Const(value=int(size)), body=For() as strip):
            return _parts(stmt, strip, size)
    return stmt


def _parts(loop: For, strip: For, size: int) -> Stmt:
    """The strips of a loop, whole ones first; the loop itself where it has no such strips."""
    is_strip = strip.mark is Mark.SIMD and strip.step == Const(1) and strip.start == Var(loop.var)
    if not is_strip or not 1 < size <= _MOST:
        return loop
    full = normal(Var(loop.var) + size)
    ends = {linear(end) for end in operands("min", strip.stop)}
    if ends != {linear(full), linear(loop.stop)}:
        return loop
    last = normal(loop.start + (loop.stop - loop.start).max(0) // size * size)
    rest: Stmt = replace(strip, start=last, stop=loop.stop)
    if loop.var in StatementUses().names(strip.body):
        rest = Let(loop.var, last, replace(strip, stop=loop.stop))
    whole = replace(loop, stop=normal(loop.stop - (size - 1)), body=replace(strip, stop=full))
    return Block((whole, rest))
