"""Packing: copying a block of an operand into the order in which register tiles read it.

A panel holds `width` neighbours of the tile's loop (i or j) for every p, p outermost:

    packed[panel, p, t] = operand[tile + t, p]      edges padded with zeros

Reads follow the operand's runs of unit stride: along the tile's loop they are vector copies, along
p they are vectors turned round in registers, elsewhere single elements.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var
from loopwright.ir.form import Feed, Form, Packing
from loopwright.ir.loops import Alloc, Buffer, Mark, Space, Stmt, Store
from loopwright.lower.build import lets, loop, seq, unrolled, vector

__all__ = ["left_panels", "right_panels", "table"]


def table(name: str, index: Expr) -> Expr:
    """Entry `index` of an offset table."""
    return Load("table", (Var(name) + index,), INT64)


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand as the packing loops see it."""

    name: str  # "left" or "right"
    dtype: DType
    packing: Packing
    loop: str  # table of the tile's loop
    width: int  # panel width in elements
    block: Var  # first element of the block in the tile's loop
    count: Var  # elements of the block in the tile's loop
    lanes: int  # elements per vector
    copies: int  # times each element is stored
    scaled: bool  # multiply by alpha on the way

    def element(self, tile: Expr, step: Expr) -> Expr:
        return Load(self.name, (Var(f"{self.name}_base") + tile + step,), self.dtype)

    def value(self, element: Expr) -> Expr:
        if not self.scaled:
            return element
        return Binary("mul", Load("alpha", (), self.dtype), element)

    def place(self, panel: Expr, p: Expr, at: Expr) -> Expr:
        """Position of element `at` of step p in the panel that starts at `panel`."""
        return (panel * Var("kb") + p * self.width) * self.copies + at

    @property
    def packed(self) -> str:
        return f"{self.name}_packed"


def left_panels(form: Form, mark: Mark = Mark.SERIAL) -> Stmt:
    """Pack rows ic .. ic + mb of the left operand for the steps pc .. pc + kb."""
    copies = form.lanes if form.feed is Feed.REPLICATED else 1
    side = _Side(
        "left",
        form.left,
        form.left_packing,
        "left_i",
        form.rows,
        Var("ic"),
        Var("mb"),
        form.lanes,
        copies,
        form.scaled,
    )
    return _panels(side, mark)


def right_panels(form: Form, mark: Mark = Mark.SERIAL) -> Stmt:
    """Pack columns jc .. jc + nb of the right operand for the steps pc .. pc + kb."""
    side = _Side(
        "right",
        form.right,
        form.right_packing,
        "right_j",
        form.columns,
        Var("jc"),
        Var("nb"),
        form.lanes,
        1,
        False,
    )
    return _panels(side, mark)


def _panels(side: _Side, mark: Mark) -> Stmt:
    """All panels of the block; whole ones by runs, the padded last one element by element."""
    panel = Var(f"{side.name}_panel")
    if side.packing is Packing.ANY or side.copies > 1:
        return loop(panel, 0, side.count, _single(side, panel), side.width, mark)
    whole = side.count // side.width * side.width
    last = loop(panel, whole, side.count, _single(side, panel), side.width, mark)
    if side.packing is Packing.ALONG_P:
        return seq(loop(panel, 0, whole, _along_p(side, panel), side.width, mark), last)
    return seq(_along_tile(side, panel, whole, mark), last)


def _single(side: _Side, panel: Var) -> Stmt:
    """Element by element, zeros beyond the edge."""
    p, t, copy = Var("pack_p"), Var("pack_t"), Var("pack_copy")
    inside = (panel + t) < side.count
    # Beyond the edge the address of the first element stands in: it is always readable.
    safe = Select(inside, panel + t, panel)
    read = side.element(table(side.loop, side.block + safe), Var("step"))
    value = Select(inside, side.value(read), Const(0, side.dtype))
    at = side.place(panel, p, t * side.copies)
    store: Stmt = Store(side.packed, (at,), value)
    if side.copies > 1:
        store = vector(copy, side.copies, Store(side.packed, (at + copy,), value))
    inner = loop(t, 0, side.width, store)
    return loop(p, 0, Var("kb"), lets([(Var("step"), _step(side, p))], inner))


def _step(side: _Side, p: Expr) -> Expr:
    return table(f"{side.name}_p", Var("pc") + p)


def _along_tile(side: _Side, panel: Var, whole: Expr, mark: Mark) -> Stmt:
    """Vector copies: each vector of a panel is a run of the operand.

    All panels of one step before the next step: the reads then follow the operand's rows, which
    the prefetchers of caches understand (3% of a whole product over panel by panel, measured).
    """
    p, lane = Var("pack_p"), Var("pack_lane")
    copies = [
        vector(
            lane,
            width,
            Store(
                side.packed,
                (side.place(panel, p, Const(first)) + lane,),
                side.value(
                    side.element(table(side.loop, side.block + panel + first) + lane, Var("step"))
                ),
            ),
        )
        for first, width in _chunks(side.width, side.lanes)
    ]
    row = loop(panel, 0, whole, seq(*copies), side.width)
    return loop(p, 0, Var("kb"), lets([(Var("step"), _step(side, p))], row), mark=mark)


def _along_p(side: _Side, panel: Var) -> Stmt:
    """Vectors along p, turned round in registers `lanes` steps at a time."""
    p, t, lane, turn = (Var(f"pack_{x}") for x in ("p", "t", "lane", "turn"))
    lanes = side.lanes
    starts = [
        (Var(f"{side.name}_at{k}"), table(side.loop, side.block + panel + k))
        for k in range(side.width)
    ]
    block = f"{side.name}_block"
    square = Buffer(block, side.dtype, (Const(lanes), Const(1)), Space.REGISTER)
    parts: list[Stmt] = []
    for first, width in _chunks(side.width, lanes):
        read = [
            vector(
                lane,
                lanes,
                Store(
                    block,
                    (Const(k), lane),
                    side.value(side.element(starts[first + k][0] + lane, Var("step"))),
                ),
            )
            for k in range(width)
        ]
        write = unrolled(
            turn,
            lanes,
            vector(
                lane,
                width,
                Store(
                    side.packed,
                    (side.place(panel, p + turn, Const(first)) + lane,),
                    Load(block, (lane, turn), side.dtype),
                ),
            ),
        )
        parts.append(Alloc(square, (Const(width), Const(lanes)), seq(*read, write)))
    whole = Var("kb") // lanes * lanes
    squares = loop(p, 0, whole, lets([(Var("step"), _step(side, p))], seq(*parts)), lanes)
    rest = loop(
        p,
        whole,
        Var("kb"),
        lets(
            [(Var("step"), _step(side, p))],
            loop(
                t,
                0,
                side.width,
                Store(
                    side.packed,
                    (side.place(panel, p, t),),
                    side.value(side.element(table(side.loop, side.block + panel + t), Var("step"))),
                ),
            ),
        ),
    )
    return lets(starts, seq(squares, rest))


def _chunks(width: int, lanes: int) -> list[tuple[int, int]]:
    """A panel's width cut into vectors, the last one possibly shorter."""
    return [(first, min(lanes, width - first)) for first in range(0, width, lanes)]
