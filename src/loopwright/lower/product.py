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

Bundles are linear loops here: element (i, p) of left lies at left_i[i] + left_p[p], offsets that
tables of the launch hold. So tensors of any rank are read as matrices without being moved.
"""

from __future__ import annotations

from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.form import Feed, Form, Packing
from loopwright.ir.loops import Alloc, Barrier, Buffer, LoopNest, Mark, Space, Stmt
from loopwright.lower.build import lets, loop, nothing, seq
from loopwright.lower.packing import depth, left_panels, right_panels, table
from loopwright.lower.rows import arguments
from loopwright.lower.tile import register_tiles

__all__ = ["SCALARS", "TABLES", "lower_product"]

# Offset tables of each linear index in each operand. They follow one another in the buffer
# `table`; the launch value of the same name says where each begins.
TABLES = (
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
SCALARS = ("G", "M", "N", "K", "mc", "nc", "kc", "right_step", "left_w", "right_w", *TABLES)


def lower_product(form: Form, name: str) -> LoopNest:
    """The LoopNest of a contraction of kind PRODUCT."""
    g, jc, pc, ic = (Var(x) for x in ("g", "jc", "pc", "ic"))
    M, N, K = (Var(x) for x in ("M", "N", "K"))
    mc, nc, kc = (Var(x) for x in ("mc", "nc", "kc"))

    def share(bundle: str) -> Mark:
        return Mark.PARALLEL if form.parallel == bundle else Mark.SERIAL

    packs_left = form.left_packing is not Packing.DIRECT
    rows = seq(left_panels(form) if packs_left else nothing, register_tiles(form))
    blocks = loop(ic, 0, M, lets([(Var("mb"), (M - ic).min(mc))], rows), mc, share("i"))
    if form.right_packing is not Packing.DIRECT:
        # With i shared out, all threads fill the block together and use it together.
        wait = Barrier() if form.parallel == "i" else nothing
        blocks = seq(right_panels(form, share("i")), wait, blocks, wait)
    steps = loop(pc, 0, K, lets([(Var("kb"), (K - pc).min(kc))], blocks), kc)
    columns = loop(jc, 0, N, lets([(Var("nb"), (N - jc).min(nc))], steps), nc, share("j"))
    bases = [(Var(f"{x}_base"), table(f"{x}_g", g)) for x in ("left", "right", "out")]
    body = loop(g, 0, Var("G"), lets(bases, columns), mark=share("batch"))
    return LoopNest(name, arguments(form), SCALARS, _with_packed(form, body))


def _with_packed(form: Form, body: Stmt) -> Stmt:
    """Scratch memory for the packed blocks, padded to whole panels."""
    steps = depth(form.group, Var("kc").min(Var("K")))
    if form.right_packing is not Packing.DIRECT:
        space = Space.SCRATCH if form.parallel == "i" else Space.PRIVATE
        panels = _padded(Var("nc").min(Var("N")), form.columns)
        buffer = Buffer("right_packed", form.packed(form.right), (Const(1),), space)
        body = Alloc(buffer, (panels * steps,), body)
    if form.left_packing is not Packing.DIRECT:
        panels = _padded(Var("mc").min(Var("M")), form.rows)
        copies = form.lanes if form.feed is Feed.REPLICATED else 1
        buffer = Buffer("left_packed", form.packed(form.left), (Const(1),), Space.PRIVATE)
        body = Alloc(buffer, (panels * steps * copies,), body)
    return body


def _padded(count: Expr, panel: int) -> Expr:
    """`count` rounded up to whole panels."""
    return (count + (panel - 1)) // panel * panel
