"""Register tiles that a bound of some row cuts: of triangles, along the lanes or the steps.

A tile of four rows is computed whole; each row then stores its own part alone, so what lies beyond
a bound is neither changed nor used. Steps that not all rows have are done row by row, before or
behind those of all, in the order of each row:

    for k in range(i, n): C[i, j] += ...         rows i to i + 3
->  for k in range(i, i + 3): row i;  for k in range(i + 1, i + 3): row i + 1;  ...
    for k in range(i + 3, n): all four rows
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Buffer, For, If, Space, Stmt, Store
from loopwright.ir.visit import names, operands, substitute
from loopwright.lower.build import seq
from loopwright.lower.linear_forms import linear, normal

__all__ = [
    "Rows",
    "common_steps",
    "ends_of_rows",
    "guarded_stores",
    "own_stores",
    "steps_of_rows",
    "whole_or_own",
]

# Rows of a tile: the variable of rows in bounds, the first row, and how many there are.
Rows: TypeAlias = tuple[str, Expr, int]


def ends_of_rows(loop: For, rows: Rows) -> tuple[For, For] | None:
    """A loop over all iterations of some rows, and over those that all of them have.

    None where a bound does not go up or down with the row.
    """
    row, _, height = rows
    widest: list[Expr] = []
    common: list[Expr] = []
    for op, bound in (("max", loop.start), ("min", loop.stop)):
        tied = [part for part in operands(op, bound) if row in names(part)]
        factors = [dict(linear(part).terms).get(Var(row), 0) for part in tied]
        if any(factor == 0 for factor in factors) or len({factor > 0 for factor in factors}) > 1:
            return None
        ends = [_at_row(bound, rows, at) for at in (0, height - 1)]
        least, largest = ends if factors and factors[0] > 0 else ends[::-1]
        widest.append(least if op == "max" else largest)
        common.append(largest if op == "max" else least)
    made = [replace(loop, start=start, stop=stop) for start, stop in (widest, common)]
    return made[0], made[1]


def steps_of_rows(loop: For, rows: Rows, body: Callable[[Sequence[int]], Stmt]) -> Stmt:
    """The steps of some rows: those of all together, the others row by row.

    `body` are the statements of a step for some rows.
    """
    widest, common = _ends(loop, rows)
    every = range(rows[2])
    before: list[Stmt] = []
    behind: list[Stmt] = []
    for number in every:
        start, stop = _bounds(loop, rows, number)
        if start != common.start:
            end = normal(stop.min(common.start))
            before.append(replace(loop, start=start, stop=end, body=body([number])))
        if stop != common.stop:
            begin = normal(common.stop.max(common.start).max(start))
            behind.append(replace(loop, start=begin, stop=stop, body=body([number])))
    # In most tiles no bound of a row counts.
    head = [If(Binary("lt", widest.start, common.start), seq(*before))] if before else []
    tail = [If(Binary("gt", widest.stop, common.stop), seq(*behind))] if behind else []
    return seq(*head, replace(common, body=body(every)), *tail)


def common_steps(
    lanes: For, steps: For, rows: Rows, lane: Var, width: int
) -> tuple[For, Expr | None]:
    """The steps that all rows have, and whether a tile has no other ones, and all of its lanes."""
    tests: list[Expr] = []
    widest, common = _ends(steps, rows)
    if widest.start != common.start:
        tests.append(Binary("ge", widest.start, common.start))
    if widest.stop != common.stop:
        tests.append(Binary("le", widest.stop, common.stop))
    if rows[0] in names(lanes.start) | names(lanes.stop):
        tests.append(_has_all(lanes, rows, lane, width))
    found: Expr | None = None
    for test in tests:
        found = test if found is None else Binary("and", found, test)
    return common, found


def own_stores(
    lanes: For,
    rows: Rows,
    lane: Var,  # the first one of the tile
    column: Var,  # for loops along the lanes
    name: str,  # for memory of the whole tile
    width: int,
    written: Sequence[Stmt],  # the tile in that memory
    places: Sequence[Expr],  # of the element of every row in a column
) -> Stmt:
    """Every row of a tile stores its part, by way of memory of the core."""
    stores: list[Stmt] = []
    dtype = places[0].dtype
    for number, place in enumerate(places):
        assert isinstance(place, Load)
        start, stop = _bounds(lanes, rows, number)
        value = Load(name, (Const(number), normal(column - lane)), dtype)
        low, high = normal(start.max(lane)), normal(stop.min(lane + width))
        store = Store(place.array, place.index, value)
        stores.append(For(column.name, low, high, store, Const(1)))
    memory = Buffer(name, dtype, (Const(width), Const(1)), Space.STACK, writable=True)
    return Alloc(memory, (Const(len(places)), Const(width)), seq(*written, *stores))


def whole_or_own(
    lanes: For, rows: Rows, lane: Var, width: int, whole: Sequence[Stmt], own: Stmt
) -> Stmt:
    """The stores of a tile that all rows have to the end, or the other ones."""
    return If(normal(_has_all(lanes, rows, lane, width)), seq(*whole), own)


def _has_all(lanes: For, rows: Rows, lane: Var, width: int) -> Expr:
    """Whether all rows have the lanes of a tile."""
    _, common = _ends(lanes, rows)
    inside: Expr = Binary("le", lane + width, common.stop)
    if rows[0] in names(lanes.start):
        inside = Binary("and", Binary("ge", lane, common.start), inside)
    return inside


def guarded_stores(lanes: For, rows: Rows, lane: Var, stores: Sequence[Stmt]) -> Stmt:
    """One element of each row, where the row has it."""
    made: list[Stmt] = []
    for number, store in enumerate(stores):
        start, stop = _bounds(lanes, rows, number)
        inside: Expr = Binary("lt", lane, stop)
        if rows[0] in names(lanes.start):
            inside = Binary("and", Binary("ge", lane, start), inside)
        made.append(If(normal(inside), store))
    return seq(*made)


def _ends(loop: For, rows: Rows) -> tuple[For, For]:
    found = ends_of_rows(loop, rows)
    assert found is not None, "the nest has been asked"
    return found


def _bounds(loop: For, rows: Rows, number: int) -> tuple[Expr, Expr]:
    """The first value and the end of a loop in one of the rows."""
    return _at_row(loop.start, rows, number), _at_row(loop.stop, rows, number)


def _at_row(expr: Expr, rows: Rows, number: int) -> Expr:
    row, first, _ = rows
    return normal(substitute(expr, {row: first + number}))
