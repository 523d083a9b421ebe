"""Data spaces as buffers of a loop nest: arguments row by row, temporaries as scratch memory."""

from __future__ import annotations

import math
from dataclasses import replace

from loopwright.ir.expr import Const, Expr
from loopwright.ir.loops import Alloc, Block, Buffer, For, Mark, Space, Stmt
from loopwright.ir.program import Role
from loopwright.ir.visit import rebuild, statements
from loopwright.lower.build import touches
from loopwright.sparse.spf.bodies import as_expr
from loopwright.sparse.spf.computation import Computation, DataSpace

__all__ = ["arguments", "with_temporaries"]

_FEW = 64  # elements


def arguments(computation: Computation) -> tuple[Buffer, ...]:
    """The spaces of the caller, in their order."""
    return tuple(
        Buffer(space.name, space.dtype, _strides(space), writable=space.role is not Role.IN)
        for space in computation.spaces
        if space.role is not Role.LOCAL
    )


def with_temporaries(computation: Computation, body: Stmt) -> Stmt:
    """`body` inside the memory of the temporaries.

    A scalar that only parallel loops use belongs to each of their iterations (see storage). A few
    numbers, known how many, are as good as a scalar: they are registers once loops are unrolled.
    """
    is_shared = _has_parallel(body)
    for space in reversed(computation.spaces):
        if space.role is not Role.LOCAL:
            continue
        is_few = _is_few(space)
        if is_shared and is_few and not _used_outside(body, space.name):
            body = _inside_parallel(body, space)
        else:
            # A stack belongs to one thread; what parallel loops see must be memory of all.
            is_stack = is_few and not is_shared
            body = _alloc(space, Space.STACK if is_stack else Space.SCRATCH, body)
    return body


def _is_few(space: DataSpace) -> bool:
    is_constant = all(extent.is_constant for extent in space.shape)
    return is_constant and math.prod(extent.constant for extent in space.shape) <= _FEW


def _alloc(space: DataSpace, kind: Space, body: Stmt) -> Stmt:
    buffer = Buffer(space.name, space.dtype, _strides(space), kind, writable=True)
    return Alloc(buffer, _shape(space), body)


def _has_parallel(stmt: Stmt) -> bool:
    return any(isinstance(s, For) and s.mark is Mark.PARALLEL for s in statements(stmt))


def _used_outside(stmt: Stmt, name: str) -> bool:
    """Whether a space is touched outside of parallel loops."""

    def cut(part: Stmt) -> Stmt:
        is_parallel = isinstance(part, For) and part.mark is Mark.PARALLEL
        return Block(()) if is_parallel else part

    return any(touches(part, name) for part in statements(rebuild(stmt, cut)))


def _inside_parallel(stmt: Stmt, space: DataSpace) -> Stmt:
    def visit(part: Stmt) -> Stmt:
        if not isinstance(part, For) or part.mark is not Mark.PARALLEL:
            return part
        return replace(part, body=_alloc(space, Space.STACK, part.body))

    return rebuild(stmt, visit)


def _shape(space: DataSpace) -> tuple[Expr, ...]:
    return tuple(as_expr(extent, {}) for extent in space.shape)


def _strides(space: DataSpace) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step: Expr = Const(1)
    for extent in reversed(_shape(space)):
        strides.insert(0, step)
        step = step * extent
    return tuple(strides)
