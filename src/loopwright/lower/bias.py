"""Products of bytes by instructions that take one signed and one unsigned factor.

Bytes of left are packed with their sign bit turned, which moves them by 128 into the other kind:
a' = a + 128 is unsigned for a signed, a' = a - 128 is signed for a unsigned. So

    sum over p of a[i, p] * b[p, j] = sum over p of a'[i, p] * b[p, j] + bias[j],
    bias[j] = -128 * (sum over p of b[p, j]) for a signed, +128 * (...) for a unsigned,

modulo 2**32, as all sums of this width are taken. The bias of a block is made once its columns are
packed, and accumulators begin with it. Padded steps add nothing: b is zero there.
"""

from __future__ import annotations

from loopwright.ir.expr import Binary, Call, Const, Load, Var
from loopwright.ir.form import Form
from loopwright.ir.loops import Alloc, Buffer, Space, Stmt, Store
from loopwright.lower.build import loop, seq, unrolled, vector
from loopwright.lower.packed_panels import depth, pitch

__all__ = ["BIAS", "add_bias", "column_bias"]

BIAS = "right_bias"
row, part, lane, p = Var("row"), Var("part"), Var("lane"), Var("p")


def column_bias(form: Form) -> Stmt:
    """The bias of every column of a packed block of right."""
    panel = Var("bias_panel")
    width = form.lanes * form.group
    factors = form.packed_left, form.packed_right
    ones = Buffer("ones", factors[0], (Const(width), Const(1)), Space.REGISTER)
    right = Buffer("right_row", factors[1], (Const(width), Const(1)), Space.REGISTER)
    sums = Buffer("sums", form.accumulator, (Const(form.lanes), Const(1)), Space.REGISTER)
    total = Load("sums", (part, lane), form.accumulator)
    steps = depth(form.group, Var("kb"))
    at = panel * pitch(Var("kb")) + (p * form.columns + part * form.lanes) * form.group + lane
    read = Store("right_row", (part, lane), Load("right_packed", (at,), factors[1]))
    one, column = Load("ones", (Const(0), Const(0)), factors[0]), (part, lane * form.group)
    added = Call("dot", (one, Load("right_row", column, factors[1]), total))
    step = seq(
        unrolled(part, form.vectors, vector(lane, width, read)),
        unrolled(part, form.vectors, vector(lane, form.lanes, Store("sums", (part, lane), added))),
    )
    below = -128 if form.accumulator.kind == "i" else 2**form.accumulator.bits - 128
    sign = Const(below if form.left.kind == "i" else 128, form.accumulator)
    finish = Store(BIAS, (panel + part * form.lanes + lane,), Binary("mul", total, sign))
    clear = Store("sums", (part, lane), Const(0, form.accumulator))
    body = seq(
        vector(lane, width, Store("ones", (Const(0), lane), Const(1, factors[0]))),
        unrolled(part, form.vectors, vector(lane, form.lanes, clear)),
        loop(p, 0, steps // form.group, Alloc(right, (Const(form.vectors), Const(width)), step)),
        unrolled(part, form.vectors, vector(lane, form.lanes, finish)),
    )
    body = Alloc(sums, (Const(form.vectors), Const(form.lanes)), body)
    return loop(panel, 0, Var("nb"), Alloc(ones, (Const(1), Const(width)), body), form.columns)


def add_bias(form: Form) -> Stmt:
    """The bias of the tile's columns, added to all rows of accumulators."""
    here = (row, part, lane)
    bias = Load(BIAS, (Var("jr") + part * form.lanes + lane,), form.accumulator)
    total = Binary("add", Load("sums", here, form.accumulator), bias)
    store = vector(lane, form.lanes, Store("sums", here, total))
    return unrolled(row, form.rows, unrolled(part, form.vectors, store))
