"""Arrays of a Program as buffers of a LoopNest: arguments seen through strides, local memory."""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.loops import Alloc, Buffer, For, Mark, Space, Stmt
from loopwright.ir.program import Array, Program, Role
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import rebuild, statements
from loopwright.lower.simplify import touches
from loopwright.lower.strides import stride_name

__all__ = [
    "allocate_private",
    "allocate_shared",
    "argument_buffers",
    "scalar_names",
]


def argument_buffers(program: Program) -> tuple[Buffer, ...]:
    """The arrays of the caller, in declaration order."""
    return tuple(_argument(array) for array in program.arrays if array.role is not Role.LOCAL)


def scalar_names(program: Program) -> tuple[str, ...]:
    """The run-time integers of the nest: parameters, then the strides of each argument."""
    strides = (
        stride_name(array.name, dimension)
        for array in program.arrays
        if array.role is not Role.LOCAL
        for dimension in range(array.rank)
    )
    return (*program.params, *strides)


def allocate_shared(schedule: Schedule, body: Stmt) -> Stmt:
    """`body` inside the memory of the local arrays that are private to no loop."""
    is_shared = any(mark is Mark.PARALLEL for _, mark in schedule.marks)
    for array in reversed(schedule.program.arrays):
        if array.role is Role.LOCAL and array.name not in dict(schedule.private):
            # A stack belongs to one thread; what parallel loops see must be memory of all.
            is_stack = array.rank == 0 and not is_shared
            body = _alloc(array, Space.STACK if is_stack else Space.SCRATCH, body)
    return body


def allocate_private(array: Array, around: frozenset[str], body: Stmt) -> Stmt:
    """`body` with memory for a private array in each iteration of its loop.

    `around` holds the variables of that loop and the loops around it. The memory goes into the
    innermost of them that exists: a loop that was left out for having one iteration needs none.
    """
    space = Space.STACK if array.rank == 0 else Space.PRIVATE

    def visit(node: Stmt) -> Stmt:
        if not isinstance(node, For) or node.var not in around or not _needs(node.body, array.name):
            return node
        return replace(node, body=_alloc(array, space, node.body))

    inside = rebuild(body, visit)
    return _alloc(array, space, inside) if _needs(inside, array.name) else inside


def _needs(stmt: Stmt, buffer: str) -> bool:
    """Whether `stmt` uses a buffer for which it has no memory yet."""
    parts = list(statements(stmt))
    has_memory = any(isinstance(s, Alloc) and s.buffer.name == buffer for s in parts)
    return not has_memory and any(touches(s, buffer) for s in parts)


def _alloc(array: Array, space: Space, body: Stmt) -> Alloc:
    buffer = Buffer(array.name, array.dtype, _row_major(array.shape), space, writable=True)
    return Alloc(buffer, array.shape, body)


def _argument(array: Array) -> Buffer:
    strides = tuple(Var(stride_name(array.name, dimension)) for dimension in range(array.rank))
    return Buffer(array.name, array.dtype, strides, writable=array.role is not Role.IN)


def _row_major(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step: Expr = Const(1)
    for extent in reversed(shape):
        strides.insert(0, step)
        step = step * extent
    return tuple(strides)
