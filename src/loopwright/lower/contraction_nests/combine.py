"""The arithmetic of a contraction's semiring: products, accumulation, initial values, scaling."""

from __future__ import annotations

from typing import Protocol

from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Var, cast
from loopwright.ir.kernel_variant import Algebra, ContractionKernel, Initial
from loopwright.ir.loops import Alloc, Barrier, BarrierScope, Buffer, If, Space, Stmt, Store
from loopwright.ir.program import apply_operator
from loopwright.lower.build import loop, seq, unrolled, vector
from loopwright.lower.contraction_nests.packing import depth, pitch

__all__ = [
    "BIAS",
    "add_bias",
    "apply",
    "column_bias",
    "combine",
    "is_fused",
    "is_unary",
    "join_lanes",
    "product",
    "scaled",
    "start_from",
    "zero",
]

_MEET = Barrier(BarrierScope.BLOCK)


class _Kernel(Protocol):
    """A kernel of a contraction, whatever machine it is for."""

    @property
    def algebra(self) -> Algebra: ...
    @property
    def swapped(self) -> bool: ...


def apply(op: str | Expr, x: Expr, y: Expr) -> Expr:
    """`x op y` for an operator name, `op` with x and y filled in for an expression."""
    if op == "first":
        return x
    if op in ("min_number", "max_number", "add_sat"):
        return Call(str(op), (x, y))
    return apply_operator(op, x, y)


def join_lanes(
    plus: str | Expr, total: Load, shared: str, thread: Expr, lane: Expr, lanes: int
) -> list[Stmt]:
    """The totals of neighbouring threads, joined pairwise to the first of every `lanes` of them.

    `total` lives in a register; `shared` holds an element for every thread of the block. The order
    is fixed, and `lanes` a power of two.
    """
    steps: list[Stmt] = []
    half = lanes // 2
    if half:
        steps += [Store(shared, (thread,), total), _MEET]
    while half:
        other = Load(shared, (thread + half,), total.dtype)
        both = apply(plus, total, other)
        joined = [Store(total.array, total.index, both), Store(shared, (thread,), total)]
        steps += [If(Binary("lt", lane, Const(half)), seq(*joined)), _MEET]
        half //= 2
    return steps


def is_unary(kernel: _Kernel) -> bool:
    """Whether only `left` counts: the reduction of a single operand."""
    return kernel.algebra.times == "first" and not kernel.swapped


def zero(kernel: _Kernel) -> Expr:
    """The identity of plus."""
    return Const(kernel.algebra.zero, kernel.algebra.accumulator)


def product(kernel: _Kernel, left: Expr, right: Expr) -> Expr:
    """left times right in the accumulator's type, in the order the user wrote them."""
    algebra = kernel.algebra
    x, y = (cast(side, algebra.accumulator) for side in (left, right))
    return apply(algebra.times, y, x) if kernel.swapped else apply(algebra.times, x, y)


def combine(kernel: _Kernel, total: Expr, left: Expr, right: Expr) -> Expr:
    """total plus (left times right), fused where the pair is a multiply-add."""
    algebra = kernel.algebra
    if is_fused(kernel):
        x, y = (cast(side, algebra.accumulator) for side in (left, right))
        return Call("fma", (x, y, total))
    return apply(algebra.plus, total, product(kernel, left, right))


def is_fused(kernel: _Kernel) -> bool:
    """Whether a product and its sum are one operation: the multiply-add of floating numbers."""
    algebra = kernel.algebra
    is_floating = algebra.accumulator.is_float or algebra.accumulator.is_complex
    return algebra.plus == "add" and algebra.times == "mul" and is_floating


def scaled(kernel: _Kernel, value: Expr) -> Expr:
    """alpha times a value of the accumulator's type, where the kernel scales."""
    if not kernel.algebra.scaled:
        return value
    return Binary("mul", Load("alpha", (), kernel.algebra.accumulator), value)


def start_from(kernel: _Kernel, old: Expr) -> Expr:
    """What the accumulator holds before the first product, given the old element of out."""
    algebra = kernel.algebra
    match algebra.initial:
        case Initial.ZERO:
            return zero(kernel)
        case Initial.OUT:
            return cast(old, algebra.accumulator)
        case Initial.SCALED:
            beta = Load("beta", (), algebra.accumulator)
            return Binary("mul", beta, cast(old, algebra.accumulator))


# -- products of bytes by instructions that take one signed and one unsigned factor ---------------
# Bytes of left are packed with their sign bit turned, which moves them by 128 into the other kind:
# a' = a + 128 is unsigned for a signed, a' = a - 128 is signed for a unsigned. So
#
#     sum over p of a[i, p] * b[p, j] = sum over p of a'[i, p] * b[p, j] + bias[j],
#     bias[j] = -128 * (sum over p of b[p, j]) for a signed, +128 * (...) for a unsigned,
#
# modulo 2**32, as all sums of this width are taken. The bias of a block is made once its columns
# are packed, and accumulators begin with it. Padded steps add nothing: b is zero there.


BIAS = "right_bias"
row, part, lane, p = Var("row"), Var("part"), Var("lane"), Var("p")


def column_bias(kernel: ContractionKernel) -> Stmt:
    """The bias of every column of a packed block of right."""
    variant, algebra = kernel.variant, kernel.algebra
    panel = Var("bias_panel")
    width = variant.lanes * variant.group
    factors = kernel.packed_left, kernel.packed_right
    ones = Buffer("ones", factors[0], (Const(width), Const(1)), Space.REGISTER)
    right = Buffer("right_row", factors[1], (Const(width), Const(1)), Space.REGISTER)
    sums = Buffer("sums", algebra.accumulator, (Const(variant.lanes), Const(1)), Space.REGISTER)
    total = Load("sums", (part, lane), algebra.accumulator)
    steps = depth(variant.group, Var("kb"))
    at = (
        panel * pitch(Var("kb"))
        + (p * variant.columns + part * variant.lanes) * variant.group
        + lane
    )
    read = Store("right_row", (part, lane), Load("right_packed", (at,), factors[1]))
    one, column = (
        Load("ones", (Const(0), Const(0)), factors[0]),
        (part, lane * variant.group),
    )
    added = Call("dot", (one, Load("right_row", column, factors[1]), total))
    step = seq(
        unrolled(part, variant.vectors, vector(lane, width, read)),
        unrolled(
            part,
            variant.vectors,
            vector(lane, variant.lanes, Store("sums", (part, lane), added)),
        ),
    )
    below = -128 if algebra.accumulator.kind == "i" else 2**algebra.accumulator.bits - 128
    sign = Const(below if kernel.left.kind == "i" else 128, algebra.accumulator)
    finish = Store(BIAS, (panel + part * variant.lanes + lane,), Binary("mul", total, sign))
    clear = Store("sums", (part, lane), Const(0, algebra.accumulator))
    body = seq(
        vector(lane, width, Store("ones", (Const(0), lane), Const(1, factors[0]))),
        unrolled(part, variant.vectors, vector(lane, variant.lanes, clear)),
        loop(
            p,
            0,
            steps // variant.group,
            Alloc(right, (Const(variant.vectors), Const(width)), step),
        ),
        unrolled(part, variant.vectors, vector(lane, variant.lanes, finish)),
    )
    body = Alloc(sums, (Const(variant.vectors), Const(variant.lanes)), body)
    return loop(panel, 0, Var("nb"), Alloc(ones, (Const(1), Const(width)), body), variant.columns)


def add_bias(kernel: ContractionKernel) -> Stmt:
    """The bias of the tile's columns, added to all rows of accumulators."""
    variant = kernel.variant
    here = (row, part, lane)
    bias = Load(BIAS, (Var("jr") + part * variant.lanes + lane,), kernel.algebra.accumulator)
    total = Binary("add", Load("sums", here, kernel.algebra.accumulator), bias)
    store = vector(lane, variant.lanes, Store("sums", here, total))
    return unrolled(row, variant.rows, unrolled(part, variant.vectors, store))
