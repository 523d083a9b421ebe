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

_NONE = 2**31 - 1
_PARTS = 4  # vectors of numbers: as many minima as hide the latency of one
_STRIP = 1 << 19  # bytes of the transposed rows that stay in L2 while all i go over them
begin, end, n, block = (Var(name) for name in ("begin", "end", "n", "block"))
width, strip, part = Var("width"), Var("strip"), Var("part")
i, j, k, at, stop, lane = (Var(name) for name in ("i", "j", "k", "at", "stop", "lane"))


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

    def element(name: str, x: Expr, y: Expr) -> Load:
        return Load(name, (x, y), kinds[name])

    def least(place: tuple[Expr, Expr], beyond: Expr) -> Stmt:
        """Vertex k + beyond, where the path over it has the value: the least of these is kept."""
        step = k + beyond
        product = ring.times_expr(dtype, element("columns", i, step), element("rows", j, step))
        fits = Binary("eq", product, Var("value", dtype))
        # Converted apart: lanes are constants, and only k is new in each turn.
        number = Binary("add", cast(k, PREDECESSOR), cast(beyond, PREDECESSOR))
        better = Select(fits, number, Const(_NONE, PREDECESSOR))
        return Store("found", place, Binary("min", _found(place), better))

    def each(body: Stmt) -> Stmt:
        return unrolled(part, _PARTS, vector(lane, lanes, body))

    turn = _PARTS * lanes
    whole = at + (stop - at) // turn * turn
    first = Const(0)
    parts = _least_of([_found((Const(x), lane)) for x in range(_PARTS)])
    one = _least_of([_found((first, Const(x))) for x in range(lanes)])
    search = seq(
        each(Store("found", (part, lane), Const(_NONE, PREDECESSOR))),
        loop(k, at, whole, each(least((part, lane), part * lanes + lane)), turn),
        vector(lane, lanes, Store("found", (first, lane), parts)),
        loop(k, whole, stop, least((first, first), first)),
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
    held = Buffer("found", PREDECESSOR, strides, Space.REGISTER, writable=True)
    limit = (strip + width).min(n)
    columns = loop(j, strip, limit, Alloc(held, (Const(_PARTS), Const(lanes)), choice))
    body = loop(strip, 0, n, loop(i, begin, end, columns), width, Mark.PARALLEL)
    names = ("begin", "end", "n", "block", "width")
    return LoopNest(ENTRY, buffers, names, body)


def _found(place: tuple[Expr, Expr]) -> Load:
    return Load("found", place, PREDECESSOR)


def _least_of(numbers: Sequence[Expr]) -> Expr:
    least, *others = numbers
    for other in others:
        least = Binary("min", least, other)
    return least
