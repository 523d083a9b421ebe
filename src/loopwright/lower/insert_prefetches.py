"""Insert prefetches of the rows that a serial loop will access some iterations later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from loopwright.ir.expr import Expr, Load, Var
from loopwright.ir.loops import Block, For, Let, LoopNest, Mark, Prefetch, Stmt, Store
from loopwright.ir.visit import expressions, loads, names, rebuild, statements, substitute
from loopwright.lower.build import is_straight_line
from loopwright.lower.linear_forms import LinearForm, linear, normal

__all__ = ["insert_prefetches"]

_MOST = 4  # prefetches of one loop


def insert_prefetches(nest: LoopNest, distances: Mapping[str, int]) -> LoopNest:
    """Prefetch what the serial loops in `distances` access that many iterations later.

        for j in range(n): s[i] = s[i] + u[j, i]
    ->  for j in range(n): prefetch u[j + 8, i]; s[i] = s[i] + u[j, i]

    Only loops of straight-line code, and only arrays of which the first subscript alone moves with
    the loop: beyond the last row such an address lies behind the array, where a prefetch does
    nothing, and no other subscript leaves its range.
    """
    arguments = {buffer.name for buffer in nest.buffers}

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SERIAL or stmt.var not in distances:
            return stmt
        if not is_straight_line(stmt.body):
            return stmt
        row = list(statements(stmt.body))
        prefetches = _prefetches(stmt, row, distances[stmt.var], arguments)
        return replace(stmt, body=Block((*prefetches, stmt.body))) if prefetches else stmt

    return replace(nest, body=rebuild(nest.body, visit)) if distances else nest


def _prefetches(loop: For, row: list[Stmt], distance: int, arguments: set[str]) -> list[Stmt]:
    """One prefetch for all accesses of a row whose subscripts differ by constants: the furthest.

    Loops around move to the right, so the others were in the cache before.
    """
    bound = {stmt.name for stmt in row if isinstance(stmt, Let)} | {loop.var}
    later = {loop.var: Var(loop.var) + loop.step * distance}
    furthest: dict[tuple[object, ...], tuple[tuple[int, ...], tuple[Expr, ...]]] = {}
    written: set[tuple[object, ...]] = set()
    for array, index, is_write in _accesses(row):
        if array not in arguments or not _moves_by_rows(index, loop.var, bound):
            continue
        forms = [linear(entry) for entry in index]
        key = (array, *(frozenset(form.terms) for form in forms))
        direction = 1 if _coefficient(forms[0], loop.var) > 0 else -1
        place = (forms[-1].constant, direction * forms[0].constant)
        if is_write:
            written.add(key)
        if key not in furthest or place > furthest[key][0]:
            furthest[key] = place, index
    return [
        Prefetch(
            str(key[0]), (normal(substitute(index[0], later)), *index[1:]), write=key in written
        )
        for key, (_, index) in list(furthest.items())[:_MOST]
    ]


def _accesses(row: list[Stmt]) -> Iterator[tuple[str, tuple[Expr, ...], bool]]:
    """All accesses of straight-line code: array, subscripts, whether it is written."""
    for stmt in row:
        for value in expressions(stmt):
            for load in loads(value):
                yield load.array, load.index, False
        if isinstance(stmt, Store):
            yield stmt.buffer, stmt.index, True


def _moves_by_rows(index: tuple[Expr, ...], var: str, bound: set[str]) -> bool:
    """Whether the first of several subscripts, and no other, moves with the loop."""
    if len(index) < 2 or any(isinstance(x, Load) or loads(x) for x in index):
        return False
    inner = set().union(*(names(entry) for entry in index[1:]))
    return _coefficient(linear(index[0]), var) != 0 and not inner & bound


def _coefficient(form: LinearForm, var: str) -> int:
    return dict(form.terms).get(Var(var), 0)
