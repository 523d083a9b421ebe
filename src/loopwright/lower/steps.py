"""The steps of a register tile over p: feeding left and right to the accumulators `sums`."""

from __future__ import annotations

from dataclasses import dataclass

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Call, Const, Expr, Load, Var
from loopwright.ir.form import Feed, Form, Packing
from loopwright.ir.loops import Alloc, Buffer, Prefetch, Space, Stmt, Store
from loopwright.lower.build import CACHE_LINE, loop, seq, unrolled, vector
from loopwright.lower.combine import combine
from loopwright.lower.packing import depth

__all__ = ["Panels", "accumulate"]

ir, jr, p, step = Var("ir"), Var("jr"), Var("p"), Var("step")
part, lane = Var("part"), Var("lane")


@dataclass(frozen=True, slots=True)
class Panels:
    """The widths of the packed panels; a tile at an edge may use a part of them."""

    rows: int
    columns: int


def accumulate(form: Form, panels: Panels) -> Stmt:
    """The loop over p, `unroll` steps per iteration and single steps for the rest.

    Where a dot instruction takes a group of steps, p counts groups.
    """
    steps = depth(form.group, Var("kb")) // form.group
    if form.unroll == 1:
        return loop(p, 0, steps, _steps(form, panels, 1))
    whole = steps // form.unroll * form.unroll
    return seq(
        loop(p, 0, whole, _steps(form, panels, form.unroll), form.unroll),
        loop(p, whole, steps, _steps(form, panels, 1)),
    )


def _steps(form: Form, panels: Panels, count: int) -> Stmt:
    width = form.lanes * form.group
    right = Buffer("right_row", _right_type(form), (Const(width), Const(1)), Space.REGISTER)
    one = seq(
        unrolled(
            part,
            form.vectors,
            vector(lane, width, Store("right_row", (part, lane), _right(form, panels))),
        ),
        _left_feed(form, panels, _updates(form, panels, count)),
    )
    body = unrolled(step, count, Alloc(right, (Const(form.vectors), Const(width)), one))
    if form.left_packing is Packing.DIRECT and count > 1:
        body = _left_rows(form, count, body)
    if form.ahead and count > 1:
        body = seq(*_prefetch(form, panels, count), body)
    return body


def _left_rows(form: Form, count: int, body: Stmt) -> Stmt:
    """Left read in place: a vector of steps per row, used lane by lane."""
    rows = Buffer("left_rows", form.left, (Const(count), Const(1)), Space.REGISTER)
    reads = [
        vector(
            lane,
            count,
            Store(
                "left_rows",
                (Const(r), lane),
                Load("left", (Var(f"left_row{r}") + p + lane,), form.left),
            ),
        )
        for r in range(form.rows)
    ]
    return Alloc(rows, (Const(form.rows), Const(count)), seq(*reads, body))


def _panel(form: Form, tile: Var, at: Expr, width: int) -> Expr:
    """Where step `at` of the packed panel of `tile` begins, in elements."""
    return tile * depth(form.group, Var("kb")) + at * (width * form.group)


def _prefetch(form: Form, panels: Panels, count: int) -> list[Stmt]:
    """Ask for the lines that `ahead` steps later will read of the panel that streams from L2."""
    if form.feed is Feed.REPLICATED:
        name, tile, width, dtype = "right", jr, panels.columns, form.packed(form.right)
    else:
        name, tile, width, dtype = "left", ir, panels.rows, form.packed(form.left)
    line = max(1, CACHE_LINE // dtype.bytes)
    first = _panel(form, tile, p + form.ahead, width)
    length = count * width * form.group
    return [Prefetch(f"{name}_packed", (first + offset,)) for offset in range(0, length, line)]


def _right_type(form: Form) -> DType:
    direct = form.right_packing is Packing.DIRECT
    return form.right if direct else form.packed(form.right)


def _right(form: Form, panels: Panels) -> Expr:
    """Vector `part` of the right operand at the current step."""
    if form.right_packing is Packing.DIRECT:
        at = Var("right_start") + (p + step) * Var("right_step")
        return Load("right", (at + part * form.lanes + lane,), form.right)
    at = _panel(form, jr, p + step, panels.columns) + part * (form.lanes * form.group) + lane
    return Load("right_packed", (at,), _right_type(form))


def _left_feed(form: Form, panels: Panels, updates: Stmt) -> Stmt:
    """Bring the column of left for this step into registers where the feed wants it there."""
    if form.left_packing is Packing.DIRECT or form.feed is not Feed.LANE:
        return updates
    width = form.lanes * form.group
    count = -(-form.rows // form.lanes)
    dtype = form.packed(form.left)
    column = Buffer("left_column", dtype, (Const(width), Const(1)), Space.REGISTER)
    at = _panel(form, ir, p + step, panels.rows)
    # The last vector is shorter where the rows do not fill it: the panel ends there.
    reads = [
        vector(
            lane,
            min(width, form.rows * form.group - first),
            Store(
                "left_column",
                (Const(first // width), lane),
                Load("left_packed", (at + first + lane,), dtype),
            ),
        )
        for first in range(0, count * width, width)
    ]
    return Alloc(column, (Const(count), Const(width)), seq(*reads, updates))


def _left(form: Form, panels: Panels, r: int, count: int) -> Expr:
    """Element of left for row r of the tile at this step; the first of its group."""
    if form.left_packing is Packing.DIRECT:
        if count > 1:
            return Load("left_rows", (Const(r), step), form.left)
        return Load("left", (Var(f"left_row{r}") + p + step,), form.left)
    dtype = form.packed(form.left)
    at = _panel(form, ir, p + step, panels.rows) + r * form.group
    match form.feed:
        case Feed.LANE:
            place = (Const(r // form.lanes), Const(r % form.lanes * form.group))
            return Load("left_column", place, dtype)
        case Feed.BROADCAST:
            return Load("left_packed", (at,), dtype)
        case Feed.REPLICATED:
            return Load("left_packed", (at * form.lanes + lane,), dtype)


def _updates(form: Form, panels: Panels, count: int) -> Stmt:
    """One rank-1 update of all accumulators, or of `group` steps by dot instructions."""
    parts = []
    for r in range(form.rows):
        here = (Const(r), part, lane)
        total = Load("sums", here, form.accumulator)
        left = _left(form, panels, r, count)
        right = Load("right_row", (part, lane * form.group), _right_type(form))
        if form.group > 1:
            value: Expr = Call("dot", (left, right, total))
        else:
            value = combine(form, total, left, right)
        parts.append(
            unrolled(part, form.vectors, vector(lane, form.lanes, Store("sums", here, value)))
        )
    return seq(*parts)
