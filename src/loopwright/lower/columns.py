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

from loopwright.ir.expr import Const, Expr, Load, Var, as_expr
from loopwright.ir.form import Form, Packing
from loopwright.ir.loops import Alloc, Buffer, LoopNest, Mark, Prefetch, Space, Stmt, Store
from loopwright.lower.build import CACHE_LINE, lets, loop, seq, vector
from loopwright.lower.combine import cast, combine, scaled, start_from
from loopwright.lower.places import table
from loopwright.lower.rows import arguments

__all__ = ["lower_columns"]

_TABLES = ("left_g", "right_g", "out_g", "right_j", "out_j", "left_p", "right_p")
SCALARS = ("G", "N", "K", "nc", *_TABLES)
j, jc, p, lane, nb = Var("j"), Var("jc"), Var("p"), Var("lane"), Var("nb")


def lower_columns(form: Form, name: str) -> LoopNest:
    """The LoopNest of a contraction of kind COLUMNS."""
    part = Var("K") // form.rows
    whole = part * form.rows

    def start(at: Expr, offset: Expr) -> Stmt:
        old = Load("out", (_out_at(form, at, offset),), form.out)
        return _put(form, at, offset, start_from(form, old))

    block = seq(
        _each_vector(form, 1, start),
        loop(p, 0, part, _sweep(form, form.rows, part))
        if form.apart
        else loop(p, 0, whole, _sweep(form, form.rows), form.rows),
        loop(p, whole, Var("K"), _sweep(form, 1)),
        _write_back(form),
    )
    mark = Mark.PARALLEL if form.parallel == "j" else Mark.SERIAL
    blocks = loop(
        jc, 0, Var("N"), lets([(nb, (Var("N") - jc).min(Var("nc")))], block), Var("nc"), mark
    )
    bases = [(Var(f"{x}_base"), table(f"{x}_g", Var("g"))) for x in ("left", "right", "out")]
    batch = Mark.PARALLEL if form.parallel == "batch" else Mark.SERIAL
    body = loop(Var("g"), 0, Var("G"), lets(bases, blocks), mark=batch)
    if _is_separate(form):
        sums = Buffer("sums", form.accumulator, (Const(1),), Space.PRIVATE)
        body = Alloc(sums, (Var("nc").min(Var("N")) + _apart(form),), body)
    return LoopNest(name, arguments(form), SCALARS, body)


def _is_separate(form: Form) -> bool:
    """Whether sums have memory of their own: out has another type, or is swept often.

    Scratch memory lies in one large page, so that the sums of a block do not compete with each
    other for places of L1, as the scattered pages of out may.
    """
    return form.accumulator != form.out or form.rows == 1 or form.apart


def _each_vector(
    form: Form, count: int, make: Callable[[Expr, Expr], Stmt], hints: Sequence[Stmt] = ()
) -> Stmt:
    """Loops over the block: `count` vectors at a time, single vectors, single elements."""
    lanes = form.lanes
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


def _out_at(form: Form, at: Expr, offset: Expr) -> Expr:
    step = jc + at if form.right_packing is Packing.DIRECT else table("out_j", jc + at)
    return Var("out_base") + step + offset


def _apart(form: Form) -> int:
    """Where the sums begin in their memory, which begins with a page.

    So do large operands. A load waits for older stores to the same place of another page, so that
    sums half a page away are faster by a fifth (measured, N1).
    """
    return 2048 // form.accumulator.bytes


def _sum(form: Form, at: Expr, offset: Expr) -> Expr:
    return Load("sums", (at + offset + _apart(form),), form.accumulator)


def _get(form: Form, at: Expr, offset: Expr) -> Expr:
    if _is_separate(form):
        return _sum(form, at, offset)
    return Load("out", (_out_at(form, at, offset),), form.out)


def _put(form: Form, at: Expr, offset: Expr, value: Expr) -> Stmt:
    if _is_separate(form):
        return Store("sums", (at + offset + _apart(form),), value)
    return Store("out", (_out_at(form, at, offset),), value)


def _write_back(form: Form) -> Stmt:
    if not _is_separate(form):
        return seq()

    def store(at: Expr, offset: Expr) -> Stmt:
        value = cast(_sum(form, at, offset), form.out)
        return Store("out", (_out_at(form, at, offset),), value)

    return _each_vector(form, 1, store)


def _sweep(form: Form, count: int, distance: Expr | int = 1) -> Stmt:
    """Add `count` steps of p, `distance` from each other, to the whole block."""
    starts = []
    for r in range(count):
        step = p + r * as_expr(distance)
        starts.append((Var(f"right_row{r}"), Var("right_base") + table("right_p", step)))
        starts.append((Var(f"left_at{r}"), Var("left_base") + table("left_p", step)))
    dtype = form.accumulator if form.scaled else form.left
    factors = Buffer("factors", dtype, (Const(form.lanes), Const(1)), Space.REGISTER)
    fill = []
    for r in range(count):
        left = cast(Load("left", (Var(f"left_at{r}"),), form.left), dtype)
        store = Store("factors", (Const(r), lane), scaled(form, left))
        fill.append(vector(lane, form.lanes, store))
    # Of a single operand that is read as right, left does not count: alpha goes to right.
    scales_right = form.scaled and form.times == "first" and form.swapped

    def update(at: Expr, offset: Expr) -> Stmt:
        total = _get(form, at, offset)
        for r in range(count):
            step = jc + at if form.right_packing is Packing.DIRECT else table("right_j", jc + at)
            right: Expr = Load("right", (Var(f"right_row{r}") + step + offset,), form.right)
            if scales_right:
                right = scaled(form, cast(right, form.accumulator))
            total = combine(form, total, Load("factors", (Const(r), offset), dtype), right)
        return _put(form, at, offset, total)

    def ahead() -> list[Stmt]:
        """Ask for what every row will be read for soon, a line at a time."""
        if not form.ahead or form.right_packing is not Packing.DIRECT:
            return []
        line = max(1, CACHE_LINE // form.right.bytes)
        return [
            Prefetch("right", (Var(f"right_row{r}") + jc + j + form.ahead + offset,))
            for r in range(count)
            for offset in range(0, form.vectors * form.lanes, line)
        ]

    shape = (Const(count), Const(form.lanes))
    sweep = _each_vector(form, form.vectors, update, ahead())
    return lets(starts, Alloc(factors, shape, seq(*fill, sweep)))
