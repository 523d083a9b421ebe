"""Algorithm 6: the generalised matrix product as a LoopNest.

    for g in batch
      for jc step nc                          columns of out that share one packed block of right
        for pc step kc
          pack right[pc.., jc..]              into panels of N_r columns
          for ic step mc
            pack left[ic.., pc..]             into panels of M_r rows
            for jr step N_r
              for ir step M_r
                tile of M_r x N_r accumulators over p

Bundles are linear loops here: element (i, p) of left lies at i * left_i + p * left_p, or, where a
bundle has several loops, at offsets that tables of the launch hold. So tensors of any rank are read
as matrices without being moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.kernel_variant import Broadcast, ContractionKernel, Packing
from loopwright.ir.loops import Alloc, Barrier, Buffer, If, LoopNest, Mark, Space, Stmt
from loopwright.lower.build import lets, loop, nothing, seq
from loopwright.lower.contraction_nests.combine import BIAS, column_bias
from loopwright.lower.contraction_nests.matrix_vector import arguments
from loopwright.lower.contraction_nests.operand_layout import (
    InMemory,
    Layout,
    base_bindings,
    place_scalars,
)
from loopwright.lower.contraction_nests.operand_scan import (
    allows_quick_kernel,
    joins_by,
    look_through,
    passing_kernel,
    quick_kernel,
    with_bits,
)
from loopwright.lower.contraction_nests.packing import left_panels, pitch, planes, right_panels
from loopwright.lower.contraction_nests.tile import register_tiles
from loopwright.lower.work_distribution import snake_distribution

__all__ = ["block_loops", "lower_product"]

_PLACES = (
    "left_g",
    "right_g",
    "out_g",
    "left_i",
    "out_i",
    "right_j",
    "out_j",
    "left_p",
    "right_p",
)
_SCALARS = (
    *("G", "M", "N", "K", "mc", "nc", "kc", "right_step"),
    *("left_w", "right_w", "left_v", "right_v"),
)


def lower_product(kernel: ContractionKernel, name: str, *, halves: bool = True) -> LoopNest:
    """The LoopNest of a contraction of kind PRODUCT; `halves`: see register_tiles."""
    mark = Mark.PARALLEL if kernel.variant.parallel == "batch" else Mark.SERIAL
    blocks = block_loops(kernel, InMemory(kernel), halves=halves)
    scalars = *_SCALARS, *place_scalars(kernel, _PLACES)
    body = loop(Var("g"), 0, Var("G"), lets(base_bindings(kernel), blocks), mark=mark)
    return LoopNest(name, arguments(kernel), scalars, _with_packed(kernel, body))


def block_loops(
    kernel: ContractionKernel,
    layout: Layout,
    *,
    halves: bool = True,
    shares: int = 1,
    around: Callable[[Stmt], Stmt] = lambda block: block,
    kept: Collection[str] = (),
) -> Stmt:
    """The loops over blocks and what they hold, for sizes M, N, K and mc, nc, kc in scope.

    With several `shares` blocks are dealt out to that many turns for threads: those of columns to
    `column_deal` hands, which is in scope too, those of rows to shares / column_deal. `around` is
    put around the body of the loop over columns; `halves`: see register_tiles. Panels that are
    `kept` were packed already where `before`, which is in scope too, is more than 0.
    """
    variant = kernel.variant
    jc, pc, ic = (Var(x) for x in ("jc", "pc", "ic"))
    M, N, K = (Var(x) for x in ("M", "N", "K"))
    mc, nc, kc = (Var(x) for x in ("mc", "nc", "kc"))

    def share(bundle: str) -> Mark:
        return Mark.PARALLEL if variant.parallel == bundle else Mark.SERIAL

    def looked(name: str) -> list[Stmt]:
        return [look_through(name, kernel)] if variant.guarded else []

    passing = passing_kernel(kernel)
    joins = None if passing is None else joins_by(kernel)
    tiles = register_tiles(passing or kernel, layout, halves=halves, joins=joins)
    if variant.guarded:
        quick = register_tiles(quick_kernel(kernel), layout, halves=halves, joins=joins_by(kernel))
        # A NaN is rare, so its tiles need no halves; numbers of both signs are not.
        if kernel.algebra.accumulator.is_float:
            tiles = register_tiles(kernel, layout, halves=False)
        tiles = If(allows_quick_kernel(), quick, tiles)
    rows = seq(_packed_left(kernel, layout, shares, kept), *looked("left"), tiles)
    for clip in layout.clips:
        # Blocks without an element that counts need no panels either.
        corners = (ic, ic + Var("mb") - 1), (jc, jc + Var("nb") - 1)
        rows = If(clip.holds_for_some(*corners), rows)
    for step_clip in layout.step_clips:
        edge = pc + Var("kb") - 1 if step_clip.p > 0 else pc
        rows = If(step_clip.holds((ic, ic + Var("mb") - 1)[step_clip.i > 0], edge), rows)
    rows = lets([(Var("mb"), (M - ic).min(mc))], rows)
    turn, column_deal = Var("turn"), Var("column_deal")
    if shares == 1:
        blocks = loop(ic, 0, M, rows, mc, share("i"))
    else:
        row_deal = Const(shares) // column_deal
        blocks = snake_distribution(ic, M, mc, turn // column_deal, row_deal, rows)
    if variant.right_packing is not Packing.DIRECT:
        # With i shared out, all threads fill the block together and use it together.
        wait = Barrier() if variant.parallel == "i" else nothing
        bias = column_bias(kernel) if variant.flipped else nothing
        fill = right_panels(kernel, layout, share("i"))
        if "right_packed" in kept:
            is_one_block = Binary("and", Var("N") <= Var("nc"), Var("K") <= Var("kc"))
            fill = If(Binary("and", Var("before") > 0, is_one_block), nothing, fill)
        blocks = seq(fill, wait, bias, *looked("right"), blocks, wait)
    steps = loop(pc, 0, K, lets([(Var("kb"), (K - pc).min(kc))], blocks), kc)
    if variant.guarded:
        steps = with_bits(steps)
    body = around(lets([(Var("nb"), (N - jc).min(nc))], steps))
    if shares == 1:
        return loop(jc, 0, N, body, nc, share("j"))
    mine = snake_distribution(jc, N, nc, turn % column_deal, column_deal, body)
    return loop(turn, 0, shares, mine, mark=share("j"))


def _packed_left(
    kernel: ContractionKernel, layout: Layout, shares: int, kept: Collection[str]
) -> Stmt:
    """The panels of left for a block, unless they are there already.

    Where left is one block, every block of columns finds what the first one packed. Threads that
    share columns have no first block in common, and clips may leave the first one out.
    """
    if kernel.variant.left_packing is Packing.DIRECT:
        return nothing
    panels = left_panels(kernel, layout)
    if kernel.variant.parallel in ("i", "j") or shares > 1 or layout.clips or layout.step_clips:
        return panels
    is_one_block = Binary("and", Var("M") <= Var("mc"), Var("K") <= Var("kc"))
    is_packed = Var("jc") > 0
    if "left_packed" in kept:
        is_packed = Binary("or", is_packed, Var("before") > 0)
    return If(Binary("and", is_packed, is_one_block), nothing, panels)


def _with_packed(kernel: ContractionKernel, body: Stmt) -> Stmt:
    """Scratch memory for the packed blocks, padded to whole panels."""
    variant = kernel.variant
    steps = pitch(Var("kc").min(Var("K")))
    if variant.right_packing is not Packing.DIRECT:
        space = Space.SCRATCH if variant.parallel == "i" else Space.PRIVATE
        panels = _padded(Var("nc").min(Var("N")), variant.columns)
        in_planes = planes(kernel, "right")
        buffer = Buffer("right_packed", kernel.packed_right, (Const(1),), space, planes=in_planes)
        body = Alloc(buffer, (panels * steps,), body)
        if variant.flipped:
            buffer = Buffer(BIAS, kernel.algebra.accumulator, (Const(1),), Space.PRIVATE)
            body = Alloc(buffer, (panels,), body)
    if variant.left_packing is not Packing.DIRECT:
        panels = _padded(Var("mc").min(Var("M")), variant.rows)
        copies = variant.lanes if variant.broadcast is Broadcast.REPLICATED else 1
        in_planes = planes(kernel, "left")
        buffer = Buffer(
            "left_packed", kernel.packed_left, (Const(1),), Space.PRIVATE, planes=in_planes
        )
        body = Alloc(buffer, (panels * steps * copies,), body)
    return body


def _padded(count: Expr, panel: int) -> Expr:
    """`count` rounded up to whole panels."""
    return (count + (panel - 1)) // panel * panel
