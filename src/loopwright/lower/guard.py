"""Minima and maxima of floats by one instruction, where no NaN can come up.

A minimum that hands on NaN and orders the zeros takes x86 seven instructions; one that prefers
numbers to NaN takes one, and is the same where there is no NaN. So packed blocks are looked
through, which costs little beside the product. With the bits of an element

    1  NaN; for times = mul also an infinity      2  +infinity      4  -infinity  (times = add)

and l, r the bits found so far in left and right for a block of columns, products may be NaN if

    (l | r) & 1,    l & 2 and r & 4,    or    l & 4 and r & 2.

From then on all operators are the exact ones. Bits are never taken back while the steps of a block
of columns go on, so sums of earlier steps hold no NaN either: they begin with the identity of plus,
and threads that share rows get the same rows for every block of steps.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce

from loopwright.ir.dtypes import INT32
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var
from loopwright.ir.form import Feed, Form
from loopwright.ir.loops import Alloc, Buffer, Space, Stmt, Store
from loopwright.lower.build import loop, seq, unrolled, vector
from loopwright.lower.panels import pitch

__all__ = ["look_through", "meets_no_nan", "quick_form", "with_bits"]

_NUMBERS = {"min": "min_number", "max": "max_number"}
lane, at = Var("lane"), Var("look_at")


def quick_form(form: Form) -> Form:
    """The form with operators that prefer numbers to NaN."""
    plus, times = (_NUMBERS.get(str(op), op) for op in (form.plus, form.times))
    return replace(form, plus=plus, times=times)


def with_bits(body: Stmt) -> Stmt:
    """`body` with memory for the bits of left and right; none are found yet."""
    for name in ("left_bits", "right_bits"):
        clear = Store(name, (Const(0),), Const(0, INT32))
        buffer = Buffer(name, INT32, (Const(1),), Space.STACK)
        body = Alloc(buffer, (Const(1),), seq(clear, body))
    return body


def look_through(name: str, form: Form) -> Stmt:
    """Find the bits of a packed block of left or right."""
    bits, here = f"{name}_bits", (Const(0), lane)
    found = Buffer("found", INT32, (Const(form.lanes), Const(1)), Space.REGISTER)
    size, step = (Var("mb"), form.rows) if name == "left" else (Var("nb"), form.columns)
    width = step * (form.lanes if name == "left" and form.feed is Feed.REPLICATED else 1)
    panel, count = Var("look_panel"), Var("kb") * width
    start, whole = panel * pitch(Var("kb")) * width, count // form.lanes * form.lanes

    def look(array: str, index: tuple[Expr, ...], element: Expr) -> Stmt:
        value = Load(f"{name}_packed", (element,), form.accumulator)
        return Store(array, index, _or(Load(array, index, INT32), *_bits(form, value)))

    first, k = (Const(0),), Var("look_lane")
    vectors = vector(lane, form.lanes, look("found", here, start + at + lane))
    panels = seq(
        loop(at, 0, whole, vectors, form.lanes),
        loop(at, whole, count, look(bits, first, start + at)),
    )
    looked = seq(
        vector(lane, form.lanes, Store("found", here, Const(0, INT32))),
        loop(panel, 0, (size + (step - 1)) // step, panels),
    )
    join = Store(bits, first, _or(Load(bits, first, INT32), Load("found", (Const(0), k), INT32)))
    return Alloc(found, (Const(1), Const(form.lanes)), seq(looked, unrolled(k, form.lanes, join)))


def meets_no_nan() -> Expr:
    """Whether no product of what was found in left and right is NaN."""
    left, right = (Load(f"{name}_bits", (Const(0),), INT32) for name in ("left", "right"))
    wild = _or(
        Binary("and", _or(left, right), Const(1, INT32)),
        Binary("and", _bit(left, 2), _bit(right, 4)),
        Binary("and", _bit(left, 4), _bit(right, 2)),
    )
    return Binary("eq", wild, Const(0, INT32))


def _bits(form: Form, value: Expr) -> list[Expr]:
    """The bits of one element."""
    match form.times:
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
