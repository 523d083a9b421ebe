"""Whether a program has the same bits in every legal order of its loops.

Without `reassoc` every order takes sums as they are written, and each operation rounds once. One
freedom is left: a backend may round a product and the sum that uses it once, as a fused
multiply-add, and which products it fuses depends on the loops around (a product that is hoisted out
of a loop, or two products of one sum). So two plans of

    y[i] = a * x[i] + b * y[i]

may differ in the last bit. Where no product can reach a sum, there is nothing to fuse, and every
plan gives the same bits.
"""

from __future__ import annotations

from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary
from loopwright.ir.program import Program
from loopwright.ir.visit import walk

__all__ = ["has_fusable_products"]


def has_fusable_products(program: Program) -> bool:
    """Whether the value of some product may be a term of a sum of floating-point numbers.

    A product that is stored may be loaded by a sum: arrays that hold products are found first, up
    to the fixed point of copies between arrays.
    """
    holding: set[str] = set()
    while True:
        more = {s.write.array for s in program.statements if _is_product(s.value, holding)}
        if more <= holding:
            break
        holding |= more
    return any(
        _is_product(term, holding)
        for statement in program.statements
        for expr in walk(statement.value)
        for term in _terms(expr)
    )


def _terms(expr: Expr) -> tuple[Expr, ...]:
    """What a sum of floating-point numbers adds."""
    match expr:
        case Binary(op="add" | "sub", x=x, y=y) if _rounds(x):
            return x, y
    return ()


def _is_product(expr: Expr, holding: set[str]) -> bool:
    """Whether a value may be that of a product, unchanged but for its sign.

    A division by a constant may become a product, and so may a power.
    """
    match expr:
        case Binary(op="mul" | "pow"):
            return _rounds(expr)
        case Binary(op="div", y=Const()):
            return _rounds(expr)
        case Binary(op="min" | "max", x=x, y=y) | Select(x=x, y=y):
            return _is_product(x, holding) or _is_product(y, holding)
        case Unary(x=x) | Cast(x=x):
            return _is_product(x, holding)
        case Call(args=args):
            # Those that choose, as minima of numbers, hand a value on; others make new ones.
            return any(_is_product(arg, holding) for arg in args) or expr.function in _PRODUCTS
        case Load(array=array):
            return array in holding
    return False


_PRODUCTS = frozenset({"pow", "fma", "dot"})


def _rounds(expr: Expr) -> bool:
    return expr.dtype.is_float or expr.dtype.is_complex
