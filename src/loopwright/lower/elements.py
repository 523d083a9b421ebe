"""Products without a reduction: outer products, elementwise products, copies and transpositions.

for g                                     every loop but the innermost, linearised
  for j                                   vectors; each operand runs, stands still or strides
    out[g, j] = initial plus left[g, j] times right[g, j]
"""

from __future__ import annotations

from loopwright.ir.expr import Const, Expr, Load, Var, cast
from loopwright.ir.kernel_variant import ContractionKernel, Initial, Packing
from loopwright.ir.loops import LoopNest, Mark, Stmt, Store
from loopwright.lower.build import lets, loop, seq, vector
from loopwright.lower.combine import apply, product, scaled, start_from
from loopwright.lower.operand_layout import table
from loopwright.lower.rows import arguments

__all__ = ["lower_elements"]

SCALARS = ("G", "N", "left_j", "right_j", "out_j", "left_g", "right_g", "out_g")
j, lane = Var("j"), Var("lane")


def lower_elements(kernel: ContractionKernel, name: str) -> LoopNest:
    """The LoopNest of a contraction of kind ELEMENTS.

    `left_packing` and `right_packing` say how an operand moves with j: ALONG_TILE by unit stride,
    DIRECT not at all, ANY by the stride of the launch. Out moves by unit stride when the form
    has more than one lane.
    """
    variant = kernel.variant
    bases = [(Var(f"{x}_base"), table(f"{x}_g", Var("g"))) for x in ("left", "right", "out")]
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
    body = loop(Var("g"), 0, Var("G"), lets(bases, seq(*parts)), mark=mark)
    return LoopNest(name, arguments(kernel), SCALARS, body)


def _element(kernel: ContractionKernel, at: Expr) -> Stmt:
    variant, algebra = kernel.variant, kernel.algebra
    left = Load("left", (_place("left", variant.left_packing, at),), kernel.left)
    right = Load("right", (_place("right", variant.right_packing, at),), kernel.right)
    moves = Packing.ALONG_TILE if variant.lanes > 1 else Packing.ANY
    out = (_place("out", moves, at),)
    value = scaled(kernel, product(kernel, left, right))
    if algebra.initial is not Initial.ZERO:
        value = apply(algebra.plus, start_from(kernel, Load("out", out, algebra.out)), value)
    return Store("out", out, cast(value, algebra.out))


def _place(name: str, moves: Packing, at: Expr) -> Expr:
    base: Expr = Var(f"{name}_base")
    if moves is Packing.DIRECT:
        return base
    return base + at if moves is Packing.ALONG_TILE else base + at * Var(f"{name}_j")
