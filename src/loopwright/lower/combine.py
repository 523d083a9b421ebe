"""The arithmetic of a contraction's semiring: products, accumulation, initial values, scaling."""

from __future__ import annotations

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load
from loopwright.ir.form import Form, Initial
from loopwright.ir.visit import substitute

__all__ = ["apply", "cast", "combine", "is_unary", "product", "scaled", "start_from", "zero"]


def apply(op: str | Expr, x: Expr, y: Expr) -> Expr:
    """`x op y` for an operator name, `op` with x and y filled in for an expression."""
    if op == "first":
        return x
    if op in ("min_number", "max_number", "add_sat"):
        return Call(str(op), (x, y))
    return Binary(op, x, y) if isinstance(op, str) else substitute(op, {"x": x, "y": y})


def is_unary(form: Form) -> bool:
    """Whether only `left` counts: the reduction of a single operand."""
    return form.times == "first" and not form.swapped


def cast(value: Expr, dtype: DType) -> Expr:
    return value if value.dtype == dtype else Cast(value, dtype)


def zero(form: Form) -> Expr:
    """The identity of plus."""
    return Const(form.zero, form.accumulator)


def product(form: Form, left: Expr, right: Expr) -> Expr:
    """left times right in the accumulator's type, in the order the user wrote them."""
    x, y = (cast(side, form.accumulator) for side in (left, right))
    return apply(form.times, y, x) if form.swapped else apply(form.times, x, y)


def combine(form: Form, total: Expr, left: Expr, right: Expr) -> Expr:
    """total plus (left times right), fused where the pair is a multiply-add."""
    fused = form.plus == "add" and form.times == "mul"
    if fused and (total.dtype.is_float or total.dtype.is_complex):
        x, y = (cast(side, form.accumulator) for side in (left, right))
        return Call("fma", (x, y, total))
    return apply(form.plus, total, product(form, left, right))


def scaled(form: Form, value: Expr) -> Expr:
    """alpha times a value of the accumulator's type, where the form scales."""
    if not form.scaled:
        return value
    return Binary("mul", Load("alpha", (), form.accumulator), value)


def start_from(form: Form, old: Expr) -> Expr:
    """What the accumulator holds before the first product, given the old element of out."""
    match form.initial:
        case Initial.ZERO:
            return zero(form)
        case Initial.OUT:
            return cast(old, form.accumulator)
        case Initial.SCALED:
            beta = Load("beta", (), form.accumulator)
            return Binary("mul", beta, cast(old, form.accumulator))
