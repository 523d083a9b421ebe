"""Scalars in place of elements that an iteration of a loop sets and then accumulates into.

    for i: a[i] = 0; for j: a[i] = a[i] + b[i, j]
->  for i: alloc a_k; a_k = 0; for j: a_k = a_k + b[i, j]; a[i] = a_k

    for i: a[i] = 2 * a[i]; for j: a[i] = a[i] + b[i, j]
->  for i: alloc a_k; a_k = a[i]; a_k = 2 * a_k; for j: a_k = a_k + b[i, j]; a[i] = a_k

With vectors along i the scalar is a register of lanes, where the element would be loaded and stored
in every iteration of j by compilers that cannot know which pointers are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from loopwright.ir.expr import Expr, Load
from loopwright.ir.loops import Alloc, Block, Buffer, Space, Stmt, Store
from loopwright.ir.visit import expressions, fresh_name, loads, names, rebuild, rewrite, statements
from loopwright.lower.build import names_bound, seq

__all__ = ["elements_as_scalars"]


def elements_as_scalars(body: Stmt, taken: set[str]) -> Stmt:
    """The body of a loop with scalars for elements; `taken` grows with their names.

    Those are set by one of its statements, before its loops and under no condition, and are all
    that it accesses of their arrays. What is read before it is set is loaded at the start.
    """
    bound = names_bound(body)
    for element, is_read_first in _set_at_start(body).items():
        used = [x for x in _accessed(body) if x.array == element.array]
        is_alone = all(x == element for x in used) and not any(map(loads, element.index))
        if not is_alone or names(element) & bound or len(used) < 2:
            continue
        name = fresh_name(f"{element.array}_k", taken)
        taken.add(name)
        body = _with_scalar(body, element, name, is_read_first=is_read_first)
    return body


def _set_at_start(body: Stmt) -> dict[Load, bool]:
    """The elements stored before the first loop or branch, and whether each is read before."""
    found: dict[Load, bool] = {}
    read: set[Load] = set()
    for stmt in body.body if isinstance(body, Block) else ():
        if not isinstance(stmt, Store):
            break
        read |= {load for expr in expressions(stmt) for load in loads(expr)}
        if stmt.index and not stmt.is_atomic:
            element = Load(stmt.buffer, stmt.index, stmt.value.dtype)
            found.setdefault(element, element in read)
    return found


def _accessed(body: Stmt) -> Iterator[Load]:
    """All elements that statements load and store."""
    for stmt in statements(body):
        if isinstance(stmt, Store):
            yield Load(stmt.buffer, stmt.index, stmt.value.dtype)
        for expr in expressions(stmt):
            yield from loads(expr)


def _with_scalar(body: Stmt, element: Load, name: str, *, is_read_first: bool) -> Stmt:
    """A body that computes an element in a scalar, and stores it at its end."""
    scalar = Load(name, (), element.dtype)

    def change(expr: Expr) -> Expr:
        return scalar if expr == element else expr

    def visit(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store) and stmt.buffer == element.array:
            return replace(stmt, buffer=name, index=())
        return stmt

    inside = rebuild(body, visit, lambda expr: rewrite(expr, change))
    memory = Buffer(name, element.dtype, (), Space.STACK, writable=True)
    start = (Store(name, (), element),) if is_read_first else ()
    return Alloc(memory, (), seq(*start, inside, Store(element.array, element.index, scalar)))
