"""The register tile: M_r x N_r accumulators, fed over p, and their way from and to memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var, cast
from loopwright.ir.kernel_variant import Broadcast, ContractionKernel, Initial, Packing
from loopwright.ir.loops import Alloc, Buffer, If, Prefetch, Space, Stmt, Store
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import CACHE_LINE, lets, loop, nothing, seq, unrolled, vector
from loopwright.lower.contraction_nests.combine import add_bias, apply, start_from, zero
from loopwright.lower.contraction_nests.operand_layout import InMemory, Layout, Place, bind
from loopwright.lower.contraction_nests.tile_steps import (
    STEP_BOUNDS,
    InPlace,
    Panels,
    accumulate,
    step_bounds,
)

__all__ = ["register_tiles"]

ir, jr = Var("ir"), Var("jr")
row, part, lane = Var("row"), Var("part"), Var("lane")


def register_tiles(
    kernel: ContractionKernel,
    layout: Layout,
    *,
    halves: bool = True,
    joins: str | Expr | None = None,
) -> Stmt:
    """All tiles of the block: loops jr and ir around one tile.

    The last tile of a row or column of tiles may need half of its rows or columns only; with
    `halves` it then computes no more than that half, at the price of four times the code. With
    `joins` sums begin with the identity of plus, and the operator `joins` puts them together with
    what out holds when they are written.
    """
    variant = kernel.variant
    first = Var("jr_tile") if _is_shifted(kernel, layout) else jr
    body = _whole_tile(kernel, kernel, layout, joins)
    if layout.clips:
        some = (clip.holds_for_some(*_corners(kernel)) for clip in layout.clips)
        body = If(_all_of(some), body)
    if halves and variant.rows >= 4:
        half = _smaller(kernel, (variant.rows + 1) // 2, variant.vectors)
        body = If(
            (Var("mb") - ir) <= half.variant.rows, _whole_tile(half, kernel, layout, joins), body
        )
    if halves and variant.vectors >= 2:
        half = _smaller(kernel, variant.rows, (variant.vectors + 1) // 2)
        few = (Var("nb") - first) <= half.variant.columns
        body = If(few, _whole_tile(half, kernel, layout, joins), body)
    if variant.broadcast is Broadcast.REPLICATED:
        # A replicated panel of left is the larger one: it stays in L1 while those of right pass.
        columns = loop(jr, 0, Var("nb"), body, variant.columns)
        return loop(ir, 0, Var("mb"), columns, variant.rows)
    if variant.right_packing is Packing.BY_TILE:
        rows = _below_the_first(kernel, layout, joins, body)
    else:
        rows = loop(ir, 0, Var("mb"), body, variant.rows)
    return loop(first, 0, Var("nb"), rows, variant.columns)


def _below_the_first(
    kernel: ContractionKernel, layout: Layout, joins: str | Expr | None, body: Stmt
) -> Stmt:
    """The tiles of a panel of right, which the first of them fills where the panel is whole."""
    rows, begin = kernel.variant.rows, Var("ir_begin")
    is_whole = (jr + kernel.variant.columns) <= Var("nb")
    is_first = Binary("and", Var("ic").equals(0), is_whole)
    filling = lets([(ir, Const(0))], _placed(kernel, kernel, layout, joins, packs=True))
    others = loop(ir, begin, Var("mb"), body, rows)
    return lets(
        [(begin, Select(is_first, Const(rows), Const(0)))], seq(If(is_first, filling), others)
    )


def _is_shifted(kernel: ContractionKernel, layout: Layout) -> bool:
    """Whether a tile at the right edge begins earlier and computes some columns once more.

    Right that lies in place must not be read beyond its columns. Sums that begin at zero and are
    complete after one tile may be written twice.
    """
    is_direct = kernel.variant.right_packing is Packing.DIRECT
    return is_direct and kernel.algebra.initial is Initial.ZERO and isinstance(layout, InMemory)


def _whole_tile(
    kernel: ContractionKernel, panel: ContractionKernel, layout: Layout, joins: str | Expr | None
) -> Stmt:
    """A tile at jr, or where it is whole for the last time."""
    body = _placed(kernel, panel, layout, joins)
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
    joins: str | Expr | None  # see register_tiles
    packs: bool  # it has all its columns, and fills the panel of right with them

    @property
    def is_complete(self) -> bool:
        """Whether all steps are taken at once: left in place is one block of them (launch)."""
        is_direct = self.kernel.variant.left_packing is Packing.DIRECT
        return is_direct and isinstance(self.layout, InMemory)

    def out(self, place: Place) -> Expr:
        return Load(self.layout.buffer("out"), place.index, self.kernel.algebra.out)

    def put(self, place: Place, value: Expr) -> Stmt:
        if self.joins is not None:
            old = cast(self.out(place), self.kernel.algebra.accumulator)
            value = apply(self.joins, old, value)
        return Store(self.layout.buffer("out"), place.index, cast(value, self.kernel.algebra.out))


def _placed(
    kernel: ContractionKernel,
    panel: ContractionKernel,
    layout: Layout,
    joins: str | Expr | None,
    *,
    packs: bool = False,
) -> Stmt:
    """A tile of the shape of `kernel` over panels of the shape of `panel`, which it may fill."""
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
    runs = []
    if packs:
        for v in range(variant.vectors):
            j = Var("jc") + jr + v * variant.lanes
            run = layout.base("right") + layout.at("right", "j", j)
            runs.append(named(f"right_run{v}", run))
    out_columns = []
    # Past the edge these are not used.
    for v in range(variant.vectors):
        j = Var("jc") + (jr + v * variant.lanes).min(Var("nb") - 1)
        out_columns.append(named(f"out_col{v}", layout.at("out", "j", j)))
    tile = _Tile(kernel, layout, tuple(out_rows), tuple(out_columns), joins, packs)
    direct = InPlace(layout, tuple(left_rows), right, tuple(runs))
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
    body = seq(start, _fetch_out(tile), accumulate(kernel, panels, direct), _write_back(tile))
    if tile.layout.step_clips:
        first, *_, last = STEP_BOUNDS
        body = lets(step_bounds(tile.layout, _corners(kernel)[0]), If(first < last, body))
    extent = (Const(kernel.variant.rows), Const(kernel.variant.columns))
    return Alloc(edge, extent, Alloc(accumulators, shape, body))


def _fetch_out(tile: _Tile) -> Stmt:
    """Ask for elements of out before they are read: while the steps of a tile are taken.

    Sums that are joined to out at the end find it there. Those that begin with out would wait for
    it, so the tile before asks for the elements of the one to its right, as far as it has not
    asked for their line as its own.
    """
    kernel, variant = tile.kernel, tile.kernel.variant
    is_read = kernel.algebra.initial is Initial.OUT and variant.runs and variant.ahead
    if not is_read:
        return nothing
    line, last = max(1, CACHE_LINE // kernel.algebra.out.bytes), variant.columns - 1
    if tile.joins is not None:
        offsets = [*range(0, last, line), last]
    elif variant.broadcast is Broadcast.REPLICATED:
        offsets = [variant.columns + x for x in range(last, -1, -line)]
    else:
        return nothing
    name = tile.layout.buffer("out")
    places = ((row + tile.columns[0]).along(Const(x)) for row in tile.rows for x in offsets)
    return seq(*(Prefetch(name, place.index, write=True) for place in places))


def _by_columns(tile: _Tile, whole: Stmt, edge: Stmt) -> Stmt:
    """The way between accumulators and out: all columns of the tile, or those before the edge."""
    if tile.packs:
        return whole
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
    """Accumulators start from `initial` at the first block of p, from out at the later ones.

    Those that are joined to out when they are written start from the identity of plus.
    """
    kernel = tile.kernel
    begin = _each_vector(kernel, Store("sums", (row, part, lane), zero(kernel)))
    if tile.joins is not None:
        return begin
    match kernel.algebra.initial:
        case Initial.OUT:
            return _load_out(tile, first=False)
        case Initial.ZERO:
            first = begin
        case Initial.SCALED:
            first = _load_out(tile, first=True)
    if tile.is_complete:
        return first
    return If(Var("pc").equals(0), first, _load_out(tile, first=False))


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
