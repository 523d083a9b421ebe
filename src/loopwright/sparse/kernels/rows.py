"""Loops over the entries of rows, written so that a processor has little to do around short ones.

    for i: s = 0; for k in range(ptr[i], ptr[i + 1]): s = s + e(k); y[i] = s

Rows of sparse matrices are short, so what stands around the inner loop counts as much as its body.
The end of a row is kept as the start of the next one; a loop that starts at such a scalar is left
alone by the backend (llvm_hints), whose unrolling is made for long loops. Sums keep their order.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
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
from loopwright.ir.visit import rebuild, statements
from loopwright.ir.walk import loads, rewrite, substitute
from loopwright.lower.chunk import bound_names, fresh_name
from loopwright.lower.simplify import substitute_statement

__all__ = ["with_carried_pointers"]

_BLOCK = 64  # rows between two looks at where a row starts; threads share blocks out


def with_carried_pointers(nest: LoopNest, usual: int = 0) -> LoopNest:
    """`nest` with outermost loops in which the end of a row is kept as the start of the next one.

    Rows of `usual` entries, if that is not 0, are written out without a loop.

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
                return _visited(stmt, read_only, taken, usual)
            case Block(body=body):
                return Block(tuple(map(visit, body)))
            case Alloc(body=inner) | Let(body=inner):
                return replace(stmt, body=visit(inner))
        return stmt

    return replace(nest, body=visit(nest.body))


def _visited(loop: For, read_only: frozenset[str], taken: set[str], usual: int) -> Stmt:
    is_plain = loop.step == Const(1) and loop.mark in (Mark.SERIAL, Mark.PARALLEL)
    found = _row(loop, read_only) if is_plain else None
    return loop if found is None else _carried(loop, *found, taken, usual)


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


def _carried(loop: For, start: Expr, stop: Expr, taken: set[str], usual: int) -> Stmt:
    block, at = (fresh_name(wish, taken) for wish in (f"{loop.var}_block", "at"))
    taken |= {block, at}
    here = Load(at, (), INT64)
    body = rebuild(loop.body, expression=lambda e: _replaced(e, start, here))
    if usual:
        body = rebuild(body, lambda s: _written_out(s, here, stop, usual))
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


def _written_out(stmt: Stmt, start: Expr, stop: Expr, usual: int) -> Stmt:
    """A loop over a row with a version for rows of the usual length."""
    if not isinstance(stmt, For) or (stmt.start, stmt.stop) != (start, stop):
        return stmt
    body = substitute_statement(stmt.body, {stmt.var: start + Var(stmt.var)})
    whole = For(stmt.var, Const(0), Const(usual), body, Const(1), Mark.UNROLL)
    return If(Binary("eq", stop - start, Const(usual)), whole, stmt)


def _replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    return rewrite(expr, lambda e: new if e == old else e)
