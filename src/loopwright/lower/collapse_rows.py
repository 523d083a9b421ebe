"""Rows that lie one behind the other as one loop, where they are short.

Vectors end with their row: rows shorter than a vector have none at all, and what rows leave over is
taken one by one. Where every array of a statement is gone through in the order of its memory, row
after row, the rows are one long row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import Block, For, If, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import (
    expressions,
    fresh_name,
    loads,
    names,
    rebuild,
    rewrite,
    statements,
)
from loopwright.lower.build import bound_names
from loopwright.lower.linear_forms import normal

__all__ = ["collapse_rows"]

_LONG = 128  # iterations of a row, from which on what it leaves over is little
_STRIP = 256  # rows that a thread gets at least


def collapse_rows(nest: LoopNest, known: Mapping[str, tuple[Expr, ...]] | None = None) -> LoopNest:
    """Collapse loops over short rows and the loops around them.

        for i in range(a, b):
            simd for j in range(m): C[i, j] = f(A[i, j])
    ->  if 1 <= m < 128 and C.strides[0] == m and A.strides[0] == m:
            simd for q in range(a * m, b * m): C[0, q] = f(A[0, q])
        else: as before

    All elements that move have the subscripts i, j at their end, in this order, and lie one behind
    the other along j; nothing else depends on i and j. An iteration then uses no element of
    another one, so that q is as independent as j is. The last subscript leaves its row. Threads
    share out strips of rows.

    `known` are strides that hold in any case and decide alone, for loops of one thread; without it
    those of the call decide.
    """
    if not nest.leave_to_llvm:
        return nest
    taken = bound_names(nest)
    strides = {buffer.name: buffer.strides for buffer in nest.buffers} if known is None else known
    long = set(nest.to_lines)

    def visit(stmt: Stmt) -> Stmt:
        row = _row_of(stmt)
        if row is None:
            return stmt
        assert isinstance(stmt, For)
        along = fresh_name(f"{stmt.var}_{row.var}", taken)
        found = _along(row.body, (stmt.var, row.var), along, strides)
        if found is None:
            return stmt
        body, steps = found
        if known is not None and (steps != (row.stop,) or stmt.mark is Mark.PARALLEL):
            return stmt
        taken.add(along)
        if row.var in long:
            long.add(along)
        conditions: list[Expr] = [Const(1) <= row.stop, row.stop < _LONG]
        others = [step for step in steps if step != row.stop]
        conditions += [Binary("eq", step, row.stop) for step in others]
        elements = For(along, stmt.start, stmt.stop, body, Const(1), Mark.SIMD)
        together = _together(stmt, row.stop, elements)
        return If(reduce(lambda x, y: Binary("and", x, y), conditions), together, stmt)

    body = rebuild(nest.body, visit)
    return nest if body is nest.body else replace(nest, body=body, to_lines=frozenset(long))


def _together(outer: For, length: Expr, elements: For) -> For:
    """The loop over the elements of all rows; where threads share rows out, of a strip of them."""
    first, end = outer.start, outer.stop
    if outer.mark is Mark.PARALLEL:
        first, end = Var(outer.var), (Var(outer.var) + _STRIP).min(outer.stop)
    long = replace(elements, start=normal(first * length), stop=normal(end * length))
    return long if outer.mark is Mark.SERIAL else replace(outer, body=long, step=Const(_STRIP))


def _row_of(stmt: Stmt) -> For | None:
    """The loop along short rows that is all that another loop has inside."""
    if not isinstance(stmt, For) or stmt.mark not in (Mark.SERIAL, Mark.PARALLEL):
        return None
    row = stmt.body
    if not isinstance(row, For) or row.mark is not Mark.SIMD or row.start != Const(0):
        return None
    if any(loop.step != Const(1) or loop.until is not None for loop in (stmt, row)):
        return None
    if stmt.var in names(row.stop) or loads(row.stop):
        return None
    return None if isinstance(row.stop, Const) else row


def _along(
    body: Stmt, pair: tuple[str, str], along: str, strides: Mapping[str, tuple[Expr, ...]]
) -> tuple[Stmt, tuple[Expr, ...]] | None:
    """The body with one subscript for both loops, and the distances between rows of its arrays.

    None where an iteration needs more than its elements.
    """
    steps: dict[Expr, None] = {}
    ends = tuple(map(Var, pair))

    def moved(array: str, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        known = strides.get(array, ())
        if index[-2:] != ends or known[-1:] != (Const(1),):
            return index
        steps[known[-2]] = None
        return (*index[:-2], Const(0), Var(along))

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Load):
            return replace(expr, index=moved(expr.array, expr.index))
        return expr

    def visit(stmt: Stmt) -> Stmt:
        return (
            replace(stmt, index=moved(stmt.buffer, stmt.index)) if isinstance(stmt, Store) else stmt
        )

    made = rebuild(rebuild(body, expression=lambda expr: rewrite(expr, change)), visit)
    inside = list(statements(made))
    values = [expr for stmt in inside for expr in expressions(stmt)]
    stores = [stmt for stmt in inside if isinstance(stmt, Store)]
    written = {store.buffer for store in stores}
    used = [load.index for expr in values for load in loads(expr) if load.array in written]
    used += [store.index for store in stores]
    if (
        any(not isinstance(stmt, Store | Let | If | Block) for stmt in inside)
        or any(store.is_atomic for store in stores)
        or any(names(expr) & set(pair) for expr in values)
        or any(index[-1:] != (Var(along),) for index in used)
    ):
        return None
    return (made, tuple(steps)) if steps else None
