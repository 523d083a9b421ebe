"""The arithmetic of a contraction's semiring: products, accumulation, initial values, scaling."""

from __future__ import annotations

from loopwright.ir.expr import Binary, Call, Const, Expr, Load, cast
from loopwright.ir.kernel_variant import ContractionKernel, Initial
from loopwright.ir.program import apply_operator

__all__ = ["apply", "combine", "is_unary", "product", "scaled", "start_from", "zero"]


def apply(op: str | Expr, x: Expr, y: Expr) -> Expr:
    """`x op y` for an operator name, `op` with x and y filled in for an expression."""
    if op == "first":
        return x
    if op in ("min_number", "max_number", "add_sat"):
        return Call(str(op), (x, y))
    return apply_operator(op, x, y)


def is_unary(kernel: ContractionKernel) -> bool:
    """Whether only `left` counts: the reduction of a single operand."""
    return kernel.algebra.times == "first" and not kernel.variant.swapped


def zero(kernel: ContractionKernel) -> Expr:
    """The identity of plus."""
    return Const(kernel.algebra.zero, kernel.algebra.accumulator)


def product(kernel: ContractionKernel, left: Expr, right: Expr) -> Expr:
    """left times right in the accumulator's type, in the order the user wrote them."""
    algebra = kernel.algebra
    x, y = (cast(side, algebra.accumulator) for side in (left, right))
    return apply(algebra.times, y, x) if kernel.variant.swapped else apply(algebra.times, x, y)


def combine(kernel: ContractionKernel, total: Expr, left: Expr, right: Expr) -> Expr:
    """total plus (left times right), fused where the pair is a multiply-add."""
    algebra = kernel.algebra
    fused = algebra.plus == "add" and algebra.times == "mul"
    if fused and (total.dtype.is_float or total.dtype.is_complex):
        x, y = (cast(side, algebra.accumulator) for side in (left, right))
        return Call("fma", (x, y, total))
    return apply(algebra.plus, total, product(kernel, left, right))


def scaled(kernel: ContractionKernel, value: Expr) -> Expr:
    """alpha times a value of the accumulator's type, where the kernel scales."""
    if not kernel.algebra.scaled:
        return value
    return Binary("mul", Load("alpha", (), kernel.algebra.accumulator), value)


def start_from(kernel: ContractionKernel, old: Expr) -> Expr:
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
