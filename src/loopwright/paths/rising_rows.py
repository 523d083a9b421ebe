"""Rows of predecessors that end because values rise, or fall, along them.

Row i ends where following predecessors from any vertex comes to -1. That is certain where for all j
with a predecessor p the value of p lies above that of j, or for all below: no cycle can do either.
"""

from __future__ import annotations

import numpy as np

from loopwright.ir.dtypes import DTYPES, INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Const, Load, Select, Var, cast
from loopwright.ir.loops import Buffer, LoopNest, Mark, Store
from loopwright.kernels import ENTRY, nest_kernel, thread_pool
from loopwright.lower.build import loop, seq
from loopwright.machines.machine_argument import target_machine
from loopwright.paths.step_kernels import PREDECESSOR
from loopwright.runtime.array_arguments import Array

__all__ = ["rows_in_doubt"]

_COUNT = DTYPES["int32"]


def rows_in_doubt(values: Array, before: Array, threads: int) -> Array:
    """Numbers of the rows in which values neither rise nor fall strictly from j to its predecessor.

    Both arrays are C-contiguous and have the same shape.
    """
    rows, columns = values.shape
    dtype = dtype_of(values.dtype)
    key = f"rising rows {dtype} {target_machine().content_hash}"
    kernel = nest_kernel(key, lambda: _nest(dtype), "the order of values along paths")
    counts = np.zeros((rows, 2), _COUNT.numpy)
    sizes = {"rows": rows, "columns": columns}
    bound = kernel.bind(sizes, np.zeros(0, dtype=np.int64), threads, thread_pool)
    bound(values, before, counts)
    return np.flatnonzero(counts.all(axis=1))


def _nest(dtype: DType) -> LoopNest:
    """Count the links of each row that do not rise, and those that do not fall."""
    i, j, rows, columns = (Var(name) for name in ("i", "j", "rows", "columns"))
    link = Load("before", (i, j), PREDECESSOR)
    at = cast(Binary("max", link, Const(0, PREDECESSOR)), INT64)
    value, next_value = Load("values", (i, j), dtype), Load("values", (i, at), dtype)
    zero, one = Const(0, _COUNT), Const(1, _COUNT)
    is_link = Binary("ge", link, Const(0, PREDECESSOR))
    stores = []
    for place, comparison in enumerate(("gt", "lt")):
        # A value that is not a number compares as false, and counts.
        wrong = Select(Binary(comparison, next_value, value), zero, one)
        here = i, Const(place)
        total = Binary("add", Load("counts", here, _COUNT), Select(is_link, wrong, zero))
        stores.append(Store("counts", here, total))
    buffers = (
        Buffer("values", dtype, (columns, Const(1))),
        Buffer("before", PREDECESSOR, (columns, Const(1))),
        Buffer("counts", _COUNT, (Const(2), Const(1)), writable=True),
    )
    whole = loop(i, 0, rows, loop(j, 0, columns, seq(*stores)), mark=Mark.PARALLEL)
    return LoopNest(ENTRY, buffers, ("rows", "columns"), whole, leave_to_llvm=True, fuses=False)
