"""Two matrices in compressed rows as one: the entries of both, row by row, in one pass.

    for r: while one has entries left:  the lesser column goes first, equal ones are combined

Which of two entries comes first is computed and not branched on: entries of different patterns take
turns in no order that a processor could foresee. Behind the end of its row a matrix takes part with
a column that is larger than all. Such an element is read and not used, so it must exist: rows from
the first one on that ends with the last entry of a matrix are written out with more care.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from loopwright.ir.dtypes import INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Var
from loopwright.ir.loops import Alloc, Block, Buffer, For, Let, LoopNest, Space, Stmt, Store
from loopwright.kernels import nest_kernel
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.kernel import CompiledKernel
from loopwright.semirings import Semiring
from loopwright.sparse.synthesis.stream import cast

__all__ = ["merge_rows", "merged_nest"]

_FAST, _ROWS = "FAST", "N"
_BEHIND = (1 << 63) - 1  # a column larger than all
_NO_TABLE = np.zeros(0, dtype=np.int64)
_PARTS = ("ptr", "col", "values")

Rows = tuple[Array, Array, Array]  # where each row begins and the last ends, columns, values


def merge_rows(one: Rows, other: Rows, out: Rows, ring: Semiring) -> int:
    """Write the entries of both to `out`, which has room for them, and return how many there are.

    Columns ascend in every row, and all three have as many rows; this is not looked at.
    """
    sides = {"a": one, "b": other, "o": out}
    arrays = {
        f"{side}_{part}": array if side == "o" else np.ascontiguousarray(array)
        for side, rows in sides.items()
        for part, array in zip(_PARTS, rows, strict=True)
    }
    kernel = _kernel(ring, tuple((name, dtype_of(a.dtype)) for name, a in arrays.items()))
    fast = min(_rows_before_the_end(pointers) for pointers, _, _ in (one, other))
    bound = kernel.bind({_FAST: fast, _ROWS: len(out[0]) - 1}, _NO_TABLE)
    bound(*(arrays[name] for name in kernel.buffers))
    return int(out[0][-1])


def _rows_before_the_end(pointers: Array) -> int:
    """How many rows there are before the first one that ends with the last entry."""
    return max(int(np.searchsorted(pointers, pointers[-1])) - 1, 0)


@lru_cache(maxsize=64)
def _kernel(ring: Semiring, types: tuple[tuple[str, DType], ...]) -> CompiledKernel:
    dtype = dict(types)["o_values"]
    plus = ring.plus_expr(dtype, Var("x", dtype), Var("y", dtype))
    return nest_kernel(f"merged rows {types!r} by {plus!r}", lambda: merged_nest(ring, types))


def merged_nest(ring: Semiring, types: tuple[tuple[str, DType], ...]) -> LoopNest:
    """The loops, for arrays <side>_<part> of these types: sides a, b and o, see `Rows`."""
    known = dict(types)
    dtype = known["o_values"]
    row, at, ends = Var("r"), _scalar("at"), {"a": Var("a_end"), "b": Var("b_end")}
    cursors = {"a": _scalar("i"), "b": _scalar("j")}

    def read(side: str, part: str, place: Expr) -> Expr:
        return Load(f"{side}_{part}", (place,), known[f"{side}_{part}"])

    def start(side: str, place: Expr) -> Expr:
        return cast(read(side, "ptr", place), INT64)

    def column(side: str, place: Expr) -> Expr:
        return cast(read(side, "col", place), INT64)

    def put(col: Expr, value: Expr) -> tuple[Stmt, ...]:
        return (
            Store("o_col", (at,), cast(col, known["o_col"])),
            Store("o_values", (at,), value),
            Store("at", (), at + 1),
        )

    def step(heads: dict[str, Expr]) -> Stmt:
        """The lesser of two columns goes to its place."""
        left, right = Var("left"), Var("right")
        x, y = (cast(read(side, "values", cursors[side]), dtype) for side in "ab")
        one = Select(Binary("le", left, right), x, y)
        value = Select(Binary("eq", left, right), ring.plus_expr(dtype, x, y), one)
        move_a = Store("i", (), cursors["a"] + Cast(Binary("le", left, right), INT64))
        move_b = Store("j", (), cursors["b"] + Cast(Binary("le", right, left), INT64))
        body = Block((*put(left.min(right), value), move_a, move_b))
        return Let("left", heads["a"], Let("right", heads["b"], body))

    def rows(first: Expr, stop: Expr, body: tuple[Stmt, ...]) -> Stmt:
        begin = (Store(cursors[side].array, (), start(side, row)) for side in "ab")
        done = Store("o_ptr", (row + 1,), cast(at, known["o_ptr"]))
        inner: Stmt = Block((*begin, *body, done))
        for side, end in ends.items():
            inner = Let(end.name, start(side, row + 1), inner)
        return For(row.name, first, stop, inner, Const(1))

    def rest(side: str) -> Stmt:
        """What is left of a row when the other one has ended."""
        k = Var(f"{side}_k")
        body = Block(put(column(side, k), cast(read(side, "values", k), dtype)))
        return For(k.name, cursors[side], ends[side], body, Const(1))

    is_over = {side: Binary("ge", cursors[side], ends[side]) for side in "ab"}
    most = (ends["a"] - start("a", row)) + (ends["b"] - start("b", row))
    ahead = {side: column(side, cursors[side]) for side in "ab"}
    heads: dict[str, Expr] = {s: Select(is_over[s], Const(_BEHIND), ahead[s]) for s in "ab"}
    # One comparison for both, so that one branch is taken wrong at the end of a row and not two.
    all_over = Binary("ge", cursors["a"] + cursors["b"], ends["a"] + ends["b"])
    any_over = Binary("or", is_over["a"], is_over["b"])
    together = For("t", Const(0), most, step(heads), Const(1), until=all_over)
    careful = For("t", Const(0), most, step(ahead), Const(1), until=any_over)
    whole: Stmt = Block(
        (
            Store("at", (), Const(0)),
            Store("o_ptr", (Const(0),), Const(0, known["o_ptr"])),
            rows(Const(0), Var(_FAST), (together,)),
            rows(Var(_FAST), Var(_ROWS), (careful, rest("a"), rest("b"))),
        )
    )
    for name in ("at", "j", "i"):
        whole = Alloc(Buffer(name, INT64, (), Space.STACK, writable=True), (), whole)
    buffers = tuple(
        Buffer(name, of, (Const(1),), writable=name.startswith("o_")) for name, of in types
    )
    return LoopNest("kernel", buffers, (_FAST, _ROWS), whole, leave_to_llvm=True)


def _scalar(name: str) -> Load:
    return Load(name, (), INT64)
