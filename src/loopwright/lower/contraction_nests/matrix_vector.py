"""The generalised product of a matrix and a vector, by rows or by columns.

Rows (algorithm 8, and dot products): j is empty, vectors run along the reduction.

    let H = M / M_r, rounded up              rows that share each vector of right lie H apart
    for i < H
      for p step lanes * U * T               U vectors of accumulators per row, each used T times
        sums[r, u] = sums[r, u] plus left[i + r * H, p ...] times right[p ...]
      out[i + r * H] = initial plus the sum over lanes and vectors

So left is read as M_r streams that never break off, which caches follow better than rows side by
side: two of them get 15% more from L3 (measured, N1).

Lanes hold partial sums, so the reduction must be free to be reassociated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Const, Expr, Load, Var, as_expr, cast
from loopwright.ir.kernel_variant import ContractionKernel, Initial, Packing
from loopwright.ir.loops import (
    Alloc,
    Buffer,
    If,
    LoopNest,
    Mark,
    Prefetch,
    Space,
    Stmt,
    Store,
)
from loopwright.lower.build import CACHE_LINE, lets, loop, seq, unrolled, vector
from loopwright.lower.contraction_nests.combine import (
    apply,
    combine,
    is_unary,
    scaled,
    start_from,
    zero,
)
from loopwright.lower.contraction_nests.operand_layout import (
    base_bindings,
    offset_of,
    place_scalars,
)
from loopwright.lower.contraction_nests.operand_scan import passing_kernel

__all__ = ["lower_columns", "lower_rows"]

_ROW_PLACES = ("left_g", "right_g", "out_g", "left_i", "out_i", "left_p", "right_p")
ir, p, lane, part = Var("ir"), Var("p"), Var("lane"), Var("part")
apart = Var("apart")  # from a row to the next one of its group


def lower_rows(kernel: ContractionKernel, name: str) -> LoopNest:
    """The LoopNest of a contraction of kind ROWS."""
    variant = kernel.variant
    mark = Mark.PARALLEL if variant.parallel == "i" else Mark.SERIAL
    part_of_rows = (Var("M") + (variant.rows - 1)) // variant.rows
    group = lets([(apart, part_of_rows)], loop(ir, 0, apart, _group(kernel), mark=mark))
    packs = variant.right_packing is Packing.ANY and not is_unary(kernel)
    if packs:
        group = seq(_gather_right(kernel), group)
    batch = Mark.PARALLEL if variant.parallel == "batch" else Mark.SERIAL
    body = loop(Var("g"), 0, Var("G"), lets(base_bindings(kernel), group), mark=batch)
    if packs:
        packed = Buffer("right_packed", kernel.right, (Const(1),), Space.PRIVATE)
        body = Alloc(packed, (Var("K"),), body)
    scalars = "G", "M", "K", *place_scalars(kernel, _ROW_PLACES)
    return LoopNest(name, arguments(kernel), scalars, body)


def arguments(kernel: ContractionKernel) -> tuple[Buffer, ...]:
    """The array arguments: out, left, right, tables, alpha and beta where they are in use."""
    algebra = kernel.algebra
    one = (Const(1),)
    found = [
        Buffer("out", algebra.out, one, writable=True),
        Buffer("left", kernel.left, one),
        Buffer("right", kernel.right, one),
        Buffer("table", INT64, one, Space.TABLE),
    ]
    if algebra.scaled:
        found.append(Buffer("alpha", algebra.accumulator, ()))
    if algebra.initial is Initial.SCALED:
        found.append(Buffer("beta", algebra.accumulator, ()))
    return tuple(found)


def _gather_right(kernel: ContractionKernel) -> Stmt:
    """Copy right into the order of p, once for all rows."""
    at = Var("right_base") + offset_of(kernel, "right", "p", Var("pack_p"))
    copy = Store("right_packed", (Var("pack_p"),), Load("right", (at,), kernel.right))
    return loop(Var("pack_p"), 0, Var("K"), copy)


def _group(kernel: ContractionKernel) -> Stmt:
    """M_r rows together. Rows beyond the edge repeat the last one and are not stored."""
    variant = kernel.variant
    starts = []
    for r in range(variant.rows):
        i = (ir + apart * r).min(Var("M") - 1)
        starts.append((Var(f"left_row{r}"), Var("left_base") + offset_of(kernel, "left", "i", i)))
    shape = (Const(variant.rows), Const(variant.vectors), Const(variant.lanes))
    strides = (Const(variant.columns), Const(variant.lanes), Const(1))
    sums = Buffer("sums", kernel.algebra.accumulator, strides, Space.REGISTER)
    tails = Buffer("tails", kernel.algebra.accumulator, (Const(1), Const(1)), Space.REGISTER)
    here = (Var("row"), part, lane)
    clear = unrolled(
        Var("row"),
        variant.rows,
        seq(
            Store("tails", (Var("row"), Const(0)), zero(kernel)),
            unrolled(
                part,
                variant.vectors,
                vector(lane, variant.lanes, Store("sums", here, zero(kernel))),
            ),
        ),
    )
    chunk = variant.columns * variant.unroll
    whole, vectors = (
        Var("K") // chunk * chunk,
        Var("K") // variant.lanes * variant.lanes,
    )
    terms = passing_kernel(kernel) or kernel
    body = seq(
        clear,
        loop(p, 0, whole, _step(terms, variant.vectors * variant.unroll), chunk),
        loop(p, whole, vectors, _step(terms, 1), variant.lanes),
        loop(p, vectors, Var("K"), _single(terms)) if variant.lanes > 1 else _nothing(),
        *(_finish(kernel, r) for r in range(variant.rows)),
    )
    allocated = Alloc(sums, shape, Alloc(tails, (Const(variant.rows), Const(1)), body))
    return lets(starts, allocated)


def _nothing() -> Stmt:
    return seq()


def _left(kernel: ContractionKernel, r: int, at: Expr, offset: Expr) -> Expr:
    step = (
        at if kernel.variant.left_packing is Packing.DIRECT else offset_of(kernel, "left", "p", at)
    )
    return Load("left", (Var(f"left_row{r}") + step + offset,), kernel.left)


def _right(kernel: ContractionKernel, at: Expr, offset: Expr) -> Expr:
    match kernel.variant.right_packing:
        case Packing.DIRECT:
            return Load("right", (Var("right_base") + at + offset,), kernel.right)
        case Packing.STRIDED:  # one lane
            place = Var("right_base") + offset_of(kernel, "right", "p", at)
            return Load("right", (place,), kernel.right)
    return Load("right_packed", (at + offset,), kernel.right)


def _step(kernel: ContractionKernel, count: int) -> Stmt:
    """`count` vectors of p for every row; right is read once for all rows."""
    variant = kernel.variant
    factors = Buffer("factors", kernel.right, (Const(variant.lanes), Const(1)), Space.REGISTER)
    parts: list[Stmt] = list(_prefetch(kernel, count))
    for u in range(0 if is_unary(kernel) else count):
        at = p + u * variant.lanes
        parts.append(
            vector(
                lane,
                variant.lanes,
                Store("factors", (Const(u), lane), _right(kernel, at, lane)),
            )
        )
    for u in range(count):
        at = p + u * variant.lanes
        for r in range(variant.rows):
            here = (Const(r), Const(u % variant.vectors), lane)
            left = _left(kernel, r, at, lane)
            right = left if is_unary(kernel) else Load("factors", (Const(u), lane), kernel.right)
            value = combine(kernel, Load("sums", here, kernel.algebra.accumulator), left, right)
            parts.append(vector(lane, variant.lanes, Store("sums", here, value)))
    return Alloc(factors, (Const(count), Const(variant.lanes)), seq(*parts))


def _prefetch(kernel: ContractionKernel, count: int) -> Iterator[Stmt]:
    """Ask for each row's elements `ahead` steps from here, a line at a time."""
    variant = kernel.variant
    if not variant.ahead or count == 1 or variant.left_packing is not Packing.DIRECT:
        return
    line = max(1, CACHE_LINE // kernel.left.bytes)
    for r in range(variant.rows):
        for offset in range(0, count * variant.lanes, line):
            yield Prefetch("left", (Var(f"left_row{r}") + p + variant.ahead + offset,))


def _single(kernel: ContractionKernel) -> Stmt:
    """One p at a time, for what does not fill a vector."""
    parts = []
    for r in range(kernel.variant.rows):
        here = (Const(r), Const(0))
        value = combine(
            kernel,
            Load("tails", here, kernel.algebra.accumulator),
            _left(kernel, r, p, Const(0)),
            _left(kernel, r, p, Const(0)) if is_unary(kernel) else _right(kernel, p, Const(0)),
        )
        parts.append(Store("tails", here, value))
    return seq(*parts)


def _finish(kernel: ContractionKernel, r: int) -> Stmt:
    """Fold the vectors, then the lanes, then the tail of row r, and store it."""
    variant, algebra = kernel.variant, kernel.algebra
    folds = []
    for u in range(1, variant.vectors):
        here, other = (Const(r), Const(0), lane), (Const(r), Const(u), lane)
        value = apply(
            algebra.plus,
            Load("sums", here, algebra.accumulator),
            Load("sums", other, algebra.accumulator),
        )
        folds.append(vector(lane, variant.lanes, Store("sums", here, value)))
    terms: list[Expr] = [
        Load("sums", (Const(r), Const(0), Const(k)), algebra.accumulator)
        for k in range(variant.lanes)
    ]
    if variant.lanes > 1:
        terms.append(Load("tails", (Const(r), Const(0)), algebra.accumulator))
    while len(terms) > 1:
        pairs = [apply(algebra.plus, *terms[k : k + 2]) for k in range(0, len(terms) - 1, 2)]
        terms = pairs + terms[len(pairs) * 2 :]
    row = ir + apart * r
    at = Var("out_base") + offset_of(kernel, "out", "i", row)
    total = scaled(kernel, terms[0])
    if algebra.initial is not Initial.ZERO:
        total = apply(algebra.plus, start_from(kernel, Load("out", (at,), algebra.out)), total)
    return If(row < Var("M"), seq(*folds, Store("out", (at,), cast(total, algebra.out))))


# -- algorithm 7: i is empty, vectors run along j, several steps of p at a time -------------------
#     for jc step nc                            a block of out that stays in L1
#       out[jc ...] = initial
#       for p step R                            R rows of right, read side by side
#         for j step lanes
#           out[j ...] = out[j ...] plus left[p + r] times right[p + r, j ...]   for r < R
#
# Each element of out sees the steps of p in their order: nothing is reassociated. Where it may be
# (`apart`), p goes through K / R steps and row r lies r * K / R behind it: right is then read as R
# streams that never break off, which caches follow better.


_COLUMN_PLACES = ("left_g", "right_g", "out_g", "right_j", "out_j", "left_p", "right_p")
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
    batch = Mark.PARALLEL if variant.parallel == "batch" else Mark.SERIAL
    body = loop(Var("g"), 0, Var("G"), lets(base_bindings(kernel), blocks), mark=batch)
    if _is_separate(kernel):
        sums = Buffer("sums", kernel.algebra.accumulator, (Const(1),), Space.PRIVATE)
        body = Alloc(sums, (Var("nc").min(Var("N")) + _apart(kernel),), body)
    scalars = "G", "N", "K", "nc", *place_scalars(kernel, _COLUMN_PLACES)
    return LoopNest(name, arguments(kernel), scalars, body)


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
    return Var("out_base") + _along_j(kernel, "out", at) + offset


def _along_j(kernel: ContractionKernel, operand: str, at: Expr) -> Expr:
    """Where element `at` of a block lies from the first of its row."""
    place = jc + at
    if kernel.variant.right_packing is Packing.DIRECT:
        return place
    return offset_of(kernel, operand, "j", place)


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
        starts.append(
            (Var(f"right_row{r}"), Var("right_base") + offset_of(kernel, "right", "p", step))
        )
        starts.append((Var(f"left_at{r}"), Var("left_base") + offset_of(kernel, "left", "p", step)))
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
            step = _along_j(kernel, "right", at)
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
