"""Loops over the entries of rows, rewritten to have little overhead around short rows.

    for i: s = 0; for k in range(ptr[i], ptr[i + 1]): s = s + e(k); y[i] = s

Rows of sparse matrices are short, so what stands around the inner loop counts as much as its body.
The end of a row is carried as the start of the next one; a loop that starts at such a scalar is not
unrolled by the backend (llvm_hints), whose unrolling is made for long loops. Entries are taken
eight at a time, and the rest of a row as four, two and one: no loop around the last of them, and
few branches to predict. Sums keep their order.

Indices that cannot be negative are zero-extended: adjacent ones are then loaded in pairs. Where a
loop adds to a single scalar and a fused multiply-add takes longer from sum to sum than an addition
does, products are rounded before they are added: that latency is what the loop waits for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from loopwright.ir.dtypes import DTYPES, INT64
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var
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
from loopwright.ir.machine import Machine
from loopwright.ir.visit import fresh_name, loads, rebuild, rewrite, statements, substitute
from loopwright.lower.build import bound_names, substitute_statement

__all__ = ["carry_row_pointers", "split_fma_chains", "zero_extend_indices"]


def split_fma_chains(nest: LoopNest, machine: Machine) -> LoopNest:
    """The nest with products rounded before they are added, where its one sum is quicker so."""
    if not nest.leave_to_llvm:
        return nest
    sums = {
        (stmt.buffer, stmt.value.dtype.name)
        for loop in statements(nest.body)
        if isinstance(loop, For)
        for stmt in statements(loop.body)
        if isinstance(stmt, Store) and _adds_a_product(stmt)
    }
    if len(sums) != 1:
        return nest
    ((_, dtype),) = sums
    fused, plain = machine.cost("fma", dtype).accumulate, machine.cost("add", dtype).latency
    return replace(nest, fuses=fused <= plain)


def _adds_a_product(stmt: Store) -> bool:
    """Whether a statement is s = s + x * y for a scalar s of floating numbers."""
    value = stmt.value
    if stmt.index or not isinstance(value, Binary) or value.op != "add":
        return False
    is_sum = isinstance(value.x, Load) and value.x.array == stmt.buffer and not value.x.index
    is_product = isinstance(value.y, Binary) and value.y.op == "mul"
    return is_sum and is_product and value.dtype.kind == "f"


_BLOCK = 64  # rows of a block, at whose start the pointer is loaded; threads divide blocks
_UNSIGNED = {"int8": "uint8", "int16": "uint16", "int32": "uint32"}
_AT_ONCE = 8  # entries of a row, a power of two; one chain of sums hides no more


def carry_row_pointers(nest: LoopNest) -> LoopNest:
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
    body = rebuild(body, lambda s: _unrolled_row(s, here, stop))
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


def _unrolled_row(stmt: Stmt, start: Load, stop: Expr) -> Stmt:
    """The loop over the entries of a row, several at a time.

    rewrite:  for k in range(at, b): S(k)
              ->  for k in range(at, b - 7, 8): S(k); ..; S(k + 7); at = k + 8
                  if (b - at) % 8 >= 4: S(at); ..; at = at + 4        the rest in halves
                  if (b - at) % 4 >= 2: ..
                  if (b - at) % 2 >= 1: S(at)

    Places follow from where the row starts, which is known before its end is.
    """
    is_row = isinstance(stmt, For) and (stmt.start, stmt.stop) == (start, stop)
    if not isinstance(stmt, For) or not is_row or not _is_short(stmt.body):
        return stmt
    whole = _repeated(stmt, Var(stmt.var), _AT_ONCE, start)
    parts: list[Stmt] = [
        replace(stmt, stop=stop - (_AT_ONCE - 1), step=Const(_AT_ONCE), body=whole)
    ]
    size = _AT_ONCE
    while size > 1:
        left = (stop - start) % size
        size //= 2
        parts.append(If(Binary("ge", left, Const(size)), _repeated(stmt, start, size, start)))
    return Block(tuple(parts))


def _is_short(body: Stmt) -> bool:
    """Whether a body is worth unrolling: no loops, no allocations."""
    return not any(isinstance(part, For | Alloc) for part in statements(body))


def _repeated(loop: For, first: Expr, count: int, at: Load) -> Stmt:
    """S(first); ..; S(first + count - 1); at = first + count."""
    step = f"{loop.var}_step"
    body = substitute_statement(loop.body, {loop.var: first + Var(step)})
    copies = For(step, Const(0), Const(count), body, Const(1), Mark.UNROLL)
    return Block((copies, Store(at.array, (), first + count)))


def zero_extend_indices(nest: LoopNest, arrays: Collection[str]) -> LoopNest:
    """`nest` with numbers of these arrays, of which none is negative, widened as such.

    rewrite:  int64(f[x])  ->  int64(uint32(f[x]))
    """

    def change(expr: Expr) -> Expr:
        match expr:
            case Cast(x=Load(array=array, dtype=found), dtype=to) if (
                array in arrays and to == INT64
            ):
                if found.name in _UNSIGNED:
                    return Cast(Cast(expr.x, DTYPES[_UNSIGNED[found.name]]), INT64)
        return expr

    return replace(nest, body=rebuild(nest.body, expression=lambda e: rewrite(e, change)))


def _replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    return rewrite(expr, lambda e: new if e == old else e)
