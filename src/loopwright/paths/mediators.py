"""Find the vertices over which paths were improved, from the panels of the elimination.

Where a product of block K last improved element (i, j), the path goes over a vertex k of K with
column[i, k] times row[k, j] equal to the element, bit by bit: it was computed so. The least such k
is taken (see `routes` for why), and the predecessor of j is the one that row k had for it when
block K was closed. The search costs n^2 b comparisons in all, against n^3 pairs of the elimination.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loopwright.ir.dtypes import INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var, cast
from loopwright.ir.loops import Alloc, Buffer, If, LoopNest, Mark, Space, Stmt, Store
from loopwright.kernels import ENTRY, nest_kernel, thread_pool
from loopwright.lower.build import lets, loop, seq, unrolled, vector
from loopwright.machines.machine_argument import target_machine
from loopwright.paths.improvements import BLOCK_NUMBER
from loopwright.paths.step_kernels import PREDECESSOR
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import Semiring

__all__ = ["resolve"]

_NONE = 2**30  # above all vertices, and a turn's more of them stay within 32 bits
_PARTS = 4  # vectors of a turn: as many as hide the latency of one
_STRIP = 1 << 19  # bytes of the transposed rows that stay in L2 while all i go over them
begin, end, n, block = (Var(name) for name in ("begin", "end", "n", "block"))
width, strip, part = Var("width"), Var("strip"), Var("part")
i, j, k, at, stop, lane = (Var(name) for name in ("i", "j", "k", "at", "stop", "lane"))
back = Var("back")


def resolve(
    ring: Semiring,
    rows: tuple[int, int],
    block_side: int,
    arrays: tuple[Array, Array, Array, Array, Array, Array],
    threads: int,
) -> None:
    """Write the predecessors of a range of rows.

    `arrays` are square and C-contiguous: values; the number of the block that improved an element
    last, counted from 1, 0 for none; the columns of all blocks; their rows, transposed; the
    predecessors of rows when they were closed; the result. Elements that no product improved keep
    what the fifth has.
    """
    values = arrays[0]
    dtype = dtype_of(values.dtype)
    key = f"mediators {ring.name} {ring.plus} {ring.times_on(dtype)} {dtype} "
    machine = target_machine()
    lanes = max(1, machine.lanes(max(dtype.bits, PREDECESSOR.bits)))
    kernel = nest_kernel(
        key + machine.content_hash, lambda: _nest(ring, dtype, lanes), "mediators of paths"
    )
    sizes = {"begin": rows[0], "end": rows[1], "n": len(values), "block": block_side}
    sizes["width"] = max(1, _STRIP // values[0].nbytes)
    bound = kernel.bind(sizes, np.zeros(0, dtype=np.int64), threads, thread_pool)
    bound(*arrays)


def _nest(ring: Semiring, dtype: DType, lanes: int) -> LoopNest:
    kinds = {
        "values": dtype,
        "improved": BLOCK_NUMBER,
        "columns": dtype,
        "rows": dtype,
        "before": PREDECESSOR,
        "result": PREDECESSOR,
    }
    buffers = tuple(
        Buffer(name, kind, (n, Const(1)), writable=name == "result") for name, kind in kinds.items()
    )

    # As wide as an element, so that masks of comparisons serve as they are.
    number = INT64 if dtype.bits > PREDECESSOR.bits else PREDECESSOR

    def element(name: str, x: Expr, y: Expr) -> Load:
        return Load(name, (x, y), kinds[name])

    def fits(step: Expr) -> Expr:
        """Whether the path over vertex `step` has the value."""
        product = ring.times_expr(dtype, element("columns", i, step), element("rows", j, step))
        return Binary("eq", product, Var("value", dtype))

    def found(x: Expr, y: Expr) -> Load:
        return Load("found", (x, y), number)

    def each(body: Stmt) -> Stmt:
        return unrolled(part, _PARTS, vector(lane, lanes, body))

    # Turns run backwards, so that a lane keeps the first vertex of the least turn in which it has
    # found one: an addition, a comparison and a select for each vector, and no minimum.
    turn = _PARTS * lanes
    whole = at + (stop - at) // turn * turn
    none, first = Const(_NONE, number), Const(0)
    latest = Select(fits(k + part * lanes + lane), cast(k, number), found(part, lane))
    turns = lets([(k, whole - turn - back)], each(Store("found", (part, lane), latest)))
    own = [
        Binary("add", found(Const(x), lane), cast(lane + x * lanes, number)) for x in range(_PARTS)
    ]
    better = Select(fits(k), cast(k, number), none)
    rest = Store("found", (first, first), Binary("min", found(first, first), better))
    one = _least_of([found(first, Const(x)) for x in range(lanes)])
    search = seq(
        each(Store("found", (part, lane), none)),
        loop(back, 0, whole - at, turns, turn),
        vector(lane, lanes, Store("found", (first, lane), _least_of(own))),
        loop(k, whole, stop, rest),
        Store("result", (i, j), element("before", cast(one, INT64), j)),
    )
    last = cast(element("improved", i, j), INT64) - 1
    bounds = [
        (Var("value", dtype), element("values", i, j)),
        (at, last * block),
        (stop, (last * block + block).min(n)),
    ]
    kept = Store("result", (i, j), element("before", i, j))
    choice = If(Binary("ge", last, Const(0)), lets(bounds, search), kept)
    strides = Const(lanes), Const(1)
    held = Buffer("found", number, strides, Space.REGISTER, writable=True)
    limit = (strip + width).min(n)
    columns = loop(j, strip, limit, Alloc(held, (Const(_PARTS), Const(lanes)), choice))
    body = loop(strip, 0, n, loop(i, begin, end, columns), width, Mark.PARALLEL)
    names = ("begin", "end", "n", "block", "width")
    return LoopNest(ENTRY, buffers, names, body)


def _least_of(numbers: Sequence[Expr]) -> Expr:
    least, *others = numbers
    for other in others:
        least = Binary("min", least, other)
    return least
