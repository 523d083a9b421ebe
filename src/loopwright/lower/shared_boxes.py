"""Boxes that the cores of a row or column have in common: parts of panels, and who gives what.

Part p of a panel are its rows p * S to (p + 1) * S - 1; core p of the row or column has brought it
in. A box, `count` rows from row `offset` of the panel on, gets from each core what it has of them:

    for p in range(8):
        let low = max(offset, p * S), rows = max(0, min(offset + count, (p + 1) * S) - low)
        broadcast A_box[low - offset, 0] = A_part[slot, low - p * S, column], rows x width, from p
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Const, Expr, Select, Var
from loopwright.ir.loops import Axis, For, Let, MeshBroadcast, Stmt
from loopwright.lower.linear_forms import normal
from loopwright.lower.map_to_mesh import COLUMN, ROW

__all__ = ["given_by_all", "own_part"]

_TRUE = Const(True, BOOL)


def own_part(
    axis: Axis, rows: int, first: Sequence[Expr], count: Sequence[Expr], guard: Expr
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The first element and the extents of the part that a core brings in, of `rows` rows."""
    start = normal(Var(COLUMN if axis is Axis.ROW else ROW) * rows)
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
