"""Arrays of a Program as buffers of a LoopNest: strided arguments, memory of local arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from loopwright.faults import FAULTS, survive
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.program import Array, Program, Role
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import expressions, loads, names, rebuild, rewrite, statements
from loopwright.lower.build import touches
from loopwright.lower.contract_arrays import contracted_array

__all__ = [
    "allocate_private",
    "allocate_shared",
    "argument_buffers",
    "contiguous",
    "row_major",
    "scalar_names",
    "specialise",
    "stride_name",
]


_STACK_BYTES = 4096  # of one array: stacks of threads have room for many


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


def specialise(nest: LoopNest, known: Mapping[str, int]) -> LoopNest:
    """`nest` with the strides that `known` names fixed: unit strides make vector accesses."""

    def fixed(stride: Expr) -> Expr:
        if isinstance(stride, Var) and stride.name in known:
            return Const(known[stride.name])
        return stride

    def buffer(argument: Buffer) -> Buffer:
        return replace(argument, strides=tuple(map(fixed, argument.strides)))

    return replace(nest, buffers=tuple(map(buffer, nest.buffers)))


def contiguous(
    nest: LoopNest, shapes: Mapping[str, tuple[Expr, ...]], params: tuple[str, ...]
) -> LoopNest:
    """`nest` for arrays without gaps, row-major, of the given extents over the parameters.

    Strides are no scalars of such a nest: they follow from the extents.
    """

    def packed(argument: Buffer) -> Buffer:
        return replace(argument, strides=row_major(shapes[argument.name]))

    return replace(nest, buffers=tuple(map(packed, nest.buffers)), scalars=params)


def allocate_shared(schedule: Schedule, body: Stmt) -> Stmt:
    """`body` inside the allocations of the local arrays that are private to no loop."""
    shared = (Mark.PARALLEL, Mark.BLOCK, Mark.THREAD)
    is_shared = any(mark in shared for _, mark in schedule.marks) or schedule.mesh is not None
    for array in reversed(schedule.program.arrays):
        if array.role is Role.LOCAL and array.name not in dict(schedule.private):
            # A stack belongs to one thread; what parallel loops see must be memory of all.
            is_stack = _is_small(array) and not is_shared
            inside = _contracted(array, body)
            own = _alloc(array, Space.STACK if is_stack else Space.SCRATCH, body)
            body = own if inside is None else inside
    return body


def _contracted(array: Array, body: Stmt) -> Stmt | None:
    """`contracted_array`, of which a fault costs speed only, in the loops of the source too."""
    try:
        return contracted_array(array, body)
    except FAULTS as error:
        survive(error, f"the contraction of '{array.name}'")
        return None


def allocate_private(array: Array, around: frozenset[str], body: Stmt) -> Stmt:
    """`body` with an allocation of a private array in each iteration of its loop.

    `around` holds the variables of that loop and the loops around it. The allocation goes into the
    innermost of them that isl has generated; it leaves out loops of one iteration.
    """

    def visit(node: Stmt) -> Stmt:
        if not isinstance(node, For) or node.var not in around or not _needs(node.body, array.name):
            return node
        return replace(node, body=_private(array, node.body))

    inside = rebuild(body, visit)
    return _private(array, inside) if _needs(inside, array.name) else inside


def _private(array: Array, body: Stmt) -> Stmt:
    """`body` with its own copy of an array, less the dimensions in which it uses one place only.

    Scalars, where every element is read in the sequence of statements that begins by writing it.
    """
    places = {load.index for load in _loads(body) if load.array == array.name}
    stores = [s for s in statements(body) if isinstance(s, Store) and s.buffer == array.name]
    places |= {store.index for store in stores}
    bound = {s.var for s in statements(body) if isinstance(s, For)}
    bound |= {s.name for s in statements(body) if isinstance(s, Let)}
    plain = (Block, For, If, Let, Alloc, Store)
    is_plain = all(isinstance(s, plain) or not touches(s, array.name) for s in statements(body))
    kept = [
        at
        for at in range(array.rank)
        if not is_plain
        or len({place[at] for place in places}) > 1
        or any(names(place[at]) & bound for place in places)
    ]
    if len(kept) == array.rank:
        inside = _contracted(array, body)
        if inside is not None:
            return inside
        return _alloc(array, Space.STACK if _is_small(array) else Space.PRIVATE, body)

    def narrowed(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(index[at] for at in kept)

    def load(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array == array.name:
            return replace(expr, index=narrowed(expr.index))
        return expr

    def store(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store) and stmt.buffer == array.name:
            return replace(stmt, index=narrowed(stmt.index))
        return stmt

    narrow = rebuild(body, store, lambda value: rewrite(value, load))
    smaller = replace(array, shape=narrowed(array.shape))
    return _alloc(smaller, Space.STACK if _is_small(smaller) else Space.PRIVATE, narrow)


def _is_small(array: Array) -> bool:
    """Whether an array has a place on a stack, where compilers keep its elements in registers."""
    extents = [x.value for x in array.shape if isinstance(x, Const) and isinstance(x.value, int)]
    size = math.prod(extents) * array.dtype.bytes
    return len(extents) == array.rank and size <= _STACK_BYTES


def _loads(body: Stmt) -> Iterator[Load]:
    for stmt in statements(body):
        for value in expressions(stmt):
            yield from loads(value)


def _needs(stmt: Stmt, buffer: str) -> bool:
    """Whether `stmt` uses a buffer that it does not allocate."""
    parts = list(statements(stmt))
    is_allocated = any(isinstance(s, Alloc) and s.buffer.name == buffer for s in parts)
    return not is_allocated and any(touches(s, buffer) for s in parts)


def _alloc(array: Array, space: Space, body: Stmt) -> Alloc:
    buffer = Buffer(array.name, array.dtype, row_major(array.shape), space, writable=True)
    return Alloc(buffer, array.shape, body)


def _argument(array: Array) -> Buffer:
    strides = tuple(Var(stride_name(array.name, dimension)) for dimension in range(array.rank))
    return Buffer(array.name, array.dtype, strides, writable=array.role is not Role.IN)


def row_major(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step: Expr = Const(1)
    for extent in reversed(shape):
        strides.insert(0, step)
        step = step * extent
    return tuple(strides)


# -- names of the scalars that hold strides; calls of cached kernels load no more of lower --------


def stride_name(array: str, dimension: int) -> str:
    """The scalar of a nest that holds the stride of an argument's dimension, in elements."""
    return f"{array}_s{dimension}"
