"""A contraction found in a program, with the sizes and strides of one call filled in."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from loopwright.ir.contraction import Contraction, LoopRange
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.expr import Binary, Const, Expr, Unary, Var
from loopwright.ir.program import Access

__all__ = ["contraction_shape", "value_of"]


_INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": min,
    "max": max,
}


def value_of(expr: Expr, values: Mapping[str, int]) -> int:
    """An integer expression over parameters and loops: sums, products and their like."""
    match expr:
        case Const(value=int(value)):
            return value
        case Var(name=name):
            return values[name]
        case Binary(op=op, x=x, y=y) if op in _INTEGER:
            return _INTEGER[op](value_of(x, values), value_of(y, values))
        case Unary(op="neg", x=x):
            return -value_of(x, values)
    from loopwright.ir.evaluate import evaluate  # lazy: sizes are hardly ever anything else

    return int(evaluate(expr, values))


def contraction_shape(
    contraction: Contraction,
    operands: tuple[Access, Access, Access],
    params: Mapping[str, int],
    strides: Mapping[str, tuple[int, ...]],
) -> ContractionShape:
    """The loops of a contraction as numbers; `operands` are left, right and out as they are stored.

    Subscripts are affine, so the stride along a loop is the difference of two addresses, whatever
    coefficients, diagonals and offsets the subscripts hold.
    """
    bundles = (contraction.batch, contraction.i, contraction.j, contraction.p)
    start = dict(params)
    for bundle in bundles:
        start.update((loop.name, value_of(loop.start, params)) for loop in bundle)

    def address(access: Access, at: Mapping[str, int]) -> int:
        steps = strides[access.array]
        return sum(value_of(x, at) * s for x, s in zip(access.index, steps, strict=True))

    bases = [address(access, start) for access in operands]

    def dim(loop: LoopRange) -> Dim:
        onward = {**start, loop.name: start[loop.name] + 1}
        extent = value_of(loop.stop, params) - start[loop.name]
        steps = (address(x, onward) - b for x, b in zip(operands, bases, strict=True))
        return Dim(max(extent, 0), *steps)

    batch, i, j, p = (tuple(dim(loop) for loop in bundle) for bundle in bundles)
    return ContractionShape(batch, i, j, p, bases=(bases[0], bases[1], bases[2]))
