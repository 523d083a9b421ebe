"""Keep one lane of a vector in a scalar during the loops that this lane runs alone.

    for h in range(m, n): s[0, 3] = s[0, 3] + a[h]     if m < n:
                                                   ->      alloc t; t = s[0, 3]
                                                           for h in range(m, n): t = t + a[h]
                                                           s[0, 3] = t

LLVM keeps a small array that vectors go to and from in registers of vectors. An update of one of
its elements then takes the lane out and puts it back in every iteration, about ten cycles of a
chain that else has one or a few (lanes of an outer loop whose ranges end apart: effort spread over
projects). Where no loop of vectors uses the array, LLVM has scalars by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from loopwright.ir.expr import Const, Expr, Load
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
from loopwright.ir.visit import expressions, fresh_name, loads, rebuild, rewrite, statements
from loopwright.lower.build import bound_names, seq

__all__ = ["lanes_in_scalars"]


def lanes_in_scalars(nest: LoopNest) -> LoopNest:
    """A scalar for each element of a vector that a serial loop updates at a fixed place.

    The loop accesses the vector at fixed places alone, so that no other access can be to the same
    element.
    """
    local = {
        stmt.buffer.name: stmt.buffer
        for stmt in statements(nest.body)
        if isinstance(stmt, Alloc) and stmt.buffer.space is Space.STACK and stmt.shape
    }
    if not nest.leave_to_llvm or not local:
        return nest
    vectors = local.keys() & {
        element.array
        for stmt in statements(nest.body)
        if isinstance(stmt, For) and stmt.mark is Mark.VECTOR
        for element in _accessed(stmt)
    }
    if not vectors:
        return nest
    taken = bound_names(nest)

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SERIAL or stmt.until is not None:
            return stmt
        updated = _updated(stmt, vectors)
        whole: Stmt = stmt
        for element in updated:
            name = fresh_name(f"{element.array}_s", taken)
            taken.add(name)
            scalar = Load(name, (), element.dtype)
            first = () if _is_set_first(stmt.body, element) else (Store(name, (), element),)
            last = Store(element.array, element.index, scalar)
            own = Buffer(name, local[element.array].dtype, (), Space.STACK, writable=True)
            whole = Alloc(own, (), seq(*first, _exchanged(whole, element, scalar), last))
        return If(stmt.start < stmt.stop, whole) if updated else stmt

    return replace(nest, body=rebuild(nest.body, visit))


def _updated(loop: For, vectors: Collection[str]) -> list[Load]:
    """Elements that a loop stores, of vectors that it accesses at fixed places alone."""
    stores = [s for s in statements(loop) if isinstance(s, Store) and s.buffer in vectors]
    still = {s.buffer for s in stores} - {s.buffer for s in stores if not _is_fixed(s.index)}
    if not still:  # what is loaded need not be looked at
        return []
    moving = {x.array for x in _accessed(loop) if x.array in still and not _is_fixed(x.index)}
    stored = (s for s in stores if s.buffer in still - moving)
    return list(dict.fromkeys(Load(s.buffer, s.index, s.value.dtype) for s in stored))


def _is_fixed(index: tuple[Expr, ...]) -> bool:
    return all(isinstance(entry, Const) for entry in index)


def _is_set_first(stmt: Stmt, element: Load) -> bool:
    """Whether straight-line code sets an element before it reads it; else it may be read first."""
    parts = stmt.body if isinstance(stmt, Block) else (stmt,)
    first = next((part for part in parts if element in _accessed(part)), None)
    if isinstance(first, Let):
        is_read = element in loads(first.value)
        return not is_read and _is_set_first(first.body, element)
    if not isinstance(first, Store):
        return False
    return all(element not in loads(expr) for expr in expressions(first))


def _accessed(stmt: Stmt) -> Iterator[Load]:
    """All elements that statements load and store."""
    for inner in statements(stmt):
        if isinstance(inner, Store):
            yield Load(inner.buffer, inner.index, inner.value.dtype)
        for expr in expressions(inner):
            yield from loads(expr)


def _exchanged(body: Stmt, element: Load, scalar: Load) -> Stmt:
    """`body` with a scalar in the place of an element."""

    def change(expr: Expr) -> Expr:
        return scalar if expr == element else expr

    place = (element.array, element.index)

    def visit(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store) and (stmt.buffer, stmt.index) == place:
            return replace(stmt, buffer=scalar.array, index=())
        return stmt

    return rebuild(body, visit, lambda expr: rewrite(expr, change))
