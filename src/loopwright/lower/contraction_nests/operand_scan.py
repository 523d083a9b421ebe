"""Cheaper operators for a product whose operands hold no value on which they differ.

A minimum that hands on NaN and orders the zeros takes x86 seven instructions; one that prefers
numbers to NaN takes one, and is the same where there is no NaN. A signed sum whose end absorbs
(`add_top`, `add_bottom`) takes four; one that only saturates takes one, and is the same unless that
end meets a number of the other sign: MAX + -1. So packed blocks are scanned, which costs little
beside the product. With the bits of an element

    1  NaN; for times = mul also an infinity
    2  +infinity (times = add); the end that absorbs (add_top, add_bottom)
    4  -infinity (times = add); a number < 0 (add_top) or > 0 (add_bottom)

and l, r the bits found so far in left and right for a block of columns, products may differ if

    (l | r) & 1,    l & 2 and r & 4,    or    l & 4 and r & 2.

From then on all operators are the exact ones. Bits are never taken back while the steps of a block
of columns go on, so sums of earlier steps hold no NaN either: they begin with the identity of plus,
and threads that share rows get the same rows for every block of steps. What out holds before may be
NaN: where it counts, the sums of every block of steps begin with the identity, and the exact plus
joins them to out when they are written. Integers need none of this: each of their products is the
same by either operator.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce

from loopwright.ir.dtypes import INT32
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var
from loopwright.ir.kernel_variant import Broadcast, ContractionKernel, Initial
from loopwright.ir.loops import Alloc, Buffer, Space, Stmt, Store
from loopwright.ir.passed_nan import number_operator
from loopwright.lower.build import loop, seq, unrolled, vector
from loopwright.lower.contraction_nests.packing import pitch

__all__ = [
    "allows_quick_kernel",
    "joins_by",
    "look_through",
    "passing_kernel",
    "quick_kernel",
    "with_bits",
]

_NUMBERS = {"min": "min_number", "max": "max_number"}
lane, at = Var("lane"), Var("look_at")


def quick_kernel(kernel: ContractionKernel) -> ContractionKernel:
    """The kernel with operators that prefer numbers to NaN, or with sums that only saturate."""
    if kernel.algebra.accumulator.is_integer:
        return replace(kernel, algebra=replace(kernel.algebra, times="add_sat"))
    plus, times = (_NUMBERS.get(str(op), op) for op in (kernel.algebra.plus, kernel.algebra.times))
    return replace(kernel, algebra=replace(kernel.algebra, plus=plus, times=times))


def passing_kernel(kernel: ContractionKernel) -> ContractionKernel | None:
    """The kernel whose sums pass over NaN by one instruction, where its plus passes over NaN.

    Its sums begin with the identity, or with sums of earlier steps, and hold none themselves; what
    out holds before may be NaN, and is joined by the plus of the kernel (`joins_by`).
    """
    op = number_operator(kernel.algebra.plus)
    if op is None or kernel.algebra.initial is Initial.SCALED:
        return None
    return replace(kernel, algebra=replace(kernel.algebra, plus=_NUMBERS[op]))


def joins_by(kernel: ContractionKernel) -> str | Expr | None:
    """The plus that joins sums of the quick kernel to out; None where they begin with out."""
    is_old = kernel.algebra.accumulator.is_float and kernel.algebra.initial is Initial.OUT
    return kernel.algebra.plus if is_old else None


def with_bits(body: Stmt) -> Stmt:
    """`body` with memory for the bits of left and right; none are found yet."""
    for name in ("left_bits", "right_bits"):
        clear = Store(name, (Const(0),), Const(0, INT32))
        buffer = Buffer(name, INT32, (Const(1),), Space.STACK)
        body = Alloc(buffer, (Const(1),), seq(clear, body))
    return body


def look_through(name: str, kernel: ContractionKernel) -> Stmt:
    """Find the bits of a packed block of left or right."""
    variant, algebra = kernel.variant, kernel.algebra
    bits = f"{name}_bits"
    is_integer = algebra.accumulator.is_integer
    kept, dtype = (("min", "max"), algebra.accumulator) if is_integer else (("or",), INT32)
    found = Buffer("found", dtype, (Const(variant.lanes), Const(1)), Space.REGISTER)
    size, step = (Var("mb"), variant.rows) if name == "left" else (Var("nb"), variant.columns)
    width = step * (
        variant.lanes if name == "left" and variant.broadcast is Broadcast.REPLICATED else 1
    )
    panel, count = Var("look_panel"), Var("kb") * width
    start, whole = (
        panel * pitch(Var("kb")) * width,
        count // variant.lanes * variant.lanes,
    )

    def element(place: Expr) -> Expr:
        return Load(f"{name}_packed", (place,), algebra.accumulator)

    def row(r: int, lane: Expr) -> Load:
        return Load("found", (Const(r), lane), dtype)

    def keep(op: str, old: Load, value: Expr) -> Stmt:
        """Join an element to what a lane holds: bits, or the least and the greatest integer."""
        new = value if is_integer else _or(*_bits(kernel, value))
        return vector(lane, variant.lanes, Store("found", old.index, Binary(op, old, new)))

    def join(flags: list[Expr]) -> Stmt:
        return Store(bits, (Const(0),), _or(Load(bits, (Const(0),), INT32), *flags))

    here, k = element(start + at + lane), Var("look_lane")
    vectors = seq(*(keep(op, row(r, lane), here) for r, op in enumerate(kept)))
    single = element(start + at)
    rest = _ends(kernel, single, single) if is_integer else _bits(kernel, single)
    panels = seq(loop(at, 0, whole, vectors, variant.lanes), loop(at, whole, count, join(rest)))
    clear = (Store("found", row(r, lane).index, Const(0, dtype)) for r in range(len(kept)))
    looked = seq(
        *(vector(lane, variant.lanes, store) for store in clear),
        loop(panel, 0, (size + (step - 1)) // step, panels),
    )
    lanes: list[Expr] = [row(0, k)]
    if is_integer:
        lanes = _ends(kernel, row(0, k), row(1, k))
    joined = seq(looked, unrolled(k, variant.lanes, join(lanes)))
    return Alloc(found, (Const(len(kept)), Const(variant.lanes)), joined)


def allows_quick_kernel() -> Expr:
    """Whether no product of what was found in left and right differs in the quick kernel."""
    left, right = (Load(f"{name}_bits", (Const(0),), INT32) for name in ("left", "right"))
    wild = _or(
        Binary("and", _or(left, right), Const(1, INT32)),
        Binary("and", _bit(left, 2), _bit(right, 4)),
        Binary("and", _bit(left, 4), _bit(right, 2)),
    )
    return Binary("eq", wild, Const(0, INT32))


def _ends(kernel: ContractionKernel, least: Expr, most: Expr) -> list[Expr]:
    """The bits of integers of which these are the least and the greatest, zero counted in."""
    zero, end = (Const(value, kernel.algebra.accumulator) for value in (0, _absorbing(kernel)))
    if kernel.algebra.times == "add_top":
        return [_flag(Binary("eq", most, end), 2), _flag(Binary("lt", least, zero), 4)]
    return [_flag(Binary("eq", least, end), 2), _flag(Binary("gt", most, zero), 4)]


def _absorbing(kernel: ContractionKernel) -> int:
    """The end of the type that absorbs."""
    top = (1 << (kernel.algebra.accumulator.bits - 1)) - 1
    return top if kernel.algebra.times == "add_top" else -top - 1


def _bits(kernel: ContractionKernel, value: Expr) -> list[Expr]:
    """The bits of one floating element."""
    match kernel.algebra.times:
        case "mul":
            # Zero times a number is zero; of NaN and of infinities it is NaN.
            zero = Binary("mul", value, Const(0.0, value.dtype))
            return [_flag(Binary("ne", zero, zero), 1)]
        case "add":
            infinite = (Const(sign * math.inf, value.dtype) for sign in (1, -1))
            above, below = (Binary("eq", value, limit) for limit in infinite)
            return [_flag(Binary("ne", value, value), 1), _flag(above, 2), _flag(below, 4)]
        case _:
            return [_flag(Binary("ne", value, value), 1)]


def _flag(condition: Expr, bit: int) -> Expr:
    return Select(condition, Const(bit, INT32), Const(0, INT32))


def _bit(bits: Expr, bit: int) -> Expr:
    """One where the bit is set, else zero."""
    return Binary("and", Binary("floordiv", bits, Const(bit, INT32)), Const(1, INT32))


def _or(*parts: Expr) -> Expr:
    return reduce(lambda x, y: Binary("or", x, y), parts)
