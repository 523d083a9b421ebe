"""Loops over the entries of rows, written so that a processor has little to do around short ones.

    for i: s = 0; for k in range(ptr[i], ptr[i + 1]): s = s + e(k); y[i] = s

Rows of sparse matrices are short, so what stands around the inner loop counts as much as its body.
The end of a row is kept as the start of the next one; a loop that starts at such a scalar is left
alone by the backend (llvm_hints), whose unrolling is made for long loops. Sums keep their order.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Block, Buffer, For, Let, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.visit import rebuild, statements
from loopwright.ir.walk import loads, rewrite, substitute
from loopwright.lower.chunk import bound_names, fresh_name

__all__ = ["with_carried_pointers"]

_BLOCK = 512  # rows that one thread takes at a time


def with_carried_pointers(nest: LoopNest) -> LoopNest:
    """`nest` with outermost loops in which the end of a row is kept as the start of the next one.

    rewrite:  for i in range(a, b): S(i, ptr[i], ptr[i + 1])
              ->  for t in blocks of the range:
                      at = ptr[first i of the block]
                      for i in the block: S(i, at, ptr[i + 1]); at = ptr[i + 1]
    """
    taken = bound_names(nest)
    read_only = frozenset(buffer.name for buffer in nest.buffers if not buffer.writable)

    def visit(stmt: Stmt) -> Stmt:
        match stmt:
            case For():
                return _visited(stmt, read_only, taken)
            case Block(body=body):
                return Block(tuple(map(visit, body)))
            case Alloc(body=inner) | Let(body=inner):
                return replace(stmt, body=visit(inner))
        return stmt

    return replace(nest, body=visit(nest.body))


def _visited(loop: For, read_only: frozenset[str], taken: set[str]) -> Stmt:
    is_plain = loop.step == Const(1) and loop.mark in (Mark.SERIAL, Mark.PARALLEL)
    found = _row(loop, read_only) if is_plain else None
    return loop if found is None else _carried(loop, *found, taken)


def _row(loop: For, read_only: frozenset[str]) -> tuple[Expr, Expr] | None:
    """The start and the end of a row, where the end is the start of the next row."""
    next_row: dict[str, Expr] = {loop.var: Var(loop.var) + 1}
    for stmt in statements(loop.body):
        if not isinstance(stmt, For):
            continue
        read = loads(stmt.start)
        is_fixed = bool(read) and all(load.array in read_only for load in read)
        if is_fixed and substitute(stmt.start, next_row) == stmt.stop:
            return stmt.start, stmt.stop
    return None


def _carried(loop: For, start: Expr, stop: Expr, taken: set[str]) -> Stmt:
    block, at = (fresh_name(wish, taken) for wish in (f"{loop.var}_block", "at"))
    taken |= {block, at}
    here = Load(at, (), INT64)
    body = rebuild(loop.body, expression=lambda e: _replaced(e, start, here))
    first = loop.start + Var(block) * _BLOCK
    rows = replace(
        loop,
        start=first,
        stop=(first + _BLOCK).min(loop.stop),
        body=Block((body, Store(at, (), stop))),
        mark=Mark.SERIAL,
    )
    begin = Store(at, (), substitute(start, {loop.var: first}))
    scalar = Buffer(at, INT64, (), Space.STACK, writable=True)
    count = (loop.stop - loop.start + (_BLOCK - 1)) // _BLOCK
    whole = Alloc(scalar, (), Block((begin, rows)))
    return For(block, Const(0), count, whole, Const(1), loop.mark)


def _replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    return rewrite(expr, lambda e: new if e == old else e)
