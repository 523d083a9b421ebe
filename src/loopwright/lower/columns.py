"""Algorithm 7: i is empty, vectors run along j, several steps of p at a time.

    for jc step nc                            a block of out that stays in L1
      out[jc ...] = initial
      for p step R                            R rows of right, read side by side
        for j step lanes
          out[j ...] = out[j ...] plus left[p + r] times right[p + r, j ...]   for r < R

Each element of out sees the steps of p in their order: nothing is reassociated. Where it may be
(`apart`), p goes through K / R steps and row r lies r * K / R behind it: right is then read as R
streams that never break off, which caches follow better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopwright.ir.expr import Const, Expr, Load, Var, as_expr, cast
from loopwright.ir.kernel_variant import ContractionKernel, Packing
from loopwright.ir.loops import Alloc, Buffer, LoopNest, Mark, Prefetch, Space, Stmt, Store
from loopwright.lower.build import CACHE_LINE, lets, loop, seq, vector
from loopwright.lower.combine import combine, scaled, start_from
from loopwright.lower.operand_layout import table
from loopwright.lower.rows import arguments

__all__ = ["lower_columns"]

_TABLES = ("left_g", "right_g", "out_g", "right_j", "out_j", "left_p", "right_p")
SCALARS = ("G", "N", "K", "nc", *_TABLES)
j, jc, p, lane, nb = Var("j"), Var("jc"), Var("p"), Var("lane"), Var("nb")


def lower_columns(kernel: ContractionKernel, name: str) -> LoopNest:
    """The LoopNest of a contraction of kind COLUMNS."""
    variant = kernel.variant
    part = Var("K") // variant.rows
    whole = part * variant.rows

    def start(at: Expr, offset: Expr) -> Stmt:
        old = Load("out", (_out_at(kernel, at, offset),), kernel.algebra.out)
        return _put(kernel, at, offset, start_from(kernel, old))

    block = seq(
        _each_vector(kernel, 1, start),
        loop(p, 0, part, _sweep(kernel, variant.rows, part))
        if variant.apart
        else loop(p, 0, whole, _sweep(kernel, variant.rows), variant.rows),
        loop(p, whole, Var("K"), _sweep(kernel, 1)),
        _write_back(kernel),
    )
    mark = Mark.PARALLEL if variant.parallel == "j" else Mark.SERIAL
    blocks = loop(
        jc, 0, Var("N"), lets([(nb, (Var("N") - jc).min(Var("nc")))], block), Var("nc"), mark
    )
    bases = [(Var(f"{x}_base"), table(f"{x}_g", Var("g"))) for x in ("left", "right", "out")]
    batch = Mark.PARALLEL if variant.parallel == "batch" else Mark.SERIAL
    body = loop(Var("g"), 0, Var("G"), lets(bases, blocks), mark=batch)
    if _is_separate(kernel):
        sums = Buffer("sums", kernel.algebra.accumulator, (Const(1),), Space.PRIVATE)
        body = Alloc(sums, (Var("nc").min(Var("N")) + _apart(kernel),), body)
    return LoopNest(name, arguments(kernel), SCALARS, body)


def _is_separate(kernel: ContractionKernel) -> bool:
    """Whether sums have memory of their own: out has another type, or is swept often.

    Scratch memory lies in one large page, so that the sums of a block do not compete with each
    other for places of L1, as the scattered pages of out may.
    """
    return (
        kernel.algebra.accumulator != kernel.algebra.out
        or kernel.variant.rows == 1
        or kernel.variant.apart
    )


def _each_vector(
    kernel: ContractionKernel,
    count: int,
    make: Callable[[Expr, Expr], Stmt],
    hints: Sequence[Stmt] = (),
) -> Stmt:
    """Loops over the block: `count` vectors at a time, single vectors, single elements."""
    lanes = kernel.variant.lanes
    chunk = count * lanes
    many, some = nb // chunk * chunk, nb // lanes * lanes
    parts: list[Stmt] = [
        loop(
            j,
            0,
            many,
            seq(*hints, *(vector(lane, lanes, make(j + v * lanes, lane)) for v in range(count))),
            chunk,
        )
    ]
    if count > 1:
        parts.append(loop(j, many, some, vector(lane, lanes, make(j, lane)), lanes))
    if lanes > 1:
        parts.append(loop(j, some, nb, make(j, Const(0))))
    return seq(*parts)


def _out_at(kernel: ContractionKernel, at: Expr, offset: Expr) -> Expr:
    step = jc + at if kernel.variant.right_packing is Packing.DIRECT else table("out_j", jc + at)
    return Var("out_base") + step + offset


def _apart(kernel: ContractionKernel) -> int:
    """Where the sums begin in their memory, which begins with a page.

    So do large operands. A load waits for older stores to the same place of another page, so that
    sums half a page away are faster by a fifth (measured, N1).
    """
    return 2048 // kernel.algebra.accumulator.bytes


def _sum(kernel: ContractionKernel, at: Expr, offset: Expr) -> Expr:
    return Load("sums", (at + offset + _apart(kernel),), kernel.algebra.accumulator)


def _get(kernel: ContractionKernel, at: Expr, offset: Expr) -> Expr:
    if _is_separate(kernel):
        return _sum(kernel, at, offset)
    return Load("out", (_out_at(kernel, at, offset),), kernel.algebra.out)


def _put(kernel: ContractionKernel, at: Expr, offset: Expr, value: Expr) -> Stmt:
    if _is_separate(kernel):
        return Store("sums", (at + offset + _apart(kernel),), value)
    return Store("out", (_out_at(kernel, at, offset),), value)


def _write_back(kernel: ContractionKernel) -> Stmt:
    if not _is_separate(kernel):
        return seq()

    def store(at: Expr, offset: Expr) -> Stmt:
        value = cast(_sum(kernel, at, offset), kernel.algebra.out)
        return Store("out", (_out_at(kernel, at, offset),), value)

    return _each_vector(kernel, 1, store)


def _sweep(kernel: ContractionKernel, count: int, distance: Expr | int = 1) -> Stmt:
    """Add `count` steps of p, `distance` from each other, to the whole block."""
    variant, algebra = kernel.variant, kernel.algebra
    starts = []
    for r in range(count):
        step = p + r * as_expr(distance)
        starts.append((Var(f"right_row{r}"), Var("right_base") + table("right_p", step)))
        starts.append((Var(f"left_at{r}"), Var("left_base") + table("left_p", step)))
    dtype = algebra.accumulator if algebra.scaled else kernel.left
    factors = Buffer("factors", dtype, (Const(variant.lanes), Const(1)), Space.REGISTER)
    fill = []
    for r in range(count):
        left = cast(Load("left", (Var(f"left_at{r}"),), kernel.left), dtype)
        store = Store("factors", (Const(r), lane), scaled(kernel, left))
        fill.append(vector(lane, variant.lanes, store))
    # Of a single operand that is read as right, left does not count: alpha goes to right.
    scales_right = algebra.scaled and algebra.times == "first" and variant.swapped

    def update(at: Expr, offset: Expr) -> Stmt:
        total = _get(kernel, at, offset)
        for r in range(count):
            step = jc + at if variant.right_packing is Packing.DIRECT else table("right_j", jc + at)
            right: Expr = Load("right", (Var(f"right_row{r}") + step + offset,), kernel.right)
            if scales_right:
                right = scaled(kernel, cast(right, algebra.accumulator))
            total = combine(kernel, total, Load("factors", (Const(r), offset), dtype), right)
        return _put(kernel, at, offset, total)

    def ahead() -> list[Stmt]:
        """Ask for what every row will be read for soon, a line at a time."""
        if not variant.ahead or variant.right_packing is not Packing.DIRECT:
            return []
        line = max(1, CACHE_LINE // kernel.right.bytes)
        return [
            Prefetch("right", (Var(f"right_row{r}") + jc + j + variant.ahead + offset,))
            for r in range(count)
            for offset in range(0, variant.vectors * variant.lanes, line)
        ]

    shape = (Const(count), Const(variant.lanes))
    sweep = _each_vector(kernel, variant.vectors, update, ahead())
    return lets(starts, Alloc(factors, shape, seq(*fill, sweep)))
