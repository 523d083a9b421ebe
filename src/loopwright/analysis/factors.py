"""The product inside an update: which two array elements are combined, and how they are prepared.

`alpha * A[i,k] * B[k,j]` has the factors `alpha * A[i,k]` and `B[k,j]`: everything that is done to
one element alone goes to its factor. A scalar outside the product, as in `(A * B) * alpha`, is
moved into a factor only where that keeps every bit or the program allows reassociation.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce

from loopwright.analysis.update import ASSOCIATIVE, is_reorderable, narrowed
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Unary
from loopwright.ir.program import Program
from loopwright.ir.visit import loads, rewrite
from loopwright.ir.visit import names as names_in

__all__ = ["Product", "elements", "factors", "loop_values"]


@dataclass(frozen=True, slots=True)
class Product:
    """`left times right`, each over one array element and scalars; right is None for one factor."""

    times: str
    left: Expr
    right: Expr | None


def elements(value: Expr, loops: Collection[str]) -> tuple[Load, ...]:
    """The distinct array elements of `value` that vary with the loops; other loads are scalars."""
    return tuple(x for x in loads(value) if names_in(x) & set(loops))


def loop_values(value: Expr, loops: Collection[str]) -> set[str]:
    """The loops whose variable is used as a value, outside of subscripts."""
    hollow = rewrite(value, lambda x: Const(0, x.dtype) if isinstance(x, Load) else x)
    return names_in(hollow) & set(loops)


def factors(program: Program, value: Expr, loops: Collection[str]) -> Product | str:
    """The product that `value` is, or the reason why it is none."""
    used = loop_values(value, loops)
    if used:
        return f"loop variable '{min(used)}' is used as a value"
    product = _product(program, narrowed(value), frozenset(loops))
    if product is not None:
        return product
    found = elements(value, loops)
    if len(found) == 1:
        return Product("mul", value, None)
    if not found:
        return "what is accumulated does not vary with the loops"
    match value:
        case Cast(x=Binary() as inner) if len(found) == 2:
            return (
                f"the product is formed in {inner.dtype} and only then converted to {value.dtype};"
                " convert the factors instead"
            )
    if len(found) == 2:
        names = f"'{found[0].array}' and '{found[1].array}'"
        return f"{names} are not combined by one operator as two factors"
    return f"{len(found)} array elements are combined, more than two"


def _product(program: Program, value: Expr, loops: frozenset[str]) -> Product | None:
    match value:
        case Binary(op=op, x=x, y=y):
            if len(elements(x, loops)) == 1 and len(elements(y, loops)) == 1:
                return Product(op, x, y)
            if op in ASSOCIATIVE and is_reorderable(op, value.dtype, program):
                return _grouped(op, _factors_of(op, value), loops)
        case Unary(op="neg", x=x):
            return _negated(_product(program, x, loops))
    return None


def _negated(product: Product | None) -> Product | None:
    """`-(left times right)` with the sign on the left factor: rounding is symmetric."""
    if product is None or product.right is None or product.times not in ("mul", "div"):
        return None
    return Product(product.times, Unary("neg", product.left), product.right)


def _factors_of(op: str, value: Expr) -> tuple[Expr, ...]:
    """The operands of nested applications of one operator."""
    match value:
        case Binary(op=other, x=x, y=y) if other == op:
            return _factors_of(op, x) + _factors_of(op, y)
        case Unary(op="neg", x=x) if op == "mul":
            first, *rest = _factors_of(op, x)
            return (Unary("neg", first), *rest)
    return (value,)


def _grouped(op: str, operands: tuple[Expr, ...], loops: frozenset[str]) -> Product | None:
    """Operands of an associative, commutative operator sorted by the array element they prepare."""
    groups: dict[Load, list[Expr]] = {}
    scalars: list[Expr] = []
    for operand in operands:
        found = elements(operand, loops)
        if len(found) > 1:
            return None
        (groups.setdefault(found[0], []) if found else scalars).append(operand)
    if len(groups) != 2:
        return None
    left, right = (reduce(lambda x, y: Binary(op, x, y), group) for group in groups.values())
    return Product(op, reduce(lambda x, y: Binary(op, y, x), scalars, left), right)
