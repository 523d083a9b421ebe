"""The steps of a register tile over p: feeding left and right to the accumulators `sums`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Var
from loopwright.ir.kernel_variant import Broadcast, ContractionKernel, Packing
from loopwright.ir.loops import Alloc, Buffer, If, Prefetch, Space, Stmt, Store
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import CACHE_LINE, lets, loop, seq, unrolled, vector
from loopwright.lower.contraction_nests.combine import apply, combine, is_fused, product
from loopwright.lower.contraction_nests.operand_layout import Layout, Place, bind
from loopwright.lower.contraction_nests.packing import depth, pitch

__all__ = ["STEP_BOUNDS", "InPlace", "Panels", "accumulate", "step_bounds"]

p, step = Var("p"), Var("step")
part, lane = Var("part"), Var("lane")
ir, jr = Var("ir"), Var("jr")
# Products that a replicated tile takes before the first of their sums. Where a product takes longer
# than a sum, both may end in one pipe at the same time, and one of them waits. Neoverse N1: three
# products ahead gain 2 to 3% for max over products, 1% for min over sums; two and four lose that.
_AHEAD_OF_SUMS = 3
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
    runs: tuple[Place, ...] = ()  # of right, one per vector, where the tile fills its panel


def accumulate(kernel: ContractionKernel, panels: Panels, direct: InPlace) -> Stmt:
    """The loop over p, `unroll` steps per iteration and single steps for the rest.

    Where a dot instruction takes a group of steps, p counts groups.
    """
    if not direct.layout.step_clips:
        steps = depth(kernel.variant.group, Var("kb")) // kernel.variant.group
        return _whole_steps(kernel, panels, direct, Const(0), steps)
    first, whole, end, last = STEP_BOUNDS
    part = _steps(kernel, panels, direct, 1, clipped=True)
    return seq(
        loop(p, first, whole, part),
        _whole_steps(kernel, panels, direct, whole, end),
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


def _whole_steps(
    kernel: ContractionKernel, panels: Panels, direct: InPlace, first: Expr, last: Expr
) -> Stmt:
    """Steps that count in all rows."""
    variant = kernel.variant
    if variant.unroll == 1:
        return loop(p, first, last, _steps(kernel, panels, direct, 1))
    whole = first + (last - first) // variant.unroll * variant.unroll
    return seq(
        loop(
            p,
            first,
            whole,
            _steps(kernel, panels, direct, variant.unroll),
            variant.unroll,
        ),
        loop(p, whole, last, _steps(kernel, panels, direct, 1)),
    )


def _steps(
    kernel: ContractionKernel, panels: Panels, direct: InPlace, count: int, *, clipped: bool = False
) -> Stmt:
    variant = kernel.variant
    width = variant.lanes * variant.group
    right = Buffer("right_row", _right_type(kernel), (Const(width), Const(1)), Space.REGISTER)
    if direct.runs:
        feed = _packed_on_the_way(kernel, panels, direct)
    else:
        value = _right(kernel, panels, direct)
        read = vector(lane, width, Store("right_row", (part, lane), value))
        feed = unrolled(part, variant.vectors, read)
    one = seq(
        feed,
        _left_feed(kernel, panels, _updates(kernel, panels, direct, count, clipped=clipped)),
    )
    row = Alloc(right, (Const(variant.vectors), Const(width)), one)
    # Where the tile leaves one register or two, vectors of the next step have no room.
    body = unrolled(step, count, row, in_order=variant.broadcast is Broadcast.LOAD)
    if variant.left_packing is Packing.DIRECT and variant.broadcast is Broadcast.LANE and count > 1:
        body = _left_rows(kernel, direct, count, body)
    is_fetched = direct.runs or variant.right_packing is not Packing.BY_TILE
    if variant.ahead and is_fetched and (count > 1 or variant.group > 1):
        body = seq(*_prefetch(kernel, panels, direct, count), body)
    return body


def _left_rows(kernel: ContractionKernel, direct: InPlace, count: int, body: Stmt) -> Stmt:
    """Left read in place: a vector of steps per row, used lane by lane."""
    rows = Buffer("left_rows", kernel.left, (Const(count), Const(1)), Space.REGISTER)
    reads = [
        vector(
            lane,
            count,
            Store(
                "left_rows",
                (Const(r), lane),
                direct.layout.value("left", start.along(p).along(lane), kernel.left),
            ),
        )
        for r, start in enumerate(direct.left)
    ]
    return Alloc(rows, (Const(kernel.variant.rows), Const(count)), seq(*reads, body))


def _panel(kernel: ContractionKernel, tile: Var, at: Expr, width: int) -> Expr:
    """Where step `at` of the packed panel of `tile` begins, in elements."""
    return tile * pitch(Var("kb")) + at * (width * kernel.variant.group)


def _prefetch(kernel: ContractionKernel, panels: Panels, direct: InPlace, count: int) -> list[Stmt]:
    """Ask for the lines that `ahead` steps later will read of the panel that streams from L2.

    Of right in place: of its rows, each of which may begin on a page of its own.
    """
    variant = kernel.variant
    start = direct.runs[0] if direct.runs else direct.right
    if start is not None:
        # Rows begin anywhere: the last element may lie on one line more.
        line = max(1, CACHE_LINE // kernel.right.bytes)
        offsets = [*range(0, variant.columns - 1, line), variant.columns - 1]
        rows = [
            direct.layout.onward("right", Var("pc") + p + (variant.ahead + k)) for k in range(count)
        ]
        places = [(start + row).along(Const(x)) for row in rows for x in offsets]
        return [Prefetch(direct.layout.buffer("right"), place.index) for place in places]
    if variant.broadcast is Broadcast.REPLICATED:
        name, tile, width, dtype = "right", jr, panels.columns, kernel.packed_right
    else:
        name, tile, width, dtype = "left", ir, panels.rows, kernel.packed_left
    line = max(1, CACHE_LINE // dtype.bytes)
    first = _panel(kernel, tile, p + variant.ahead, width)
    length = count * width * variant.group
    return [Prefetch(f"{name}_packed", (first + offset,)) for offset in range(0, length, line)]


def _right_type(kernel: ContractionKernel) -> DType:
    direct = kernel.variant.right_packing is Packing.DIRECT
    return kernel.right if direct else kernel.packed_right


def _right(kernel: ContractionKernel, panels: Panels, direct: InPlace) -> Expr:
    """Vector `part` of the right operand at the current step."""
    variant = kernel.variant
    if direct.right is not None:
        start = direct.right + direct.layout.onward("right", p + step)
        run = start.along(part * variant.lanes).along(lane)
        return direct.layout.value("right", run, kernel.right)
    at = (
        _panel(kernel, jr, p + step, panels.columns) + part * (variant.lanes * variant.group) + lane
    )
    return Load("right_packed", (at,), _right_type(kernel))


def _packed_on_the_way(kernel: ContractionKernel, panels: Panels, direct: InPlace) -> Stmt:
    """The vectors of right at the current step from where they lie, and into the panel."""
    layout, lanes = direct.layout, kernel.variant.lanes
    onward, bindings = bind("right_at", layout.at("right", "p", Var("pc") + p + step))
    here = _panel(kernel, jr, p + step, panels.columns)
    reads, writes = [], []
    for v, run in enumerate(direct.runs):
        register = (Const(v), lane)
        value = layout.value("right", (run + onward).along(lane), kernel.right)
        reads.append(vector(lane, lanes, Store("right_row", register, value)))
        value = Load("right_row", register, kernel.right)
        writes.append(vector(lane, lanes, Store("right_packed", (here + v * lanes + lane,), value)))
    return lets(bindings, seq(*reads, *writes))


def _left_feed(kernel: ContractionKernel, panels: Panels, updates: Stmt) -> Stmt:
    """Bring the column of left for this step into registers where the feed wants it there."""
    variant = kernel.variant
    if variant.left_packing is Packing.DIRECT or variant.broadcast is not Broadcast.LANE:
        return updates
    width = variant.lanes * variant.group
    count = -(-variant.rows // variant.lanes)
    dtype = kernel.packed_left
    column = Buffer("left_column", dtype, (Const(width), Const(1)), Space.REGISTER)
    at = _panel(kernel, ir, p + step, panels.rows)
    # The last vector is shorter where the rows do not fill it: the panel ends there.
    reads = [
        vector(
            lane,
            min(width, variant.rows * variant.group - first),
            Store(
                "left_column",
                (Const(first // width), lane),
                Load("left_packed", (at + first + lane,), dtype),
            ),
        )
        for first in range(0, count * width, width)
    ]
    return Alloc(column, (Const(count), Const(width)), seq(*reads, updates))


def _left(kernel: ContractionKernel, panels: Panels, direct: InPlace, r: int, count: int) -> Expr:
    """Element of left for row r of the tile at this step; the first of its group."""
    variant = kernel.variant
    if variant.left_packing is Packing.DIRECT:
        if count > 1 and variant.broadcast is Broadcast.LANE:
            return Load("left_rows", (Const(r), step), kernel.left)
        return direct.layout.value("left", direct.left[r].along(p).along(step), kernel.left)
    dtype = kernel.packed_left
    at = _panel(kernel, ir, p + step, panels.rows) + r * variant.group
    match variant.broadcast:
        case Broadcast.LANE:
            place = (
                Const(r // variant.lanes),
                Const(r % variant.lanes * variant.group),
            )
            return Load("left_column", place, dtype)
        case Broadcast.LOAD:
            return Load("left_packed", (at,), dtype)
        case Broadcast.REPLICATED:
            return Load("left_packed", (at * variant.lanes + lane,), dtype)


def _updates(
    kernel: ContractionKernel, panels: Panels, direct: InPlace, count: int, *, clipped: bool
) -> Stmt:
    """One rank-1 update of all accumulators, or of `group` steps by dot instructions."""
    variant = kernel.variant
    if variant.broadcast is Broadcast.REPLICATED and not clipped and not is_fused(kernel):
        return _staggered_updates(kernel, panels, direct, count)
    parts = []
    for r in range(variant.rows):
        here = (Const(r), part, lane)
        total = Load("sums", here, kernel.algebra.accumulator)
        left = _left(kernel, panels, direct, r, count)
        right = Load("right_row", (part, lane * variant.group), _right_type(kernel))
        if variant.group > 1:
            value: Expr = Call("dot", (left, right, total))
        elif _takes_term_first(kernel):
            value = apply(kernel.algebra.plus, product(kernel, left, right), total)
        else:
            value = combine(kernel, total, left, right)
        row = unrolled(
            part,
            variant.vectors,
            vector(lane, variant.lanes, Store("sums", here, value)),
        )
        if clipped:
            i = Var("ic") + (ir + r).min(Var("mb") - 1)
            counts = (clip.holds(i, Var("pc") + p) for clip in direct.layout.step_clips)
            row = If(reduce(lambda x, y: Binary("and", x, y), counts), row)
        parts.append(row)
    return seq(*parts)


def _takes_term_first(kernel: ContractionKernel) -> bool:
    """Whether plus takes the product as its first operand, the sum as its second.

    An exact minimum is a few instructions on x86, and LLVM overwrites what it is given first; were
    that the sum, the new one would end in another register, and be moved back or spilled. In an
    exact maximum LLVM exchanges the operands itself.
    """
    is_exact = kernel.algebra.plus == "min" and kernel.algebra.accumulator.is_float
    return is_exact and kernel.variant.broadcast is Broadcast.LOAD


def _staggered_updates(
    kernel: ContractionKernel, panels: Panels, direct: InPlace, count: int
) -> Stmt:
    """One rank-1 update, column of vectors by column, with products ahead of their sums."""
    variant, accumulator = kernel.variant, kernel.algebra.accumulator
    lanes, slots = variant.lanes, _AHEAD_OF_SUMS + 1
    strides = Const(lanes), Const(1)
    column = Buffer("left_column", kernel.packed_left, strides, Space.REGISTER)
    ahead = Buffer("products", accumulator, strides, Space.REGISTER)
    parts = [
        vector(lane, lanes, Store("left_column", (Const(r), lane), value))
        for r in range(variant.rows)
        for value in [_left(kernel, panels, direct, r, count)]
    ]
    products: list[Stmt] = []
    sums: list[Stmt] = []
    for v in range(variant.vectors):
        right = Load("right_row", (Const(v), lane), _right_type(kernel))
        for r in range(variant.rows):
            slot = Const(len(products) % slots), lane
            left = Load("left_column", (Const(r), lane), kernel.packed_left)
            products.append(Store("products", slot, product(kernel, left, right)))
            here = Const(r), Const(v), lane
            total, term = Load("sums", here, accumulator), Load("products", slot, accumulator)
            sums.append(Store("sums", here, apply(kernel.algebra.plus, total, term)))
    first, rest = products[:_AHEAD_OF_SUMS], products[_AHEAD_OF_SUMS:]
    pairs = (store for both in zip(rest, sums, strict=False) for store in both)
    due = (*first, *pairs, *sums[len(rest) :])
    parts += [vector(lane, lanes, store) for store in due]
    body = Alloc(ahead, (Const(slots), Const(lanes)), seq(*parts))
    return Alloc(column, (Const(variant.rows), Const(lanes)), body)
