"""Arrays of a Program as buffers of a LoopNest: arguments seen through strides, local memory."""

from __future__ import annotations

from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.loops import Alloc, Buffer, Mark, Space, Stmt
from loopwright.ir.program import Array, Program, Role
from loopwright.ir.visit import statements

__all__ = ["allocate_locals", "argument_buffers", "scalar_names", "stride_name"]


def stride_name(array: str, dimension: int) -> str:
    """The scalar that holds an argument's stride, in elements."""
    return f"{array}_s{dimension}"


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


def allocate_locals(program: Program, body: Stmt) -> Stmt:
    """`body` inside the memory of the program's local arrays."""
    is_shared = any(getattr(node, "mark", None) is Mark.PARALLEL for node in statements(body))
    for array in reversed(program.arrays):
        if array.role is Role.LOCAL:
            # A stack belongs to one thread; what parallel loops see must be memory of all.
            is_stack = array.rank == 0 and not is_shared
            space = Space.STACK if is_stack else Space.SCRATCH
            buffer = Buffer(array.name, array.dtype, _row_major(array.shape), space, writable=True)
            body = Alloc(buffer, array.shape, body)
    return body


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
