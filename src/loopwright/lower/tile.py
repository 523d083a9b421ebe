"""The register tile: M_r x N_r accumulators, fed over p, and their way from and to memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Var, cast
from loopwright.ir.kernel_variant import Broadcast, ContractionKernel, Initial, Packing
from loopwright.ir.loops import Alloc, Buffer, If, Prefetch, Space, Stmt, Store
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import CACHE_LINE, lets, loop, seq, unrolled, vector
from loopwright.lower.combine import add_bias, combine, start_from, zero
from loopwright.lower.operand_layout import TABLES, Layout, Place, bind
from loopwright.lower.packing import depth, pitch

__all__ = ["STEP_BOUNDS", "InPlace", "Panels", "accumulate", "register_tiles", "step_bounds"]

ir, jr = Var("ir"), Var("jr")
row, part, lane = Var("row"), Var("part"), Var("lane")


def register_tiles(
    kernel: ContractionKernel, layout: Layout = TABLES, *, halves: bool = True
) -> Stmt:
    """All tiles of the block: loops jr and ir around one tile.

    The last tile of a row or column of tiles may need half of its rows or columns only; with
    `halves` it then computes no more than that half, at the price of four times the code.
    """
    variant = kernel.variant
    first = Var("jr_tile") if _is_shifted(kernel, layout) else jr
    body = _whole_tile(kernel, kernel, layout)
    if layout.clips:
        some = (clip.holds_for_some(*_corners(kernel)) for clip in layout.clips)
        body = If(_all_of(some), body)
    if halves and variant.rows >= 4:
        half = _smaller(kernel, (variant.rows + 1) // 2, variant.vectors)
        body = If((Var("mb") - ir) <= half.variant.rows, _whole_tile(half, kernel, layout), body)
    if halves and variant.vectors >= 2:
        half = _smaller(kernel, variant.rows, (variant.vectors + 1) // 2)
        few = (Var("nb") - first) <= half.variant.columns
        body = If(few, _whole_tile(half, kernel, layout), body)
    if variant.broadcast is Broadcast.REPLICATED:
        # A replicated panel of left is the larger one: it stays in L1 while those of right pass.
        columns = loop(jr, 0, Var("nb"), body, variant.columns)
        return loop(ir, 0, Var("mb"), columns, variant.rows)
    rows = loop(ir, 0, Var("mb"), body, variant.rows)
    return loop(first, 0, Var("nb"), rows, variant.columns)


def _is_shifted(kernel: ContractionKernel, layout: Layout) -> bool:
    """Whether a tile at the right edge begins earlier and computes some columns once more.

    Right that lies in place must not be read beyond its columns. Sums that begin at zero and are
    complete after one tile may be written twice.
    """
    is_direct = kernel.variant.right_packing is Packing.DIRECT
    return is_direct and kernel.algebra.initial is Initial.ZERO and layout is TABLES


def _whole_tile(kernel: ContractionKernel, panel: ContractionKernel, layout: Layout) -> Stmt:
    """A tile at jr, or where it is whole for the last time."""
    body = _placed(kernel, panel, layout)
    if not _is_shifted(kernel, layout):
        return body
    last = Var("nb") - kernel.variant.columns
    return lets([(jr, Var("jr_tile").min(last))], body)


def _smaller(kernel: ContractionKernel, rows: int, vectors: int) -> ContractionKernel:
    """The kernel with a smaller tile, a step of p at a time."""
    variant = replace(kernel.variant, rows=rows, vectors=vectors, unroll=1, ahead=0)
    return replace(kernel, variant=variant)


def _corners(kernel: ContractionKernel) -> tuple[tuple[Expr, Expr], tuple[Expr, Expr]]:
    """First and last rows and columns of the tile that lie inside the block."""
    rows = Var("ic") + ir, Var("ic") + (ir + (kernel.variant.rows - 1)).min(Var("mb") - 1)
    return rows, (
        Var("jc") + jr,
        Var("jc") + (jr + (kernel.variant.columns - 1)).min(Var("nb") - 1),
    )


def _all_of(conditions: Iterable[Expr]) -> Expr:
    return reduce(lambda x, y: Binary("and", x, y), conditions)


@dataclass(frozen=True, slots=True)
class _Tile:
    """One tile: its shape, and where its rows and columns lie in out."""

    kernel: ContractionKernel
    layout: Layout
    rows: tuple[Place, ...]  # of out, from its base on
    columns: tuple[Place, ...]  # of out, one per vector, as far as they lead from a row

    def out(self, place: Place) -> Expr:
        return Load(self.layout.buffer("out"), place.index, self.kernel.algebra.out)

    def put(self, place: Place, value: Expr) -> Stmt:
        return Store(self.layout.buffer("out"), place.index, cast(value, self.kernel.algebra.out))


def _placed(kernel: ContractionKernel, panel: ContractionKernel, layout: Layout) -> Stmt:
    """A tile of the shape of `kernel` over panels of the shape of `panel`."""
    variant = kernel.variant
    bindings: list[tuple[Var, Expr]] = []

    def named(name: str, place: Place) -> Place:
        bound, values = bind(name, place)
        bindings.extend(values)
        return bound

    out_rows, left_rows = [], []
    # Rows beyond the edge repeat the last one: what they compute is never stored.
    for r in range(variant.rows):
        i = Var("ic") + (ir + r).min(Var("mb") - 1)
        row_start = layout.base("out") + layout.at("out", "i", i)
        out_rows.append(named(f"out_row{r}", row_start))
        if variant.left_packing is Packing.DIRECT:
            start = layout.base("left") + layout.at("left", "i", i)
            left_rows.append(named(f"left_row{r}", start))
    right = None
    if variant.right_packing is Packing.DIRECT:
        start = layout.base("right") + layout.at("right", "j", Var("jc") + jr)
        right = named("right_start", start)
    out_columns = []
    # Past the edge these are not used.
    for v in range(variant.vectors):
        j = Var("jc") + (jr + v * variant.lanes).min(Var("nb") - 1)
        out_columns.append(named(f"out_col{v}", layout.at("out", "j", j)))
    tile = _Tile(kernel, layout, tuple(out_rows), tuple(out_columns))
    direct = InPlace(layout, tuple(left_rows), right)
    return lets(bindings, _tile(tile, Panels(panel.variant.rows, panel.variant.columns), direct))


def _tile(tile: _Tile, panels: Panels, direct: InPlace) -> Stmt:
    kernel = tile.kernel
    shape = (Const(kernel.variant.rows), Const(kernel.variant.vectors), Const(kernel.variant.lanes))
    strides = (Const(kernel.variant.columns), Const(kernel.variant.lanes), Const(1))
    accumulators = Buffer("sums", kernel.algebra.accumulator, strides, Space.REGISTER)
    edge = Buffer(
        "edge", kernel.algebra.accumulator, (Const(kernel.variant.columns), Const(1)), Space.STACK
    )
    start = (
        seq(_initialise(tile), add_bias(kernel)) if kernel.variant.flipped else _initialise(tile)
    )
    body = seq(start, accumulate(kernel, panels, direct), _write_back(tile))
    if tile.layout.step_clips:
        first, *_, last = STEP_BOUNDS
        body = lets(step_bounds(tile.layout, _corners(kernel)[0]), If(first < last, body))
    extent = (Const(kernel.variant.rows), Const(kernel.variant.columns))
    return Alloc(edge, extent, Alloc(accumulators, shape, body))


def _by_columns(tile: _Tile, whole: Stmt, edge: Stmt) -> Stmt:
    """The way between accumulators and out: all columns of the tile, or those before the edge."""
    inside = (jr + tile.kernel.variant.columns) <= Var("nb")
    clips = (clip.holds_for_all(*_corners(tile.kernel)) for clip in tile.layout.clips)
    return If(_all_of((inside, *clips)), whole, edge)


def _element_starts(tile: _Tile) -> tuple[list[Place], list[tuple[Var, Expr]]]:
    """How far all columns of the tile lie in out, and the bindings that say so."""
    found = [
        bind(f"out_at{c}", tile.layout.at("out", "j", Var("jc") + jr + c))
        for c in range(tile.kernel.variant.columns)
    ]
    return [place for place, _ in found], [b for _, bindings in found for b in bindings]


def _read_elements(tile: _Tile, first: bool) -> Stmt:
    """Single elements of out to the accumulators, straight to their lanes."""
    starts, bindings = _element_starts(tile)
    lanes = tile.kernel.variant.lanes
    parts = []
    for r, row_start in enumerate(tile.rows):
        for c, start in enumerate(starts):
            here = (Const(r), Const(c // lanes), Const(c % lanes))
            old = tile.out(row_start + start)
            parts.append(Store("sums", here, _old(tile.kernel, old, first)))
    return lets(bindings, seq(*parts))


def _write_elements(tile: _Tile) -> Stmt:
    """Accumulators to single elements of out, row by row up to the edge."""
    starts, bindings = _element_starts(tile)
    kernel = tile.kernel
    rows = []
    for r, row_start in enumerate(tile.rows):
        parts = []
        for c, start in enumerate(starts):
            here = (Const(r), Const(c // kernel.variant.lanes), Const(c % kernel.variant.lanes))
            parts.append(
                tile.put(row_start + start, Load("sums", here, kernel.algebra.accumulator))
            )
        rows.append(seq(*parts) if r == 0 else If((ir + r) < Var("mb"), seq(*parts)))
    return lets(bindings, seq(*rows))


def _each_vector(kernel: ContractionKernel, store: Stmt) -> Stmt:
    variant = kernel.variant
    return unrolled(
        row,
        variant.rows,
        unrolled(part, variant.vectors, vector(lane, variant.lanes, store)),
    )


def _read_vectors(tile: _Tile, first: bool) -> Stmt:
    """Whole vectors of out to the accumulators; rows beyond the edge repeat the last one."""
    parts = []
    for r, row_start in enumerate(tile.rows):
        for v, column in enumerate(tile.columns):
            old = tile.out((row_start + column).along(lane))
            store = Store("sums", (Const(r), Const(v), lane), _old(tile.kernel, old, first))
            parts.append(vector(lane, tile.kernel.variant.lanes, store))
    return seq(*parts)


def _write_vectors(tile: _Tile) -> Stmt:
    """Accumulators to whole vectors of out, row by row up to the edge."""
    kernel = tile.kernel
    rows = []
    for r, row_start in enumerate(tile.rows):
        parts = []
        for v, column in enumerate(tile.columns):
            value = Load("sums", (Const(r), Const(v), lane), kernel.algebra.accumulator)
            store = tile.put((row_start + column).along(lane), value)
            parts.append(vector(lane, kernel.variant.lanes, store))
        rows.append(seq(*parts) if r == 0 else If((ir + r) < Var("mb"), seq(*parts)))
    return seq(*rows)


def _old(kernel: ContractionKernel, element: Expr, first: bool) -> Expr:
    """An element of out as an accumulator, at the first block of p or a later one."""
    return start_from(kernel, element) if first else cast(element, kernel.algebra.accumulator)


def _out_elements(tile: _Tile, to_memory: bool, first: bool = False) -> Stmt:
    """Single elements between out and the edge buffer, inside the tile's true extent."""
    kernel, layout = tile.kernel, tile.layout
    rows = (Var("mb") - ir).min(kernel.variant.rows)
    columns = (Var("nb") - jr).min(kernel.variant.columns)
    i, j = Var("ic") + ir + Var("edge_i"), Var("jc") + jr + Var("edge_j")
    at = layout.base("out") + layout.at("out", "i", i) + layout.at("out", "j", j)
    here = (Var("edge_i"), Var("edge_j"))
    if to_memory:
        store = tile.put(at, Load("edge", here, kernel.algebra.accumulator))
    else:
        store = Store("edge", here, _old(kernel, tile.out(at), first))
    if layout.clips:
        store = If(_all_of(clip.holds(i, j) for clip in layout.clips), store)
    return loop(Var("edge_i"), 0, rows, loop(Var("edge_j"), 0, columns, store))


def _initialise(tile: _Tile) -> Stmt:
    """Accumulators start from `initial` at the first block of p, from out at the later ones."""
    kernel = tile.kernel
    later = _load_out(tile, first=False)
    match kernel.algebra.initial:
        case Initial.OUT:
            return later
        case Initial.ZERO:
            first = _each_vector(kernel, Store("sums", (row, part, lane), zero(kernel)))
        case Initial.SCALED:
            first = _load_out(tile, first=True)
    return If(Var("pc").equals(0), first, later)


def _load_out(tile: _Tile, first: bool) -> Stmt:
    kernel = tile.kernel
    here, at = (row, part, lane), (row, part * kernel.variant.lanes + lane)
    from_edge = _each_vector(
        kernel, Store("sums", here, Load("edge", at, kernel.algebra.accumulator))
    )
    blank = _each_vector(kernel, Store("edge", at, zero(kernel)))
    return _by_columns(
        tile,
        _read_vectors(tile, first) if kernel.variant.runs else _read_elements(tile, first),
        seq(blank, _out_elements(tile, to_memory=False, first=first), from_edge),
    )


def _write_back(tile: _Tile) -> Stmt:
    kernel = tile.kernel
    here, at = (row, part, lane), (row, part * kernel.variant.lanes + lane)
    to_edge = _each_vector(
        kernel, Store("edge", at, Load("sums", here, kernel.algebra.accumulator))
    )
    return _by_columns(
        tile,
        _write_vectors(tile) if kernel.variant.runs else _write_elements(tile),
        seq(to_edge, _out_elements(tile, to_memory=True)),
    )


# -- the steps of a register tile over p: feeding left and right to the accumulators `sums` -------


p, step = Var("p"), Var("step")
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
    one = seq(
        unrolled(
            part,
            variant.vectors,
            vector(lane, width, Store("right_row", (part, lane), _right(kernel, panels, direct))),
        ),
        _left_feed(kernel, panels, _updates(kernel, panels, direct, count, clipped=clipped)),
    )
    body = unrolled(step, count, Alloc(right, (Const(variant.vectors), Const(width)), one))
    if variant.left_packing is Packing.DIRECT and variant.broadcast is Broadcast.LANE and count > 1:
        body = _left_rows(kernel, direct, count, body)
    if variant.ahead and (count > 1 or variant.group > 1):
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
    if direct.right is not None:
        # Rows begin anywhere: the last element may lie on one line more.
        line = max(1, CACHE_LINE // kernel.right.bytes)
        offsets = [*range(0, variant.columns - 1, line), variant.columns - 1]
        rows = [direct.layout.onward("right", p + (variant.ahead + k)) for k in range(count)]
        places = [(direct.right + row).along(Const(x)) for row in rows for x in offsets]
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
    parts = []
    for r in range(variant.rows):
        here = (Const(r), part, lane)
        total = Load("sums", here, kernel.algebra.accumulator)
        left = _left(kernel, panels, direct, r, count)
        right = Load("right_row", (part, lane * variant.group), _right_type(kernel))
        if variant.group > 1:
            value: Expr = Call("dot", (left, right, total))
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
