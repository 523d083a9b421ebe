"""Packing: copying a block of an operand into the order in which register tiles read it.

A panel holds `width` neighbours of the tile's loop (i or j) for every step p, p outermost:

    packed[panel, p, t] = operand[tile + t, p]      edges padded with zeros

Where a dot instruction takes `group` steps at once, they lie side by side:

    packed[panel, p // group, t, p % group]         the last group padded with zeros

Reads follow the operand's runs of unit stride: along the tile's loop they are vector copies, along
p they are vectors turned round in registers. Where the operand's nearest elements belong to a
slower loop of a bundle, a walk visits the block in the order of memory instead: the table
`left_w` or `right_w` lists the indices of every block by rising address.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var
from loopwright.ir.form import Feed, Form, Packing
from loopwright.ir.loops import Alloc, Buffer, Mark, Space, Stmt, Store
from loopwright.lower.build import lets, loop, seq, unrolled, vector
from loopwright.lower.combine import cast
from loopwright.lower.places import TABLES, Layout, Place, bind, table

__all__ = ["depth", "left_panels", "right_panels"]

# Steps a walk along the tile's loop takes together: their lines stay in the nearest cache even
# when all of them fall into two of its sets.
WALK_STEPS = 8
p, t, lane, copy, turn = (Var(f"pack_{x}") for x in ("p", "t", "lane", "copy", "turn"))


def depth(group: int, steps: Expr) -> Expr:
    """Steps of a packed panel: `steps` rounded up to whole groups."""
    return steps if group == 1 else (steps + (group - 1)) // group * group


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand as the packing loops see it."""

    name: str  # "left" or "right"
    dtype: DType  # in memory
    packed_dtype: DType
    packing: Packing
    bundle: str  # of the tile's loop
    width: int  # panel width in elements
    block: Var  # first element of the block in the tile's loop
    count: Var  # elements of the block in the tile's loop
    lanes: int  # elements per vector
    copies: int  # times each element is stored
    group: int  # steps side by side
    alpha: DType | None  # type of the factor alpha; None when elements are not scaled
    layout: Layout

    def element(self, tile: Place, step: Place) -> Expr:
        """The operand's element at the given distances from its first one, as it is packed."""
        return self.packed_value(self.layout.base(self.name) + tile + step)

    def packed_value(self, at: Place) -> Expr:
        """The operand's element at a place, as it is packed."""
        value = self.layout.value(self.name, at, self.dtype)
        if self.alpha is not None:
            value = Binary("mul", Load("alpha", (), self.alpha), cast(value, self.alpha))
        return cast(value, self.packed_dtype)

    def place(self, panel: Expr, step: Expr, at: Expr | int) -> Expr:
        """Position of element `at` of a step in the panel that starts at `panel`."""
        if self.group == 1:
            return (panel * Var("kb") + step * self.width + at) * self.copies
        whole, rest = step // self.group, step % self.group
        start = panel * depth(self.group, Var("kb"))
        return start + (whole * self.width + at) * self.group + rest

    def put(self, at: Expr, value: Expr) -> Stmt:
        """Store one element, as often as it is wanted."""
        if self.copies == 1:
            return Store(self.packed, (at,), value)
        return vector(copy, self.copies, Store(self.packed, (at + copy,), value))

    def tile(self, panel: Expr, at: Expr | int) -> Place:
        """How far an element of the panel lies along the tile's loop."""
        return self.layout.at(self.name, self.bundle, self.block + panel + at)

    def step(self, at: Expr) -> Place:
        """How far a step of the block lies along p."""
        return self.layout.at(self.name, "p", Var("pc") + at)

    @property
    def packed(self) -> str:
        return f"{self.name}_packed"


def left_panels(form: Form, mark: Mark = Mark.SERIAL, layout: Layout = TABLES) -> Stmt:
    """Pack rows ic .. ic + mb of the left operand for the steps pc .. pc + kb."""
    side = _Side(
        "left",
        form.left,
        form.packed(form.left),
        form.left_packing,
        "i",
        form.rows,
        Var("ic"),
        Var("mb"),
        form.lanes,
        form.lanes if form.feed is Feed.REPLICATED else 1,
        form.group,
        form.accumulator if form.scaled else None,
        layout,
    )
    return _panels(side, mark)


def right_panels(form: Form, mark: Mark = Mark.SERIAL, layout: Layout = TABLES) -> Stmt:
    """Pack columns jc .. jc + nb of the right operand for the steps pc .. pc + kb."""
    side = _Side(
        "right",
        form.right,
        form.packed(form.right),
        form.right_packing,
        "j",
        form.columns,
        Var("jc"),
        Var("nb"),
        form.lanes,
        1,
        form.group,
        None,
        layout,
    )
    return _panels(side, mark)


def _panels(side: _Side, mark: Mark) -> Stmt:
    """All panels of the block; whole ones by runs, the padded last one element by element."""
    panel = Var(f"{side.name}_panel")
    if side.packing is Packing.ANY:
        return loop(panel, 0, side.count, _single(side, panel), side.width, mark)
    if side.packing is Packing.WALK_P:
        walk = seq(_pad(side, panel), _walk_p(side, panel))
        return loop(panel, 0, side.count, walk, side.width, mark)
    if side.packing is Packing.WALK_TILE:
        whole = side.count // side.width * side.width
        edge = loop(panel, whole, side.count, _pad(side, panel), side.width, mark)
        return seq(edge, _walk_tile(side, mark))
    whole = side.count // side.width * side.width
    edge = seq(_pad(side, panel), _one_by_one(side, panel))
    last = loop(panel, whole, side.count, edge, side.width, mark)
    if side.packing in (Packing.ALONG_TILE, Packing.BY_PANEL):
        return seq(_along_tile(side, panel, whole, mark), last)
    fill = _along_p(side, panel) if side.packing is Packing.ALONG_P else _gather(side, panel)
    return seq(loop(panel, 0, whole, fill, side.width, mark), last)


def _single(side: _Side, panel: Var, start: Expr | int = 0) -> Stmt:
    """Element by element from step `start` on, zeros beyond the edges."""
    inside = (panel + t) < side.count
    # Beyond an edge the first element stands in for the address: it is always readable.
    safe = Select(inside, t, Const(0))
    offset = side.step(p)
    if side.group > 1:
        within = p < Var("kb")
        inside = Binary("and", inside, within)
        offset = side.step(Select(within, p, Const(0)))
    step, bindings = bind("step", offset)
    read = side.element(side.tile(panel, safe), step)
    value = Select(inside, read, _zero(side.packed_dtype))
    inner = loop(t, 0, side.width, side.put(side.place(panel, p, t), value))
    return loop(p, start, depth(side.group, Var("kb")), lets(bindings, inner))


def _zero(dtype: DType) -> Const:
    return Const(False if dtype.kind == "b" else 0, dtype)


def _pad(side: _Side, panel: Var) -> Stmt:
    """Zeros where the panel has no elements: beyond the edge, and in the last group of steps."""
    steps, zero = depth(side.group, Var("kb")), _zero(side.packed_dtype)
    clear = side.put(side.place(panel, p, t), zero)
    beyond = (side.count - panel).min(side.width)
    parts = [loop(p, 0, steps, loop(t, beyond, side.width, clear))]
    if side.group > 1:
        parts.append(loop(p, Var("kb"), steps, loop(t, 0, side.width, clear)))
    return seq(*parts)


def _walk_p(side: _Side, panel: Var) -> Stmt:
    """Each element of the tile's loop: all its steps, by rising address."""
    return _one_by_one(side, panel, table(f"{side.name}_w", Var("pc") + p))


def _one_by_one(side: _Side, panel: Var, order: Expr = p) -> Stmt:
    """Each element of the tile's loop: all its steps, in the given order."""
    at = Var("pack_at")
    start, bindings = bind("pack_start", side.tile(panel, t))
    read = side.element(start, side.step(at))
    inner = loop(p, 0, Var("kb"), lets([(at, order)], side.put(side.place(panel, at, t), read)))
    columns = (side.count - panel).min(side.width)
    return loop(t, 0, columns, lets(bindings, inner))


def _walk_tile(side: _Side, mark: Mark) -> Stmt:
    """A few steps at a time: all elements of the tile's loop, by rising address."""
    at, first, panel = Var("pack_at"), Var("pack_first"), Var("pack_panel")
    within = Var("pack_within")
    start, bindings = bind("pack_start", side.layout.at(side.name, side.bundle, side.block + at))
    read = side.element(start, side.step(p))
    last = (first + WALK_STEPS).min(Var("kb"))
    inner = loop(p, first, last, side.put(side.place(panel, p, within), read))
    bound = [
        (at, table(f"{side.name}_w", side.block + t)),
        (panel, at // side.width * side.width),
        (within, at - panel),
        *bindings,
    ]
    body = loop(first, 0, Var("kb"), loop(t, 0, side.count, lets(bound, inner)), WALK_STEPS, mark)
    if side.group == 1:
        return body
    clear = side.put(side.place(Var("pack_panel"), p, t), _zero(side.packed_dtype))
    rest = loop(p, Var("kb"), depth(side.group, Var("kb")), loop(t, 0, side.width, clear))
    return seq(loop(Var("pack_panel"), 0, side.count, rest, side.width, mark), body)


def _along_tile(side: _Side, panel: Var, whole: Expr, mark: Mark) -> Stmt:
    """Vector copies: each vector of a panel is a run of the operand.

    All panels of one step come before the next step where the reads then follow the operand's rows,
    which the prefetchers of caches understand (3% of a whole product, measured); where the next
    step lies nearer than the next panel, all steps of a panel.
    """
    found = [bind(f"step{k}", side.step(p + k)) for k in range(side.group)]
    steps = [step for step, _ in found]
    parts = [
        _copy_run(side, panel, first, width, steps)
        for first, width in _chunks(side.width, side.lanes * side.group)
    ]
    bound = _all(found)
    full = Var("kb") // side.group * side.group
    if side.packing is Packing.BY_PANEL:
        column = loop(p, 0, full, lets(bound, seq(*parts)), side.group)
        copied = loop(panel, 0, whole, column, side.width, mark)
    else:
        row = loop(panel, 0, whole, seq(*parts), side.width)
        copied = loop(p, 0, full, lets(bound, row), side.group, mark)
    if side.group == 1:
        return copied
    return seq(copied, loop(panel, 0, whole, _single(side, panel, full), side.width, mark))


def _copy_run(side: _Side, panel: Var, first: int, width: int, steps: list[Place]) -> Stmt:
    """One run of a panel at one group of steps."""
    start = side.tile(panel, first)
    if side.group == 1 and side.copies == 1:
        at = side.place(panel, p, first) + lane
        value = side.element(start.along(lane), steps[0])
        return vector(lane, width, Store(side.packed, (at,), value))
    rows = _registers("run", side, width)
    reads = [
        vector(lane, width, Store("run", (Const(k), lane), side.element(start.along(lane), step)))
        for k, step in enumerate(steps)
    ]
    writes: list[Stmt]
    if side.group == 1:
        writes = [
            side.put(side.place(panel, p, first + k), Load("run", (Const(0), Const(k)), rows.dtype))
            for k in range(width)
        ]
    else:
        # Lane x of the packed run is step x % group of column x // group.
        mixed = Load("run", (lane % side.group, lane // side.group), rows.dtype)
        at = side.place(panel, p, first) + lane
        writes = [vector(lane, width * side.group, Store(side.packed, (at,), mixed))]
    return Alloc(rows, (Const(side.group), Const(width)), seq(*reads, *writes))


def _along_p(side: _Side, panel: Var) -> Stmt:
    """Vectors along p, turned round in registers `lanes` steps at a time."""
    count = side.lanes if side.group == 1 else side.group
    found = [bind(f"{side.name}_at{k}", side.tile(panel, k)) for k in range(side.width)]
    starts = [start for start, _ in found]
    step, bindings = bind("step", side.step(p))
    if side.group > 1:
        # A group of steps is a run both in the operand and in the panel.
        parts = [
            vector(
                lane,
                count,
                Store(
                    side.packed,
                    (side.place(panel, p, k) + lane,),
                    side.element(start.along(lane), step),
                ),
            )
            for k, start in enumerate(starts)
        ]
    else:
        parts = [
            _square(side, panel, first, starts[first : first + width], step)
            for first, width in _chunks(side.width, side.lanes)
        ]
    whole = Var("kb") // count * count
    runs = loop(p, 0, whole, lets(bindings, seq(*parts)), count)
    return lets(_all(found), seq(runs, _single(side, panel, whole)))


def _gather(side: _Side, panel: Var) -> Stmt:
    """All elements of a step, each from a stream of its own whose start is kept in a register."""
    base = side.layout.base(side.name)
    starts = [bind(f"{side.name}_at{k}", base + side.tile(panel, k)) for k in range(side.width)]
    step, bindings = bind("step", side.step(p))
    copies = [
        side.put(side.place(panel, p, k), side.packed_value(start + step))
        for k, (start, _) in enumerate(starts)
    ]
    whole = Var("kb") // side.group * side.group
    body = loop(p, 0, whole, lets(bindings, seq(*copies)))
    if side.group > 1:
        body = seq(body, _single(side, panel, whole))
    return lets(_all(starts), body)


def _all(found: list[tuple[Place, list[tuple[Var, Expr]]]]) -> list[tuple[Var, Expr]]:
    """The bindings of several places."""
    return [binding for _, bindings in found for binding in bindings]


def _square(side: _Side, panel: Var, first: int, starts: list[Place], step: Place) -> Stmt:
    """`lanes` steps of a few rows: read along p, written along the tile."""
    block = _registers("square", side, side.lanes)
    reads = [
        vector(
            lane,
            side.lanes,
            Store("square", (Const(k), lane), side.element(start.along(lane), step)),
        )
        for k, start in enumerate(starts)
    ]
    if side.copies > 1:
        writes: Stmt = seq(
            *(
                side.put(
                    side.place(panel, p + s, first + k),
                    Load("square", (Const(k), Const(s)), block.dtype),
                )
                for s in range(side.lanes)
                for k in range(len(starts))
            )
        )
    else:
        at = side.place(panel, p + turn, first) + lane
        row = Store(side.packed, (at,), Load("square", (lane, turn), block.dtype))
        writes = unrolled(turn, side.lanes, vector(lane, len(starts), row))
    return Alloc(block, (Const(len(starts)), Const(side.lanes)), seq(*reads, writes))


def _registers(name: str, side: _Side, lanes: int) -> Buffer:
    return Buffer(name, side.packed_dtype, (Const(lanes), Const(1)), Space.REGISTER)


def _chunks(width: int, lanes: int) -> list[tuple[int, int]]:
    """A panel's width cut into vectors, the last one possibly shorter."""
    return [(first, min(lanes, width - first)) for first in range(0, width, lanes)]
