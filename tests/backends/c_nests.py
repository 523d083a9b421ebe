"""Loop nests with one of everything, for tests of the C printer."""

from __future__ import annotations

from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Prefetch,
    Space,
    Stmt,
    Store,
)

ONE, ZERO = Const(1), Const(0)
i, j, k, n = (Var(name) for name in "ijkn")


def matrix(name: str, columns: Expr, *, writable: bool = False) -> Buffer:
    return Buffer(name, FLOAT64, (columns, ONE), writable=writable)


def element(name: str, *index: Expr) -> Load:
    return Load(name, index, FLOAT64)


def loop(var: Var, start: Expr, stop: Expr, body: Stmt, mark: Mark = Mark.SERIAL) -> For:
    return For(var.name, start, stop, body, ONE, mark)


def reversed_through_memory(size: Expr) -> LoopNest:
    """y[n - 1 - i, j] = t[i, j] = x[i, j] with memory t of n rows."""
    memory = Buffer("t", FLOAT64, (Const(3), ONE), Space.SCRATCH, writable=True)
    fill = Copy("t", (ZERO, ZERO), "x", (ZERO, ZERO), (size, Const(3)))
    turned = Store("y", (size - 1 - i, j), element("t", i, j))
    read = loop(i, ZERO, size, loop(j, ZERO, Const(3), turned))
    body = Alloc(memory, (size, Const(3)), Block((fill, read)))
    buffers = (matrix("x", Const(3)), matrix("y", Const(3), writable=True))
    return LoopNest("f", buffers, ("n",), body)


def smoothed() -> LoopNest:
    """Time steps with two parallel loops, the second of vectors; threads wait in between."""
    near = Binary("add", element("a", i, j - 1), element("a", i, j + 1))
    step = Store("b", (i, j), Binary("mul", Const(0.5, FLOAT64), near))
    back = Store("a", (i, j), element("b", i, j))
    first = loop(i, ZERO, n, loop(j, ONE, n - 1, step), Mark.PARALLEL)
    second = loop(i, ZERO, n, loop(j, ONE, n - 1, back, Mark.SIMD), Mark.PARALLEL)
    body = loop(k, ZERO, Var("steps"), Block((first, Barrier(), second, Barrier())))
    buffers = (matrix("a", n, writable=True), matrix("b", n, writable=True))
    return LoopNest("smooth", buffers, ("n", "steps"), body)


def everything() -> LoopNest:
    """Every kind of statement once."""
    stack = Buffer("t", FLOAT64, (ONE,), Space.STACK, writable=True)
    scalar = Buffer("s", FLOAT64, (), Space.STACK, writable=True)
    unrolled = For(
        "u", ZERO, Const(4), Store("t", (Var("u"),), element("a", i, Var("u"))), ONE, Mark.UNROLL
    )
    more = Binary("add", element("s"), element("t", j % 4))
    gather = loop(j, ZERO, n, Store("s", (), more))
    chosen = If(
        i < n - 1,
        Store("a", (i, ZERO), Var("half", FLOAT64)),
        Store("a", (i, ZERO), Const(1.0, FLOAT64)),
    )
    half = Let("half", Binary("mul", element("s"), Const(0.5, FLOAT64)), chosen)
    start = Store("s", (), Const(0.0, FLOAT64))
    inside = Block((Prefetch("a", (i + 1, ZERO)), unrolled, start, gather, half))
    body = loop(i, ZERO, n, Alloc(stack, (Const(4),), Alloc(scalar, (), inside)))
    return LoopNest("all", (matrix("a", n, writable=True),), ("n",), body)


def register_tile() -> LoopNest:
    """c[0:2, 0:4] += a[0:2, k] * b[k, 0:4] over k, the sums in registers."""
    lane, row = Var("lane"), Var("row")
    sums = Buffer("sums", FLOAT64, (Const(4), ONE), Space.REGISTER, writable=True)

    def lanes(body: Stmt) -> For:
        return For("lane", ZERO, Const(4), body, ONE, Mark.VECTOR)

    def rows(body: Stmt) -> For:
        return For("row", ZERO, Const(2), lanes(body), ONE, Mark.UNROLL)

    fetched = rows(Store("sums", (row, lane), element("c", row, lane)))
    product = Binary("mul", element("a", row, k), element("b", k, lane))
    step = rows(Store("sums", (row, lane), Binary("add", element("sums", row, lane), product)))
    kept = rows(Store("c", (row, lane), element("sums", row, lane)))
    zeros = lanes(Store("b", (n, lane), Const(-0.0, FLOAT64)))
    inside = Block((fetched, loop(k, ZERO, n, step), kept, zeros))
    buffers = (matrix("a", n), matrix("b", Const(4), writable=True))
    buffers += (matrix("c", Const(4), writable=True),)
    body = Alloc(sums, (Const(2), Const(4)), inside)
    return LoopNest("tile", buffers, ("n",), body)


def sums_of_rows(*, reassoc: bool) -> LoopNest:
    """y[i] += a[i, j] * x[j] and z[i] -= a[i, j] over j."""
    up = Binary("add", element("y", i), Binary("mul", element("a", i, j), element("x", j)))
    down = Binary("sub", element("z", i), element("a", i, j))
    body = Block((Store("y", (i,), up), Store("z", (i,), down)))
    rows = loop(i, ZERO, n, loop(j, i, n, body))
    vectors = (Buffer(name, FLOAT64, (ONE,), writable=name != "x") for name in "xyz")
    return LoopNest("rows", (matrix("a", n), *vectors), ("n",), rows, reassoc=reassoc)
