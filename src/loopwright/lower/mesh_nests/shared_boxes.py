"""Boxes that the cores of a row or column have in common: parts of panels, and who gives what.

Part p of a panel are its rows p * S to (p + 1) * S - 1; core p of the row or column has brought it
in. A box, `count` rows from row `offset` of the panel on, gets from each core what it has of them:

    for p in range(8):
        let low = max(offset, p * S), rows = max(0, min(offset + count, (p + 1) * S) - low)
        broadcast A_box[low - offset, 0] = A_part[slot, low - p * S, column], rows x width, from p

Of a box that all cores of the mesh have in common core (r, c) has part c * R + r, of R rows of
cores. So the parts of a column lie behind each other: what a box needs of column c each row of
cores gets from its core c, at the same time, and then each column from each of its cores.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Const, Expr, Select, Var
from loopwright.ir.loops import Alloc, Axis, Buffer, For, Let, MeshBroadcast, Stmt
from loopwright.lower.build import seq
from loopwright.lower.linear_forms import normal
from loopwright.lower.mesh_nests.map_to_mesh import COLUMN, ROW

__all__ = ["given_by_all", "given_by_mesh", "own_part"]

_TRUE = Const(True, BOOL)


def own_part(
    axis: Axis,
    parts: tuple[int, int],  # cores in a column, rows of each part
    first: Sequence[Expr],
    count: Sequence[Expr],
    guard: Expr,
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The first element and the extents of the part that a core brings in."""
    cores, rows = parts
    number: Expr = Var(COLUMN if axis is Axis.ROW else ROW)
    if axis is Axis.MESH:
        number = Var(COLUMN) * cores + Var(ROW)
    start = normal(number * rows)
    left = normal((count[0] - start).min(rows).max(0))
    if guard != _TRUE:
        left = Select(guard, left, Const(0))
    return (normal(first[0] + start), *first[1:]), (left, *count[1:])


def given_by_all(
    target: str,
    source: str,
    slot: Expr,
    axis: Axis,
    parts: tuple[int, int],  # cores, rows of each
    offset: Sequence[Expr],
    count: Sequence[Expr],
    guard: Expr,
) -> Stmt:
    """Broadcasts that fill a box; no rows where the guard does not hold."""
    cores, rows = parts
    root, low = Var(f"{target}_from"), Var(f"{target}_low")
    start = normal(root * rows)
    many = count[0] if guard == _TRUE else Select(guard, count[0], Const(0))
    high = normal((offset[0] + many).min(start + rows))
    shape = (normal((high - low).max(0)), *count[1:])
    to = (normal(low - offset[0]), *(Const(0) for _ in count[1:]))
    origin = (slot, normal(low - start), *offset[1:])
    given = MeshBroadcast(target, to, source, origin, shape, axis, root)
    body = Let(low.name, normal(offset[0].max(start)), given)
    return For(root.name, Const(0), Const(cores), body, Const(1))


def given_by_mesh(
    target: str,
    source: str,
    slot: Expr,
    parts: tuple[int, int],  # cores in a column, rows of each part
    offset: Sequence[Expr],
    count: Sequence[Expr],
    guard: Expr,
    relay: Buffer,  # for what a core has of its row and gives to its column
    memory: tuple[Expr, ...],  # the shape of that
) -> Stmt:
    """Broadcasts along rows, then along columns, that fill a box of all cores."""
    cores, rows = parts
    many = count[0] if guard == _TRUE else Select(guard, count[0], Const(0))
    end = normal(offset[0] + many)
    column, low = Var(f"{target}_column"), Var(f"{target}_low")

    def given(row: Expr, axis: Axis, root: Expr) -> Stmt:
        """What core (row, column) has of the box, along a row from it or along a column on."""
        start = normal((column * cores + row) * rows)
        shape = (normal((end.min(start + rows) - low).max(0)), *count[1:])
        to = (normal(low - offset[0]), *(Const(0) for _ in count[1:]))
        origin = (slot, normal(low - start), *offset[1:])
        here = tuple(Const(0) for _ in count)
        if axis is Axis.COLUMN:
            move = MeshBroadcast(target, to, relay.name, here, shape, axis, root)
        else:
            move = MeshBroadcast(relay.name, here, source, origin, shape, axis, root)
        return Let(low.name, normal(offset[0].max(start)), move)

    row = Var(f"{target}_row")
    along = given(Var(ROW), Axis.ROW, column)
    across = For(row.name, Const(0), Const(cores), given(row, Axis.COLUMN, row), Const(1))
    first = normal(offset[0] // (cores * rows))
    last = normal((end + (cores * rows - 1)) // (cores * rows))
    filled = For(column.name, first, last, seq(along, across), Const(1))
    return Alloc(relay, memory, filled)
