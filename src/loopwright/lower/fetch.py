"""Prefetch rows that serial loops walk down, some iterations before they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from loopwright.ir.expr import Expr, Load, Var
from loopwright.ir.loops import Block, For, Let, LoopNest, Mark, Prefetch, Stmt, Store
from loopwright.ir.visit import expressions, loads, names, rebuild, statements
from loopwright.ir.walk import substitute
from loopwright.lower.linear import Linear, linear, normal

__all__ = ["fetch_ahead"]

_MOST = 4  # prefetches of one loop


def fetch_ahead(nest: LoopNest, distances: Mapping[str, int]) -> LoopNest:
    """`nest` with prefetches in each serial loop of plain stores named in `distances`.

    Only the first subscript moves with the loop: rows behind the last one lie behind the array,
    where nobody minds, and no subscript of an inner dimension leaves its range.
    """
    arguments = {buffer.name for buffer in nest.buffers}

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SERIAL or stmt.var not in distances:
            return stmt
        row = list(statements(stmt.body))
        if not all(isinstance(inner, Store | Let | Block) for inner in row):
            return stmt
        fetches = _fetches(stmt, row, distances[stmt.var], arguments)
        return replace(stmt, body=Block((*fetches, stmt.body))) if fetches else stmt

    return replace(nest, body=rebuild(nest.body, visit)) if distances else nest


def _fetches(loop: For, row: list[Stmt], ahead: int, arguments: set[str]) -> list[Stmt]:
    """One prefetch for all places of a row that lie beside each other: of the last of them.

    Loops around come to the others first, as they walk to the right.
    """
    bound = {stmt.name for stmt in row if isinstance(stmt, Let)} | {loop.var}
    later = {loop.var: Var(loop.var) + loop.step * ahead}
    furthest: dict[tuple[object, ...], tuple[tuple[int, ...], tuple[Expr, ...]]] = {}
    written: set[tuple[object, ...]] = set()
    for array, index, is_write in _places(row):
        if array not in arguments or not _walks_rows(index, loop.var, bound):
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


def _places(row: list[Stmt]) -> Iterator[tuple[str, tuple[Expr, ...], bool]]:
    """Everything that is touched: array, subscripts, whether it is written."""
    for stmt in row:
        for value in expressions(stmt):
            for load in loads(value):
                yield load.array, load.index, False
        if isinstance(stmt, Store):
            yield stmt.buffer, stmt.index, True


def _walks_rows(index: tuple[Expr, ...], var: str, bound: set[str]) -> bool:
    """Whether the first of several subscripts, and no other, moves with the loop."""
    if len(index) < 2 or any(isinstance(x, Load) or loads(x) for x in index):
        return False
    inner = set().union(*(names(entry) for entry in index[1:]))
    return _coefficient(linear(index[0]), var) != 0 and not inner & bound


def _coefficient(form: Linear, var: str) -> int:
    return dict(form.terms).get(Var(var), 0)
