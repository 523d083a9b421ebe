"""A contraction on a GPU element by element of out, as a LoopNest: what is no product of matrices.

    block y for parts of the reduction
      block x, thread x for elements of out, `lanes` threads to each
        for p in the part, from the lane on in steps of `lanes`: sum = sum plus left times right
        sums of the lanes meet in shared memory
        the first lane stores

Where neighbours of an operand lie along another loop than those of out, and there is no reduction:

    block x for tiles of 32 x 32 elements of these two loops; alloc shared box
      thread x, thread y: box = the operand's tile, lanes along the operand's loop
      barrier
      thread x, thread y: the elements of the tile, lanes along the loop of out

Loops of a bundle are digits of its linear index, so that operands of any rank need no tables. Sums
of lanes and parts are joined in a fixed order: a launch gives the same bits each time.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var, cast
from loopwright.ir.grid_kernel import TURNED_SIDE, ElementsKernel
from loopwright.ir.kernel_variant import Initial
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Barrier,
    BarrierScope,
    Buffer,
    For,
    If,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.lower.build import lets, loop, seq, tiles
from loopwright.lower.contraction_nests.combine import (
    combine,
    is_unary,
    join_lanes,
    scaled,
    start_from,
    zero,
)

__all__ = ["elements_scalars", "lower_grid_elements"]

_ONE, _NONE = Const(1), Const(0)
E, K = Var("E"), Var("K")
thread, lane, p, part = Var("thread.x"), Var("lane"), Var("p"), Var("block.y")


def elements_scalars(kernel: ElementsKernel) -> tuple[str, ...]:
    """The sizes and strides that a launch of the kernel takes.

    `K` steps go in `parts` of `chunk`, whose sums lie `out_part` elements apart.
    """
    variant = kernel.variant
    names = ["E", "K", "chunk", "parts", "out_part"]
    for number in range(variant.free):
        names += [f"{x}_e{number}" for x in ("size", *_operands(kernel), "out")]
    for number in range(variant.reduced):
        names += [f"{x}_p{number}" for x in ("size", *_operands(kernel))]
    return tuple(names)


def lower_grid_elements(kernel: ElementsKernel, name: str) -> LoopNest:
    """The LoopNest of a contraction, every element of out by itself."""
    if kernel.variant.turned:
        return LoopNest(name, _arguments(kernel), elements_scalars(kernel), _turned(kernel))
    variant, accumulator = kernel.variant, kernel.algebra.accumulator
    each = variant.threads // variant.lanes  # elements of a block
    body: Stmt = For(
        "thread.x", _NONE, Const(variant.threads), _thread(kernel), _ONE, Mark.THREAD, axis=Axis.X
    )
    if variant.lanes > 1:
        shared = Buffer("lane_sums", accumulator, (_ONE,), Space.SHARED)
        body = Alloc(shared, (Const(variant.threads),), body)
    blocks = (E + (each - 1)) // each
    body = For("block.x", _NONE, blocks, body, _ONE, Mark.BLOCK, axis=Axis.X)
    body = For("block.y", _NONE, Var("parts"), body, _ONE, Mark.BLOCK, axis=Axis.Y)
    return LoopNest(name, _arguments(kernel), elements_scalars(kernel), body)


_ROWS = 8  # of threads


def _turned(kernel: ElementsKernel) -> Stmt:
    """Tiles of the last two loops of out, of which some operands are turned in shared memory."""
    algebra, variant = kernel.algebra, kernel.variant
    across, down = Var("thread.x"), Var("thread.y")
    x, y = (f"e{variant.free - k}" for k in (1, 2))
    tiles_x, tiles_y, tile = Var("tiles_x"), Var("tiles_y"), Var("tile")
    x0, y0 = Var("x0"), Var("y0")
    operands = (*_operands(kernel), "out")
    bound = [
        (tiles_x, tiles(Var(f"size_{x}"), TURNED_SIDE)),
        (tiles_y, tiles(Var(f"size_{y}"), TURNED_SIDE)),
        (tile, Var("block.x") // tiles_x),
        (x0, Var("block.x") % tiles_x * TURNED_SIDE),
        (y0, tile % tiles_y * TURNED_SIDE),
    ]
    rest = Var("rest")
    bound.append((rest, tile // tiles_y))
    others, places = _places("e", rest, variant.free - 2, operands)
    bound += others
    bound += [(Var(f"{operand}_base"), places[operand]) for operand in operands]

    def place(operand: str, at_x: Expr, at_y: Expr) -> Expr:
        near = (x0 + at_x) * Var(f"{operand}_{x}") + (y0 + at_y) * Var(f"{operand}_{y}")
        return Var(f"{operand}_base") + near

    def is_there(at_x: Expr, at_y: Expr) -> Expr:
        inside = Binary("lt", x0 + at_x, Var(f"size_{x}"))
        return Binary("and", inside, Binary("lt", y0 + at_y, Var(f"size_{y}")))

    types = {"left": algebra.left, "right": algebra.right}
    staged = [
        operand
        for operand, is_turned in zip(("left", "right"), variant.is_turned, strict=True)
        if is_turned and operand in operands
    ]
    parts: list[Stmt] = []
    for start in range(0, TURNED_SIDE, _ROWS):
        row = down + start
        copies = [
            Store(
                f"{operand}_box",
                (row, across),
                Load(operand, (place(operand, row, across),), types[operand]),
            )
            for operand in staged
        ]
        parts.append(If(is_there(row, across), seq(*copies)))
    parts.append(Barrier(BarrierScope.BLOCK))
    for start in range(0, TURNED_SIDE, _ROWS):
        row = down + start
        factors = [
            Load(f"{operand}_box", (across, row), types[operand])
            if operand in staged
            else Load(operand, (place(operand, across, row),), types[operand])
            for operand in _operands(kernel)
        ]
        parts.append(
            If(is_there(across, row), _element(kernel, place("out", across, row), factors))
        )
    body = lets(bound, seq(*parts))
    for name, threads, axis in ((across.name, TURNED_SIDE, Axis.X), (down.name, _ROWS, Axis.Y)):
        body = For(name, _NONE, Const(threads), body, _ONE, Mark.THREAD, axis=axis)
    for operand in reversed(staged):
        # A column more, so that lanes that go down read different banks.
        strides = Const(TURNED_SIDE + 1), _ONE
        box = Buffer(f"{operand}_box", types[operand], strides, Space.SHARED, writable=True)
        body = Alloc(box, (Const(TURNED_SIDE), Const(TURNED_SIDE)), body)
    count: Expr = tiles(Var(f"size_{x}"), TURNED_SIDE) * tiles(Var(f"size_{y}"), TURNED_SIDE)
    for number in range(variant.free - 2):
        count = count * Var(f"size_e{number}")
    return For("block.x", _NONE, count, body, _ONE, Mark.BLOCK, axis=Axis.X)


def _element(kernel: ElementsKernel, place: Expr, factors: Sequence[Expr]) -> Stmt:
    """One element of out, which is one product."""
    algebra = kernel.algebra
    left, right = factors[0], factors[-1]
    if algebra.scaled:
        left = scaled(kernel, cast(left, algebra.accumulator))
    total = Load("sums", (_NONE,), algebra.accumulator)
    start = start_from(kernel, Load("out", (place,), algebra.out))
    body = seq(
        Store("sums", (_NONE,), start),
        Store("sums", (_NONE,), combine(kernel, total, left, right)),
        Store("out", (place,), cast(total, algebra.out)),
    )
    return Alloc(Buffer("sums", algebra.accumulator, (_ONE,), Space.REGISTER), (_ONE,), body)


def _operands(kernel: ElementsKernel) -> tuple[str, ...]:
    return ("left",) if is_unary(kernel) else ("left", "right")


def _arguments(kernel: ElementsKernel) -> tuple[Buffer, ...]:
    algebra, one = kernel.algebra, (_ONE,)
    found = [Buffer("out", algebra.out, one, writable=True), Buffer("left", algebra.left, one)]
    if not is_unary(kernel):
        found.append(Buffer("right", algebra.right, one))
    if algebra.scaled:
        found.append(Buffer("alpha", algebra.accumulator, ()))
    if algebra.initial is Initial.SCALED:
        found.append(Buffer("beta", algebra.accumulator, ()))
    return tuple(found)


def _thread(kernel: ElementsKernel) -> Stmt:
    """What a thread does."""
    variant, accumulator = kernel.variant, kernel.algebra.accumulator
    lanes, each = variant.lanes, variant.threads // variant.lanes
    element, first = Var("element"), Var("first_step")
    operands = (*_operands(kernel), "out")
    number = Var("block.x") * each + thread // lanes
    # Lanes meet at barriers: those beyond the last element compute it once more.
    at = element if lanes == 1 else element.min(E - 1)
    bound, places = _places("e", at, variant.free, operands)
    if lanes > 1:
        bound.insert(0, (lane, thread % lanes))
    places["out"] += part * Var("out_part")
    bound += [(Var(f"{x}_base"), places[x]) for x in operands]
    bound += [(first, part * Var("chunk")), (Var("last_step"), (first + Var("chunk")).min(K))]
    total, here = Load("sums", (_NONE,), accumulator), (_NONE,)
    begin = first if lanes == 1 else first + lane
    steps = loop(p, begin, Var("last_step"), _step(kernel), lanes)
    start: Expr = start_from(kernel, Load("out", (Var("out_base"),), kernel.algebra.out))
    if lanes > 1 and kernel.algebra.initial is not Initial.ZERO:
        start = Select(Binary("eq", lane, _NONE), start, zero(kernel))
    store: Stmt = Store("out", (Var("out_base"),), cast(total, kernel.algebra.out))
    is_there = Binary("lt", element, E)
    if lanes > 1:
        store = If(is_there, If(Binary("eq", lane, _NONE), store))
    joined = join_lanes(kernel.algebra.plus, total, "lane_sums", thread, lane, lanes)
    body = seq(Store("sums", here, start), steps, *joined, store)
    sums = Buffer("sums", accumulator, (_ONE,), Space.REGISTER)
    work = lets(bound, Alloc(sums, (_ONE,), body))
    return lets([(element, number)], If(is_there, work) if lanes == 1 else work)


def _step(kernel: ElementsKernel) -> Stmt:
    algebra, operands = kernel.algebra, _operands(kernel)
    bound, places = _places("p", p, kernel.variant.reduced, operands)
    left: Expr = Load("left", (Var("left_base") + places["left"],), algebra.left)
    right: Expr = left
    if "right" in operands:
        right = Load("right", (Var("right_base") + places["right"],), algebra.right)
    if algebra.scaled:
        left = scaled(kernel, cast(left, algebra.accumulator))
    total = Load("sums", (_NONE,), algebra.accumulator)
    return lets(bound, Store("sums", (_NONE,), combine(kernel, total, left, right)))


def _places(
    bundle: str, index: Expr, rank: int, operands: tuple[str, ...]
) -> tuple[list[tuple[Var, Expr]], dict[str, Expr]]:
    """How far a linear index of a bundle leads in each operand: its digits times their strides."""
    bound: list[tuple[Var, Expr]] = []
    places: dict[str, Expr] = dict.fromkeys(operands, _NONE)
    rest = index
    for number in reversed(range(rank)):
        name, size = f"{bundle}{number}", Var(f"size_{bundle}{number}")
        digit: Expr = rest
        if number:
            digit = Var(f"digit_{name}")
            left = Var(f"rest_{name}")
            bound += [(digit, rest % size), (left, rest // size)]
            rest = left
        elif not isinstance(rest, Var):
            digit = Var(f"digit_{name}")
            bound.append((digit, rest))
        for x in operands:
            places[x] = places[x] + digit * Var(f"{x}_{name}")
    return bound, places
