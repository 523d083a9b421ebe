"""A contraction on a GPU element by element of out, as a LoopNest: what is no product of matrices.

    block y for parts of the reduction
      block x, thread x for elements of out, `lanes` threads to each
        for p in the part, from the lane on in steps of `lanes`: sum = sum plus left times right
        sums of the lanes meet in shared memory
        the first lane stores

Loops of a bundle are digits of its linear index, so that operands of any rank need no tables. Sums
of lanes and parts are joined in a fixed order: a launch gives the same bits each time.
"""

from __future__ import annotations

from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var, cast
from loopwright.ir.grid_kernel import ElementsKernel
from loopwright.ir.kernel_variant import Initial
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Buffer,
    For,
    If,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.lower.build import lets, loop, seq
from loopwright.lower.combine import combine, is_unary, join_lanes, scaled, start_from, zero

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
