"""Products without a reduction: outer products, elementwise products, copies and transpositions.

for g                                     every loop but the innermost, linearised
  for j                                   vectors; each operand runs, stands still or strides
    out[g, j] = initial plus left[g, j] times right[g, j]
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.contraction import LoopRange
from loopwright.ir.expr import Const, Expr, Load, Var, cast
from loopwright.ir.kernel_variant import ContractionKernel, Initial, Packing
from loopwright.ir.loops import Buffer, For, LoopNest, Mark, Stmt, Store
from loopwright.ir.program import Access, Array
from loopwright.ir.visit import loads
from loopwright.lower.buffers import stride_name
from loopwright.lower.build import lets, loop, seq, vector
from loopwright.lower.contraction_nests.combine import apply, combine, product, scaled, start_from
from loopwright.lower.contraction_nests.matrix_vector import arguments
from loopwright.lower.contraction_nests.operand_layout import base_bindings, place_scalars
from loopwright.lower.vectorize import vectorize

__all__ = ["lower_elements", "lower_elementwise"]

_SCALARS = ("G", "N", "left_j", "right_j", "out_j")
j, lane = Var("j"), Var("lane")


def lower_elements(kernel: ContractionKernel, name: str) -> LoopNest:
    """The LoopNest of a contraction of kind ELEMENTS.

    `left_packing` and `right_packing` say how an operand moves with j: ALONG_TILE by unit stride,
    DIRECT not at all, ANY by the stride of the launch. Out moves by unit stride when the form
    has more than one lane.
    """
    variant = kernel.variant
    lanes, chunk = variant.lanes, variant.columns
    many, some = Var("N") // chunk * chunk, Var("N") // lanes * lanes
    parts: list[Stmt] = []
    if lanes > 1:
        wide = [
            vector(lane, lanes, _element(kernel, j + v * lanes + lane))
            for v in range(variant.vectors)
        ]
        parts.append(loop(j, 0, many, seq(*wide), chunk))
        parts.append(loop(j, many, some, vector(lane, lanes, _element(kernel, j + lane)), lanes))
    else:
        some = Const(0)
    parts.append(loop(j, some, Var("N"), _element(kernel, j)))
    mark = Mark.PARALLEL if variant.parallel == "batch" else Mark.SERIAL
    body = loop(Var("g"), 0, Var("G"), lets(base_bindings(kernel), seq(*parts)), mark=mark)
    scalars = *_SCALARS, *place_scalars(kernel, ("left_g", "right_g", "out_g"))
    return LoopNest(name, arguments(kernel), scalars, body)


def _element(kernel: ContractionKernel, at: Expr) -> Stmt:
    variant, algebra = kernel.variant, kernel.algebra
    left = Load("left", (_place("left", variant.left_packing, at),), kernel.left)
    right = Load("right", (_place("right", variant.right_packing, at),), kernel.right)
    moves = Packing.ALONG_TILE if variant.lanes > 1 else Packing.ANY
    out = (_place("out", moves, at),)
    return Store(
        "out", out, cast(_value(kernel, Load("out", out, algebra.out), left, right), algebra.out)
    )


def _value(kernel: ContractionKernel, old: Expr, left: Expr, right: Expr) -> Expr:
    """What is stored: the product, or the old element plus it, rounded as often as by loops."""
    algebra = kernel.algebra
    if algebra.initial is not Initial.ZERO and not algebra.scaled:
        return combine(kernel, start_from(kernel, old), left, right)
    value = scaled(kernel, product(kernel, left, right))
    if algebra.initial is Initial.ZERO:
        return value
    return apply(algebra.plus, start_from(kernel, old), value)


def _place(name: str, moves: Packing, at: Expr) -> Expr:
    base: Expr = Var(f"{name}_base")
    if moves is Packing.DIRECT:
        return base
    return base + at if moves is Packing.ALONG_TILE else base + at * Var(f"{name}_j")


# -- elementwise assignments as a LoopNest: prologues and epilogues around a contraction ----------


def lower_elementwise(
    name: str,
    loops: Sequence[LoopRange],
    target: Access,
    value: Expr,
    arrays: Sequence[Array],
    params: Sequence[str],
    lanes: int,
) -> LoopNest:
    """`target = value` for every point of the loops, the last one in vectors.

    `value` reads any of `arrays`, and of the target's array at most the element it writes, so all
    points are independent.
    """
    body: Stmt = Store(target.array, target.index, value)
    for depth, around in enumerate(reversed(loops)):
        mark = Mark.VECTOR if depth == 0 else Mark.SERIAL
        body = For(around.name, around.start, around.stop, body, Const(1), mark)
    used = {target.array, *(x.array for x in loads(value))}
    kept = [a for a in arrays if a.name in used]
    buffers = tuple(
        Buffer(
            a.name,
            a.dtype,
            tuple(Var(stride_name(a.name, d)) for d in range(a.rank)),
            writable=a.name == target.array,
        )
        for a in kept
    )
    strides = (stride_name(a.name, d) for a in kept for d in range(a.rank))
    nest = LoopNest(name, buffers, (*params, *strides), body)
    return vectorize(nest, {loops[-1].name: lanes}) if loops else nest
