"""Packing: copying a block of an operand into the order in which register tiles read it.

A panel holds `width` neighbours of the tile's loop (i or j) for every step p, p outermost:

    packed[panel, p, t] = operand[tile + t, p]      beyond an edge the last element again

Where a dot instruction takes `group` steps at once, they lie side by side:

    packed[panel, p // group, t, p % group]         the last group padded with zeros

What lies beyond an edge is multiplied, but no sum that it enters is ever stored.

Reads follow the operand's runs of unit stride: along the tile's loop they are vector copies, along
p they are vectors turned round in registers; else every element of a step has a stream of its own.
Panels of right whose first tile packs them (`tile`) are left out here, but for the last one.
Where neighbours in memory lie along the tile's loop, all panels are visited for a few steps before
the next few (`left_v` or `right_v` at a time), so that a line is used while it is near; else a
panel is filled with all its steps. Where a slower loop of a bundle has the nearest elements, a walk
visits the block in the order of memory: the table `left_w` or `right_w` lists the indices of every
block by rising address.
"""

from __future__ import annotations

from collections.abc import Callable

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Const, Expr, Load, Var, cast
from loopwright.ir.kernel_variant import Broadcast, ContractionKernel, Packing, steps_in_run
from loopwright.ir.loops import Alloc, Buffer, Mark, Prefetch, Space, Stmt, Store
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import lets, loop, seq, unrolled, vector
from loopwright.lower.contraction_nests.operand_layout import Layout, Place, bind, table

__all__ = ["PITCH", "depth", "left_panels", "pitch", "planes", "right_panels"]

# Steps a walk along the tile's loop takes together: their lines stay in the nearest cache even
# when all of them fall into two of its sets.
WALK_STEPS = 8
# Steps for which runs along the tile's loop are copied at a visit of a panel. One: the rows of the
# operand are then read one after the other; four cost 2% of a product whose rows lie a page apart,
# and gained nothing elsewhere (measured, N1).
VISIT_STEPS = 1
# Threads that pack a block together get groups of neighbouring panels: about so many groups, and
# as many panels in each at least as fill a pair of cache lines.
GROUPS = 32
FEWEST_PANELS = 2
# How far ahead of its use an operand is asked for: products push it out of L2, and packing then
# waits for a farther cache (measured, N1).
AHEAD_BYTES = 256
p, t, lane, copy, turn = (Var(f"pack_{x}") for x in ("p", "t", "lane", "copy", "turn"))


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
    flipped: bool  # the sign bits of bytes are turned
    layout: Layout

    @property
    def visit(self) -> Expr | None:
        """Steps with which a panel is filled at a visit; None: with all of them."""
        match self.packing:
            case Packing.ALONG_TILE:
                return Const(VISIT_STEPS)
            case Packing.GATHER | Packing.WALK_P:
                return self.layout.visit(self.name)
        return None

    def packed_value(self, at: Place) -> Expr:
        """The operand's element at a place, as it is packed."""
        value = self.layout.value(self.name, at, self.dtype)
        if self.alpha is not None:
            value = Binary("mul", Load("alpha", (), self.alpha), cast(value, self.alpha))
        value = cast(value, self.packed_dtype)
        if self.flipped:
            sign = Const(-128 if self.packed_dtype.kind == "i" else 128, self.packed_dtype)
            value = Binary("xor", value, sign)
        return value

    def place(self, panel: Expr, step: Expr, at: Expr | int) -> Expr:
        """Position of element `at` of a step in the panel that starts at `panel`."""
        start = panel * pitch(Var("kb"))
        if self.group == 1:
            return (start + step * self.width + at) * self.copies
        whole, rest = step // self.group, step % self.group
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


def left_panels(kernel: ContractionKernel, layout: Layout, mark: Mark = Mark.SERIAL) -> Stmt:
    """Pack rows ic .. ic + mb of the left operand for the steps pc .. pc + kb."""
    variant = kernel.variant
    side = _Side(
        "left",
        kernel.left,
        kernel.packed_left,
        variant.left_packing,
        "i",
        variant.rows,
        Var("ic"),
        Var("mb"),
        variant.lanes,
        variant.lanes if variant.broadcast is Broadcast.REPLICATED else 1,
        variant.group,
        kernel.algebra.accumulator if kernel.algebra.scaled else None,
        variant.flipped,
        layout,
    )
    return _panels(side, mark)


def right_panels(kernel: ContractionKernel, layout: Layout, mark: Mark = Mark.SERIAL) -> Stmt:
    """Pack columns jc .. jc + nb of the right operand for the steps pc .. pc + kb."""
    variant = kernel.variant
    side = _Side(
        "right",
        kernel.right,
        kernel.packed_right,
        variant.right_packing,
        "j",
        variant.columns,
        Var("jc"),
        Var("nb"),
        variant.lanes,
        1,
        variant.group,
        None,
        False,
        layout,
    )
    return _panels(side, mark)


def _panels(side: _Side, mark: Mark) -> Stmt:
    """All panels of the block."""
    panel = Var(f"{side.name}_panel")
    whole = side.count // side.width * side.width
    match side.packing:
        case Packing.ALONG_TILE | Packing.BY_PANEL:
            edge = _streams(side, panel, Const(0), Var("kb"))
            filled = seq(
                _visits(side, panel, whole, _runs, mark),
                loop(panel, whole, side.count, edge, side.width, mark),
            )
        case Packing.BY_TILE:
            edge = _streams(side, panel, Const(0), Var("kb"))
            filled = loop(panel, whole, side.count, edge, side.width, mark)
        case Packing.ALONG_P:
            filled = loop(panel, 0, side.count, _along_p(side, panel), side.width, mark)
        case Packing.WALK_TILE:
            edge = _clear(side, panel, Const(0), Var("kb"), side.count - panel)
            filled = seq(
                loop(panel, whole, side.count, edge, side.width, mark), _walk_tile(side, mark)
            )
        case _:
            filled = _visits(side, panel, side.count, _streams, mark)
    if side.group == 1:
        return filled
    # The last group of steps may have less of them.
    rest = _clear(side, panel, Var("kb"), depth(side.group, Var("kb")), Const(0))
    return seq(filled, loop(panel, 0, side.count, rest, side.width, mark))


def _visits(
    side: _Side,
    panel: Var,
    stop: Expr,
    fill: Callable[[_Side, Var, Expr, Expr], Stmt],
    mark: Mark,
) -> Stmt:
    """Panels up to `stop`, filled with all their steps or with a few at every visit."""
    if side.visit is None:
        return loop(panel, 0, stop, fill(side, panel, Const(0), Var("kb")), side.width, mark)
    first, last = Var("pack_first"), Var("pack_last")
    until = [(last, (first + side.visit).min(Var("kb")))]
    fill_some = fill(side, panel, first, last)
    if mark is not Mark.PARALLEL:
        panels = loop(panel, 0, stop, fill_some, side.width, mark)
        return loop(first, 0, Var("kb"), lets(until, panels), side.visit)
    # Threads share panels out once, not at every visit.
    start, width = Var("pack_group"), Var("pack_width")
    panels = loop(panel, start, (start + width).min(stop), fill_some, side.width)
    visits = loop(first, 0, Var("kb"), lets(until, panels), side.visit)
    group = (stop // (side.width * GROUPS)).max(Const(FEWEST_PANELS)) * side.width
    return lets([(width, group)], loop(start, 0, stop, visits, width, mark))


def _clear(side: _Side, panel: Var, first: Expr, last: Expr, beyond: Expr) -> Stmt:
    """Zeros from element `beyond` of the panel on, at the steps from `first` to `last`."""
    zero = Const(False if side.packed_dtype.kind == "b" else 0, side.packed_dtype)
    clear = side.put(side.place(panel, p, t), zero)
    return loop(p, first, last, loop(t, beyond, side.width, clear))


def _streams(side: _Side, panel: Var, first: Expr, last: Expr) -> Stmt:
    """Element by element, each from a stream of its own whose start is kept in a register."""
    starts, bindings = _starts(side, panel)
    at = Var("pack_at")
    if side.packing is not Packing.WALK_P:
        return lets(bindings, loop(p, first, last, _step(side, panel, starts, p)))
    body = lets([(at, table(f"{side.name}_w", Var("pc") + p))], _step(side, panel, starts, at))
    return lets(bindings, loop(p, first, last, body))


def _starts(side: _Side, panel: Var) -> tuple[list[Place], list[tuple[Var, Expr]]]:
    """Where the elements of a panel lie at step 0, and the bindings that say so."""
    inside = Var("pack_inside")
    bindings: list[tuple[Var, Expr]] = [(inside, side.count - panel - 1)]
    starts = []
    for k in range(side.width):
        # Beyond the edge the last element stands in: it is always readable.
        within = Const(k).min(inside) if k else Const(0)
        place = side.layout.base(side.name) + side.tile(panel, within)
        start, bound = bind(f"{side.name}_at{k}", place)
        starts.append(start)
        bindings += bound
    return starts, bindings


def _step(side: _Side, panel: Var, starts: list[Place], at: Expr) -> Stmt:
    """All elements of step `at`."""
    step, bindings = bind("step", side.step(at))
    copies = [
        side.put(side.place(panel, at, k), side.packed_value(start + step))
        for k, start in enumerate(starts)
    ]
    return lets(bindings, seq(*_ahead(side, starts[0] + step), *copies))


def _ahead(side: _Side, place: Place) -> list[Stmt]:
    """Ask for what the operand holds somewhat behind a place, which later panels or steps read."""
    if side.visit is None and side.packing is not Packing.BY_PANEL:
        return []
    later = place.along(AHEAD_BYTES // side.dtype.bytes)
    return [Prefetch(side.layout.buffer(side.name), later.index)]


def _walk_tile(side: _Side, mark: Mark) -> Stmt:
    """A few steps at a time: all elements of the tile's loop, by rising address."""
    at, first, panel = Var("pack_at"), Var("pack_first"), Var("pack_panel")
    within = Var("pack_within")
    start, bindings = bind("pack_start", side.layout.at(side.name, side.bundle, side.block + at))
    read = side.packed_value(side.layout.base(side.name) + start + side.step(p))
    last = (first + WALK_STEPS).min(Var("kb"))
    inner = loop(p, first, last, side.put(side.place(panel, p, within), read))
    bound = [
        (at, table(f"{side.name}_w", side.block + t)),
        (panel, at // side.width * side.width),
        (within, at - panel),
        *bindings,
    ]
    return loop(first, 0, Var("kb"), loop(t, 0, side.count, lets(bound, inner)), WALK_STEPS, mark)


def _runs(side: _Side, panel: Var, first: Expr, last: Expr) -> Stmt:
    """Vector copies: each vector of a whole panel is a run of the operand."""
    chunks = _chunks(side.width, side.lanes * side.group)
    base = side.layout.base(side.name)
    found = [bind(f"{side.name}_at{k}", base + side.tile(panel, k)) for k, _ in chunks]
    starts = [start for start, _ in found]
    full = last if side.group == 1 else first + (last - first) // side.group * side.group
    bound = [bind(f"step{k}", side.step(p + k)) for k in range(side.group)]
    steps = [step for step, _ in bound]
    copies = [
        _copy_run(side, panel, chunk, start, steps)
        for chunk, start in zip(chunks, starts, strict=True)
    ]
    copies = _ahead(side, starts[0] + steps[0]) + copies
    body = loop(p, first, full, lets(_all(bound), seq(*copies)), side.group)
    if side.group > 1:
        singles = [
            start.along(k)
            for start, (_, width) in zip(starts, chunks, strict=True)
            for k in range(width)
        ]
        body = seq(body, loop(p, full, last, _step(side, panel, singles, p)))
    return lets(_all(found), body)


def _copy_run(
    side: _Side, panel: Var, chunk: tuple[int, int], start: Place, steps: list[Place]
) -> Stmt:
    """One run of a panel at one group of steps."""
    first, width = chunk
    if side.group == 1 and side.copies == 1:
        at = side.place(panel, p, first) + lane
        value = side.packed_value((start + steps[0]).along(lane))
        return vector(lane, width, Store(side.packed, (at,), value))
    rows = _registers("run", side, width)
    reads = [
        vector(
            lane,
            width,
            Store("run", (Const(k), lane), side.packed_value((start + step).along(lane))),
        )
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
    """Vectors along p, turned round in registers; groups of steps stay together."""
    starts, found = _starts(side, panel)
    step, bindings = bind("step", side.step(p))
    parts: list[Stmt] = []
    done: Expr = Const(0)
    for count in dict.fromkeys((steps_in_run(side.lanes, side.group), side.group)):
        if count == 1:
            break
        squares = [
            _square(side, panel, first, starts[first : first + width], step, count)
            for first, width in _chunks(side.width, count // side.group)
        ]
        whole = Var("kb") // count * count
        parts.append(loop(p, done, whole, lets(bindings, seq(*squares)), count))
        done = whole
    rest = loop(p, done, Var("kb"), _step(side, panel, starts, p))
    return lets(found, seq(*parts, rest))


def _all(found: list[tuple[Place, list[tuple[Var, Expr]]]]) -> list[tuple[Var, Expr]]:
    """The bindings of several places."""
    return [binding for _, bindings in found for binding in bindings]


def _square(
    side: _Side, panel: Var, first: int, starts: list[Place], step: Place, count: int
) -> Stmt:
    """`count` steps of a few rows: read along p, written along the tile, groups as they are."""
    block = _registers("square", side, count)
    reads = [
        vector(
            lane,
            count,
            Store("square", (Const(k), lane), side.packed_value((start + step).along(lane))),
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
                for s in range(count)
                for k in range(len(starts))
            )
        )
    else:
        here: tuple[Expr, Expr] = (lane, turn)
        after = p + turn
        if side.group > 1:
            here = (lane // side.group, turn * side.group + lane % side.group)
            after = p + turn * side.group
        at = side.place(panel, after, first) + lane
        row = Store(side.packed, (at,), Load("square", here, block.dtype))
        runs = vector(lane, len(starts) * side.group, row)
        writes = unrolled(turn, count // side.group, runs)
    return Alloc(block, (Const(len(starts)), Const(count)), seq(*reads, writes))


def _registers(name: str, side: _Side, lanes: int) -> Buffer:
    return Buffer(name, side.packed_dtype, (Const(lanes), Const(1)), Space.REGISTER)


def _chunks(width: int, lanes: int) -> list[tuple[int, int]]:
    """A panel's width cut into vectors, the last one possibly shorter."""
    return [(first, min(lanes, width - first)) for first in range(0, width, lanes)]


# -- how packed panels lie in memory: their steps, and how far they are apart ---------------------


# Panels are as far apart as if they had a multiple of these steps: then they begin with a line,
# and what a visit writes are whole lines, which is faster by a fifth (measured, N1).
PITCH = 8


def depth(group: int, steps: Expr) -> Expr:
    """Steps of a packed panel: `steps` rounded up to whole groups."""
    return steps if group == 1 else (steps + (group - 1)) // group * group


def planes(kernel: ContractionKernel, operand: str) -> int:
    """How real and imaginary parts of a packed operand lie in memory: see ir.loops.Buffer.

    Where elements of left are loaded into all lanes, each part of one is a load, and vectors of
    right are loaded as real and imaginary parts, so that the steps of a tile shuffle nothing. Other
    machines load and separate pairs by one instruction (ld2 of ARM).
    """
    dtype = kernel.packed_left if operand == "left" else kernel.packed_right
    if not dtype.is_complex or kernel.variant.broadcast is not Broadcast.LOAD:
        return 0
    return 1 if operand == "left" else kernel.variant.lanes


def pitch(steps: Expr) -> Expr:
    """Steps from the beginning of a packed panel to that of the next, all groups included."""
    return (steps + (PITCH - 1)) // PITCH * PITCH
