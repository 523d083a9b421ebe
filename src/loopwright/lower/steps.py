"""The steps of a register tile over p: feeding left and right to the accumulators `sums`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Var
from loopwright.ir.form import Feed, Form, Packing
from loopwright.ir.loops import Alloc, Buffer, If, Prefetch, Space, Stmt, Store
from loopwright.lower.build import CACHE_LINE, loop, seq, unrolled, vector
from loopwright.lower.combine import combine
from loopwright.lower.packed_panels import depth, pitch
from loopwright.lower.places import Layout, Place

__all__ = ["STEP_BOUNDS", "InPlace", "Panels", "accumulate", "step_bounds"]

ir, jr, p, step = Var("ir"), Var("jr"), Var("p"), Var("step")
part, lane = Var("part"), Var("lane")
# Steps of a block that count in some rows of a tile, and in all of them: see step_bounds.
STEP_BOUNDS = tuple(Var(f"step_{x}") for x in ("first", "whole", "end", "last"))


@dataclass(frozen=True, slots=True)
class Panels:
    """The widths of the packed panels; a tile at an edge may use a part of them."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class InPlace:
    """Operands that are read where they lie: where the tile's rows and its first column begin."""

    layout: Layout
    left: tuple[Place, ...] = ()  # by row; empty where left is packed
    right: Place | None = None  # None where right is packed


def accumulate(form: Form, panels: Panels, direct: InPlace) -> Stmt:
    """The loop over p, `unroll` steps per iteration and single steps for the rest.

    Where a dot instruction takes a group of steps, p counts groups.
    """
    if not direct.layout.step_clips:
        steps = depth(form.group, Var("kb")) // form.group
        return _whole_steps(form, panels, direct, Const(0), steps)
    first, whole, end, last = STEP_BOUNDS
    part = _steps(form, panels, direct, 1, clipped=True)
    return seq(
        loop(p, first, whole, part),
        _whole_steps(form, panels, direct, whole, end),
        loop(p, end, last, part),
    )


def step_bounds(layout: Layout, rows: tuple[Expr, Expr]) -> list[tuple[Var, Expr]]:
    """Where steps count: in some rows from the first on, in all from the second to the third.

    STEP_BOUNDS rise: steps between the first two and between the last two count in some rows only.
    """
    lower = [clip for clip in layout.step_clips if clip.p > 0]
    upper = [clip for clip in layout.step_clips if clip.p < 0]
    first, whole, end, last = STEP_BOUNDS

    def start(bounds: Iterable[Expr]) -> Expr:
        found: Expr = Const(0)
        for bound in bounds:
            found = found.max(bound - Var("pc"))
        return found

    def stop(bounds: Iterable[Expr]) -> Expr:
        found: Expr = Var("kb")
        for bound in bounds:
            found = found.min(bound - Var("pc"))
        return found

    return [
        (first, start(clip.in_some(rows) for clip in lower)),
        (last, stop(clip.in_some(rows) for clip in upper)),
        (whole, start(clip.in_all(rows) for clip in lower).min(last).max(first)),
        (end, stop(clip.in_all(rows) for clip in upper).min(last).max(whole)),
    ]


def _whole_steps(form: Form, panels: Panels, direct: InPlace, first: Expr, last: Expr) -> Stmt:
    """Steps that count in all rows."""
    if form.unroll == 1:
        return loop(p, first, last, _steps(form, panels, direct, 1))
    whole = first + (last - first) // form.unroll * form.unroll
    return seq(
        loop(p, first, whole, _steps(form, panels, direct, form.unroll), form.unroll),
        loop(p, whole, last, _steps(form, panels, direct, 1)),
    )


def _steps(
    form: Form, panels: Panels, direct: InPlace, count: int, *, clipped: bool = False
) -> Stmt:
    width = form.lanes * form.group
    right = Buffer("right_row", _right_type(form), (Const(width), Const(1)), Space.REGISTER)
    one = seq(
        unrolled(
            part,
            form.vectors,
            vector(lane, width, Store("right_row", (part, lane), _right(form, panels, direct))),
        ),
        _left_feed(form, panels, _updates(form, panels, direct, count, clipped=clipped)),
    )
    body = unrolled(step, count, Alloc(right, (Const(form.vectors), Const(width)), one))
    if form.left_packing is Packing.DIRECT and form.feed is Feed.LANE and count > 1:
        body = _left_rows(form, direct, count, body)
    if form.ahead and (count > 1 or form.group > 1):
        body = seq(*_prefetch(form, panels, count), body)
    return body


def _left_rows(form: Form, direct: InPlace, count: int, body: Stmt) -> Stmt:
    """Left read in place: a vector of steps per row, used lane by lane."""
    rows = Buffer("left_rows", form.left, (Const(count), Const(1)), Space.REGISTER)
    reads = [
        vector(
            lane,
            count,
            Store(
                "left_rows",
                (Const(r), lane),
                direct.layout.value("left", start.along(p).along(lane), form.left),
            ),
        )
        for r, start in enumerate(direct.left)
    ]
    return Alloc(rows, (Const(form.rows), Const(count)), seq(*reads, body))


def _panel(form: Form, tile: Var, at: Expr, width: int) -> Expr:
    """Where step `at` of the packed panel of `tile` begins, in elements."""
    return tile * pitch(Var("kb")) + at * (width * form.group)


def _prefetch(form: Form, panels: Panels, count: int) -> list[Stmt]:
    """Ask for the lines that `ahead` steps later will read of the panel that streams from L2."""
    if form.feed is Feed.REPLICATED:
        name, tile, width, dtype = "right", jr, panels.columns, form.packed_right
    else:
        name, tile, width, dtype = "left", ir, panels.rows, form.packed_left
    line = max(1, CACHE_LINE // dtype.bytes)
    first = _panel(form, tile, p + form.ahead, width)
    length = count * width * form.group
    return [Prefetch(f"{name}_packed", (first + offset,)) for offset in range(0, length, line)]


def _right_type(form: Form) -> DType:
    direct = form.right_packing is Packing.DIRECT
    return form.right if direct else form.packed_right


def _right(form: Form, panels: Panels, direct: InPlace) -> Expr:
    """Vector `part` of the right operand at the current step."""
    if direct.right is not None:
        start = direct.right + direct.layout.onward("right", p + step)
        run = start.along(part * form.lanes).along(lane)
        return direct.layout.value("right", run, form.right)
    at = _panel(form, jr, p + step, panels.columns) + part * (form.lanes * form.group) + lane
    return Load("right_packed", (at,), _right_type(form))


def _left_feed(form: Form, panels: Panels, updates: Stmt) -> Stmt:
    """Bring the column of left for this step into registers where the feed wants it there."""
    if form.left_packing is Packing.DIRECT or form.feed is not Feed.LANE:
        return updates
    width = form.lanes * form.group
    count = -(-form.rows // form.lanes)
    dtype = form.packed_left
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


def _left(form: Form, panels: Panels, direct: InPlace, r: int, count: int) -> Expr:
    """Element of left for row r of the tile at this step; the first of its group."""
    if form.left_packing is Packing.DIRECT:
        if count > 1 and form.feed is Feed.LANE:
            return Load("left_rows", (Const(r), step), form.left)
        return direct.layout.value("left", direct.left[r].along(p).along(step), form.left)
    dtype = form.packed_left
    at = _panel(form, ir, p + step, panels.rows) + r * form.group
    match form.feed:
        case Feed.LANE:
            place = (Const(r // form.lanes), Const(r % form.lanes * form.group))
            return Load("left_column", place, dtype)
        case Feed.BROADCAST:
            return Load("left_packed", (at,), dtype)
        case Feed.REPLICATED:
            return Load("left_packed", (at * form.lanes + lane,), dtype)


def _updates(form: Form, panels: Panels, direct: InPlace, count: int, *, clipped: bool) -> Stmt:
    """One rank-1 update of all accumulators, or of `group` steps by dot instructions."""
    parts = []
    for r in range(form.rows):
        here = (Const(r), part, lane)
        total = Load("sums", here, form.accumulator)
        left = _left(form, panels, direct, r, count)
        right = Load("right_row", (part, lane * form.group), _right_type(form))
        if form.group > 1:
            value: Expr = Call("dot", (left, right, total))
        else:
            value = combine(form, total, left, right)
        row = unrolled(part, form.vectors, vector(lane, form.lanes, Store("sums", here, value)))
        if clipped:
            i = Var("ic") + (ir + r).min(Var("mb") - 1)
            counts = (clip.holds(i, Var("pc") + p) for clip in direct.layout.step_clips)
            row = If(reduce(lambda x, y: Binary("and", x, y), counts), row)
        parts.append(row)
    return seq(*parts)
