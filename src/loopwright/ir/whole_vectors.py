"""Which loops can be vectors, which run by whole ones of the processor, which of these may overlap.

A whole vector is as long as a line of the caches (AVX-512). Backends are told by a nest how long
its vectors are to be (`vector_bits`), and decide here for each loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Select, Var
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Stmt,
    Store,
)
from loopwright.ir.row_walk import LINE_BYTES, walks
from loopwright.ir.visit import (
    children,
    constant_trips,
    expressions,
    loads,
    names,
    statements,
    walk,
)

__all__ = [
    "has_lanes",
    "may_overlap",
    "moves_only",
    "overlapping_lanes",
    "takes_whole_vectors",
    "whole_vector_lanes",
]

_MANY = 16  # iterations of a loop that is not written out
_LONG_BODY = 24  # instructions of an iteration: what a loop adds to them counts little
_BITS = (32, 64)  # of elements whose vectors gcc makes as long as it is told


def has_lanes(loop: For) -> bool:
    """Whether the iterations can be lanes: no allocation, no control flow that differs by lane."""
    varying = {loop.var}
    for stmt in statements(loop.body):
        match stmt:
            case Alloc() | Copy() | Barrier() | For(mark=Mark.VECTOR | Mark.PARALLEL):
                return False
            case Let(name=name, value=value):
                if names(value) & varying:
                    varying.add(name)
            case For() | If():
                if any(names(x) & varying for x in expressions(stmt)):
                    return False
    return True


def takes_whole_vectors(nest: LoopNest) -> bool:
    """Whether compilers are told to take loops of a nest by whole vectors.

    All or none: where whole vectors run the frequency sinks, for loops too that have elements of
    several lengths, store to several rows or take one element at a time (durbin 0.84, fdtd-2d 0.9).
    """
    innermost = (
        x for x in _loops(nest.body) if _is_kept(x) and not any(map(_is_kept, _loops(x.body)))
    )
    return bool(nest.vector_bits) and all(
        _is_whole(loop, nest) for loop in innermost if loop.var not in nest.of_one_vector
    )


def whole_vector_lanes(loop: For, nest: LoopNest) -> int | None:
    """How many iterations a whole vector takes; None where gcc is to decide."""
    if loop.var in nest.of_one_vector or not _is_whole(loop, nest):
        return None
    return nest.vector_bits // min(_bits(loop))


def may_overlap(loop: For, lanes: int) -> bool:
    """Whether the whole vectors of a loop may have elements in common.

    What is computed twice has the same value: the loop reads no array that it stores to. Vectors
    begin one behind the other, and the iterations from any one on run in order, so that elements
    which several iterations store end with the value of the last: a simd loop may store them so.
    """
    inside = list(statements(loop.body))
    stores = [stmt for stmt in inside if isinstance(stmt, Store)]
    stored = {stmt.buffer for stmt in stores}
    read = {load.array for stmt in inside for e in expressions(stmt) for load in loads(e)}
    is_plain = all(isinstance(stmt, Block | Store | Let | For) for stmt in inside)
    are_alone = not any(stmt.is_atomic or not stmt.index for stmt in stores)
    trips = constant_trips(loop)
    is_long = lanes * min(_bits(loop)) // 8 == LINE_BYTES and (trips is None or trips >= 2 * lanes)
    return is_plain and are_alone and is_long and not stored & read and not moves_only(loop)


def overlapping_lanes(loop: For, nest: LoopNest) -> int | None:
    """Lanes of the vectors that a loop of machine code runs by, of which some overlap; else None.

    All elements must lie side by side: LLVM knows better how to load others. It takes several
    vectors of short bodies in one iteration, which are ahead then (three-point stencils of rows of
    40 to 1000 doubles 0.85 to 0.9 by single vectors; measured, Cascade Lake).
    """
    lanes = whole_vector_lanes(loop, nest) if nest.vector_bits else None
    if lanes is None or not may_overlap(loop, lanes) or not _walks_along_rows(loop):
        return None
    return lanes if _instructions(loop) >= _LONG_BODY else None


def moves_only(loop: For) -> bool:
    """Whether a loop computes nothing that it stores."""
    inside = (stmt for stmt in statements(loop.body) if isinstance(stmt, Store | Let))
    return all(isinstance(stmt.value, Load | Const | Var) for stmt in inside)


def _instructions(loop: For) -> int:
    """About how many a vector of iterations takes: loads, stores, operations, in all copies."""
    inside = list(statements(loop.body))
    copies = prod(constant_trips(stmt) or 1 for stmt in inside if isinstance(stmt, For))
    values = [stmt.value for stmt in inside if isinstance(stmt, Store | Let)]
    parts = {part for value in values for part in _on_data(value)}
    stores = sum(isinstance(stmt, Store) for stmt in inside)
    return copies * (stores + sum(isinstance(x, Load | Binary | Select) for x in parts))


def _walks_along_rows(loop: For) -> bool:
    """Whether all that a loop loads stays or lies side by side, and nothing in it is a call."""
    inside = [x for stmt in statements(loop.body) for x in expressions(stmt)]
    parts = [part for x in inside for part in walk(x)]
    own = {stmt.name for stmt in statements(loop.body) if isinstance(stmt, Let)}
    return not any(
        isinstance(part, Call)
        or (
            isinstance(part, Load)
            and (not walks(loop.var, part.index) or any(names(x) & own for x in part.index))
        )
        for part in parts
    )


def _loops(stmt: Stmt) -> Iterator[For]:
    return (inner for inner in statements(stmt) if isinstance(inner, For))


def _is_kept(loop: For) -> bool:
    """Whether compilers do not write a loop out."""
    return loop.mark is not Mark.UNROLL and (constant_trips(loop) or _MANY) >= _MANY


def _is_whole(loop: For, nest: LoopNest) -> bool:
    """Whether a loop takes elements of one length in vectors, and stores begin at lines alike."""
    bits = _bits(loop)
    is_one = len(bits) == 1 and bits <= set(_BITS)
    return loop.mark is Mark.SIMD and is_one and _stores_alike(loop, nest, min(bits) // 8)


def _stores_alike(loop: For, nest: LoopNest, size: int) -> bool:
    """Whether a loop stores elements of `size` bytes to one row, or to rows that begin alike.

    Of several rows only one begins at a line with the loop: whole vectors of the others would all
    lie across two (jacobi-2d in strips of two rows of 1300 doubles 0.85, reactions of two
    substances 0.81), unless rows are known to be whole lines apart (1304 doubles 1.3). Loops that
    store too little for a begin at a line have as many vectors across two lines, whole or half:
    whole ones are half as many instructions (heat in three dimensions, two rows of 118 doubles
    1.24 in L2; overlaps of Gaussians 1.3).
    """
    inside = list(statements(loop.body))
    copied = {stmt.var for stmt in inside if isinstance(stmt, For)}
    stores = [stmt for stmt in inside if isinstance(stmt, Store) and stmt.index]
    rows = {(stmt.buffer, stmt.index[:-1]) for stmt in stores}
    if len(rows) <= 1 and not any(names(entry) & copied for _, row in rows for entry in row):
        return True
    if len({stmt.buffer for stmt in stores}) > 1 or not all(
        loop.var in names(stmt.index[-1]) and walks(loop.var, stmt.index) for stmt in stores
    ):
        return False
    (buffer,) = {stmt.buffer for stmt in stores}
    strides = [x for one in nest.buffers if one.name == buffer for x in one.strides[:-1]]
    return loop.var not in nest.to_lines or (
        bool(strides) and all(_is_whole_lines(stride, size) for stride in strides)
    )


def _is_whole_lines(stride: Expr, size: int) -> bool:
    """Whether so many elements of `size` bytes are known to be whole lines."""
    match stride:
        case Const(value=int() as count):
            return count * size % LINE_BYTES == 0
    return False


def _bits(loop: For) -> set[int]:
    """The lengths of the numbers that a loop computes with."""
    values = [stmt.value for stmt in statements(loop.body) if isinstance(stmt, Store | Let)]
    parts = (part for value in values for part in _on_data(value))
    return {part.dtype.bits for part in parts if part.dtype != BOOL}


def _on_data(expr: Expr) -> list[Expr]:
    """An expression and its parts, subscripts left out."""
    if isinstance(expr, Load):
        return [expr]
    return [expr, *(part for child in children(expr) for part in _on_data(child))]
