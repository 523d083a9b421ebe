"""The register tile: M_r x N_r accumulators, fed over p, and their way from and to memory."""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.form import Feed, Form, Initial, Packing
from loopwright.ir.loops import Alloc, Buffer, If, Space, Stmt, Store
from loopwright.lower.build import lets, loop, seq, unrolled, vector
from loopwright.lower.combine import cast, start_from, zero
from loopwright.lower.packing import table
from loopwright.lower.steps import Panels, accumulate

__all__ = ["register_tiles"]

ir, jr = Var("ir"), Var("jr")
row, part, lane = Var("row"), Var("part"), Var("lane")


def register_tiles(form: Form) -> Stmt:
    """All tiles of the block: loops jr and ir around one tile.

    The last tile of a row or column of tiles may need half of its rows or columns only; it then
    computes no more than that half.
    """
    body = _placed(form, form)
    if form.rows >= 4:
        half = replace(form, rows=(form.rows + 1) // 2, unroll=1, ahead=0)
        body = If((Var("mb") - ir) <= half.rows, _placed(half, form), body)
    if form.vectors >= 2:
        half = replace(form, vectors=(form.vectors + 1) // 2, unroll=1, ahead=0)
        body = If((Var("nb") - jr) <= half.columns, _placed(half, form), body)
    if form.feed is Feed.REPLICATED:
        # A replicated panel of left is the larger one: it stays in L1 while those of right pass.
        columns = loop(jr, 0, Var("nb"), body, form.columns)
        return loop(ir, 0, Var("mb"), columns, form.rows)
    rows = loop(ir, 0, Var("mb"), body, form.rows)
    return loop(jr, 0, Var("nb"), rows, form.columns)


def _placed(form: Form, panel: Form) -> Stmt:
    """A tile of the shape of `form` over panels of the shape of `panel`."""
    panels = Panels(panel.rows, panel.columns)
    return lets(_row_starts(form), lets(_column_starts(form), _tile(form, panels)))


def _row_starts(form: Form) -> list[tuple[Var, Expr]]:
    """Offsets of the tile's rows in out and, where it is read in place, in left.

    Rows beyond the edge repeat the last one: what they compute is never stored.
    """
    starts = []
    for r in range(form.rows):
        i = Var("ic") + (ir + r).min(Var("mb") - 1)
        starts.append((Var(f"out_row{r}"), Var("out_base") + table("out_i", i)))
        if form.left_packing is Packing.DIRECT:
            starts.append((Var(f"left_row{r}"), Var("left_base") + table("left_i", i)))
    return starts


def _column_starts(form: Form) -> list[tuple[Var, Expr]]:
    """Offsets of the tile's vectors in out, and of its first column in right read in place.

    Past the edge the offsets in out are not used.
    """
    starts = []
    if form.right_packing is Packing.DIRECT:
        starts.append((Var("right_start"), Var("right_base") + table("right_j", Var("jc") + jr)))
    for v in range(form.vectors):
        j = Var("jc") + (jr + v * form.lanes).min(Var("nb") - 1)
        starts.append((Var(f"out_col{v}"), table("out_j", j)))
    return starts


def _tile(form: Form, panels: Panels) -> Stmt:
    shape = (Const(form.rows), Const(form.vectors), Const(form.lanes))
    strides = (Const(form.columns), Const(form.lanes), Const(1))
    accumulators = Buffer("sums", form.accumulator, strides, Space.REGISTER)
    edge = Buffer("edge", form.accumulator, (Const(form.columns), Const(1)), Space.STACK)
    body = seq(_initialise(form), accumulate(form, panels), _write_back(form))
    extent = (Const(form.rows), Const(form.columns))
    return Alloc(edge, extent, Alloc(accumulators, shape, body))


def _by_columns(form: Form, whole: Stmt, edge: Stmt) -> Stmt:
    """The way between accumulators and out: all columns of the tile, or those before the edge."""
    return If((jr + form.columns) <= Var("nb"), whole, edge)


def _element_starts(form: Form, body: Stmt) -> Stmt:
    """Offsets of all columns of the tile in out."""
    starts = [(Var(f"out_at{c}"), table("out_j", Var("jc") + jr + c)) for c in range(form.columns)]
    return lets(starts, body)


def _read_elements(form: Form, first: bool) -> Stmt:
    """Single elements of out to the accumulators, straight to their lanes."""
    parts = []
    for r in range(form.rows):
        for c in range(form.columns):
            old = Load("out", (Var(f"out_row{r}") + Var(f"out_at{c}"),), form.out)
            here = (Const(r), Const(c // form.lanes), Const(c % form.lanes))
            parts.append(Store("sums", here, _old(form, old, first)))
    return _element_starts(form, seq(*parts))


def _write_elements(form: Form) -> Stmt:
    """Accumulators to single elements of out, row by row up to the edge."""
    rows = []
    for r in range(form.rows):
        parts = []
        for c in range(form.columns):
            here = (Const(r), Const(c // form.lanes), Const(c % form.lanes))
            value = cast(Load("sums", here, form.accumulator), form.out)
            parts.append(Store("out", (Var(f"out_row{r}") + Var(f"out_at{c}"),), value))
        rows.append(seq(*parts) if r == 0 else If((ir + r) < Var("mb"), seq(*parts)))
    return _element_starts(form, seq(*rows))


def _each_vector(form: Form, store: Stmt) -> Stmt:
    return unrolled(row, form.rows, unrolled(part, form.vectors, vector(lane, form.lanes, store)))


def _read_vectors(form: Form, first: bool) -> Stmt:
    """Whole vectors of out to the accumulators; rows beyond the edge repeat the last one."""
    parts = []
    for r in range(form.rows):
        for v in range(form.vectors):
            old = Load("out", (_vector_at(r, v),), form.out)
            store = Store("sums", (Const(r), Const(v), lane), _old(form, old, first))
            parts.append(vector(lane, form.lanes, store))
    return seq(*parts)


def _write_vectors(form: Form) -> Stmt:
    """Accumulators to whole vectors of out, row by row up to the edge."""
    rows = []
    for r in range(form.rows):
        parts = []
        for v in range(form.vectors):
            value = cast(Load("sums", (Const(r), Const(v), lane), form.accumulator), form.out)
            parts.append(vector(lane, form.lanes, Store("out", (_vector_at(r, v),), value)))
        rows.append(seq(*parts) if r == 0 else If((ir + r) < Var("mb"), seq(*parts)))
    return seq(*rows)


def _vector_at(r: int, v: int) -> Expr:
    return Var(f"out_row{r}") + Var(f"out_col{v}") + lane


def _old(form: Form, element: Expr, first: bool) -> Expr:
    """An element of out as an accumulator, at the first block of p or a later one."""
    return start_from(form, element) if first else cast(element, form.accumulator)


def _out_elements(form: Form, to_memory: bool, first: bool = False) -> Stmt:
    """Single elements between out and the edge buffer, inside the tile's true extent."""
    rows = (Var("mb") - ir).min(form.rows)
    columns = (Var("nb") - jr).min(form.columns)
    at = (
        Var("out_base")
        + table("out_i", Var("ic") + ir + Var("edge_i"))
        + table("out_j", Var("jc") + jr + Var("edge_j"))
    )
    here = (Var("edge_i"), Var("edge_j"))
    if to_memory:
        store = Store("out", (at,), cast(Load("edge", here, form.accumulator), form.out))
    else:
        store = Store("edge", here, _old(form, Load("out", (at,), form.out), first))
    return loop(Var("edge_i"), 0, rows, loop(Var("edge_j"), 0, columns, store))


def _initialise(form: Form) -> Stmt:
    """Accumulators start from `initial` at the first block of p, from out at the later ones."""
    later = _load_out(form, first=False)
    match form.initial:
        case Initial.OUT:
            return later
        case Initial.ZERO:
            first = _each_vector(form, Store("sums", (row, part, lane), zero(form)))
        case Initial.SCALED:
            first = _load_out(form, first=True)
    return If(Var("pc").equals(0), first, later)


def _load_out(form: Form, first: bool) -> Stmt:
    here, at = (row, part, lane), (row, part * form.lanes + lane)
    from_edge = _each_vector(form, Store("sums", here, Load("edge", at, form.accumulator)))
    blank = _each_vector(form, Store("edge", at, zero(form)))
    return _by_columns(
        form,
        _read_vectors(form, first) if form.runs else _read_elements(form, first),
        seq(blank, _out_elements(form, to_memory=False, first=first), from_edge),
    )


def _write_back(form: Form) -> Stmt:
    here, at = (row, part, lane), (row, part * form.lanes + lane)
    to_edge = _each_vector(form, Store("edge", at, Load("sums", here, form.accumulator)))
    return _by_columns(
        form,
        _write_vectors(form) if form.runs else _write_elements(form),
        seq(to_edge, _out_elements(form, to_memory=True)),
    )
