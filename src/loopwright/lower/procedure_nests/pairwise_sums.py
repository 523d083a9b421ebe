"""NumPy's pairwise sums, to the bit: blocks of 128 numbers by eight accumulators, and a tree.

    sum(n) = in order                                            n < 8
             eight accumulators, added as a tree, then the rest  n <= 128
             sum(first part) + sum(second part)                  else, the first a multiple of eight

Complex numbers count twice: four accumulators, blocks of 64. The tree is walked from the left with
a stack of the parts that are open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Const, Expr, Load
from loopwright.ir.loops import Alloc, Buffer, For, If, Mark, Space, Stmt, Store
from loopwright.lower.procedure_nests.build_loops import Cell, NestBuilder, block

__all__ = ["accumulate_in_lanes", "pairwise_sum", "sum_of_neighbours"]

_LEVELS = 64  # of the tree, at most: each halves
_ROUNDS = 16  # of the accumulators in a leaf
_ZERO, _ONE = Const(0), Const(1)


def pairwise_sum(
    builder: NestBuilder, dtype: DType, count: Expr, element: Callable[[Expr], Expr], total: Cell
) -> Stmt:
    """`total` becomes the sum of element(0), ..., element(count - 1), as NumPy adds them."""
    lanes = 4 if dtype.is_complex else 8
    at, size, depth = (builder.cell(x) for x in ("at", "size", "depth"))
    part = builder.cell("part", dtype, _LEVELS)
    rest, is_right = builder.cell("rest", count=_LEVELS), builder.cell("right", count=_LEVELS)
    here = depth.load()
    # The parts of complex numbers are what NumPy counts.
    half = size.load() // 2 if lanes == 8 else size.load()
    half = (half - half % 8) // (1 if lanes == 8 else 2)

    def level(body: Stmt, until: Expr) -> Stmt:
        return For(builder.name("level"), _ZERO, Const(_LEVELS), body, _ONE, until=until)

    descend = level(
        block(
            rest.store(size.load() - half, here),
            is_right.store(_ZERO, here),
            size.store(size.load() - rest.load(here)),
            depth.store(here + 1),
        ),
        Binary("le", size.load(), Const(_ROUNDS * lanes)),
    )

    def added(before: Expr, index: Expr) -> Expr:
        return Binary("add", before, element(at.load() + index))

    leaf = accumulate_in_lanes(builder, lanes, size.load(), added, total)
    is_left = Binary("eq", is_right.load(Binary("max", here - 1, _ZERO)), _ZERO)
    is_done = Binary("eq", here, _ZERO)
    ascend = level(
        block(depth.store(here - 1), total.store(Binary("add", part.load(here), total.load()))),
        Binary("or", is_done, is_left),
    )

    def turn(leave: Stmt) -> Stmt:
        return block(
            descend,
            leaf,
            at.store(at.load() + size.load()),
            ascend,
            If(is_done, leave),
            part.store(total.load(), here - 1),
            is_right.store(_ONE, here - 1),
            size.store(rest.load(here - 1)),
        )

    if isinstance(count, Const) and count.value.real <= _ROUNDS * lanes:
        return accumulate_in_lanes(
            builder,
            lanes,
            count,
            lambda before, index: Binary("add", before, element(index)),
            total,
        )
    body = block(
        at.store(_ZERO),
        depth.store(_ZERO),
        size.store(count),
        is_right.store(_ZERO, _ZERO),
        builder.endless(turn),
    )
    for cell in (at, size, depth, part, rest, is_right):
        body = cell.around(body)
    return body


def accumulate_in_lanes(
    builder: NestBuilder,
    lanes: int,
    count: Expr,
    following: Callable[[Expr, Expr], Expr],
    total: Cell,
) -> Stmt:
    """`total` becomes the sum of what `lanes` accumulators collect, and of the elements left over.

    `following` gives what an accumulator becomes by an element. All begin with zero, where NumPy
    begins with the first elements: that differs in the sign of a zero, which the sum of the result
    and a positive zero has not.
    """
    dtype, sums = total.dtype, builder.name("lanes")
    zero = Const(False if dtype.kind == "b" else 0.0 if dtype.kind in "fc" else 0, dtype)
    at, lane, turn = (builder.index(1)[0] for _ in range(3))
    whole = count - count % lanes

    def in_lanes(value: Expr) -> Stmt:
        body = Store(sums, (lane,), value)
        return For(lane.name, _ZERO, Const(lanes), body, _ONE, Mark.VECTOR)

    update = following(Load(sums, (lane,), dtype), turn + lane)
    body = block(
        in_lanes(zero),
        For(turn.name, _ZERO, whole, in_lanes(update), Const(lanes)),
        total.store(sum_of_neighbours([Load(sums, (Const(k),), dtype) for k in range(lanes)])),
        For(at.name, whole, count, total.store(following(total.load(), at)), _ONE),
    )
    return Alloc(Buffer(sums, dtype, (_ONE,), Space.REGISTER, True), (Const(lanes),), body)


def sum_of_neighbours(values: Sequence[Expr]) -> Expr:
    """The sum of neighbours, then of neighbouring sums."""
    if len(values) == 1:
        return values[0]
    pairs = zip(values[::2], values[1::2], strict=True)
    return sum_of_neighbours([Binary("add", x, y) for x, y in pairs])
