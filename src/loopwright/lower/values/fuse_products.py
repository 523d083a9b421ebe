"""Products fused with the sums that they are written in, for compilers that are told to fuse none.

    x + a * b, a * b + x  ->  fma(a, b, x)          a * b + c * d  ->  fma(c, d, a * b)
    x - a * b             ->  fma(-a, b, x)         a * b - x      ->  fma(a, b, -x)

Machine code rounds such sums once by this rule of the expression alone (ADR 55). Written out in a
nest, the rule holds for any compiler that fuses nothing by itself.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import Binary, Call, Expr, Unary
from loopwright.ir.fused_sums import factors, rounds
from loopwright.ir.loops import LoopNest
from loopwright.ir.visit import rebuild, rewrite

__all__ = ["fuse_products"]


def fuse_products(nest: LoopNest) -> LoopNest:
    """The nest with every sum of real numbers and a product as a fused product."""
    body = rebuild(nest.body, expression=lambda expr: rewrite(expr, _fused))
    return replace(nest, body=body)


def _fused(expr: Expr) -> Expr:
    """A sum whose parts are fused already, with its product; of two the second one."""
    match expr:
        case Binary(op="add" | "sub" as op, x=x, y=y) if rounds(expr.dtype):
            pass
        case _:
            return expr
    if (found := factors(y)) is not None:
        factor, other, is_negative = found
        factor = factor if (op == "add") != is_negative else Unary("neg", factor)
        return Call("fma", (factor, other, x))
    if (found := factors(x)) is not None:
        factor, other, is_negative = found
        factor = Unary("neg", factor) if is_negative else factor
        return Call("fma", (factor, other, y if op == "add" else Unary("neg", y)))
    return expr
