"""Mark the elements of a matrix that a product improved, in one pass over both matrices."""

from __future__ import annotations

import numpy as np

from loopwright.ir.dtypes import DTYPES, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Load, Select, Var
from loopwright.ir.loops import Buffer, LoopNest, Mark, Store
from loopwright.kernels import ENTRY, nest_kernel, thread_pool
from loopwright.lower.build import loop, seq
from loopwright.machines.machine_argument import target_machine
from loopwright.runtime.array_arguments import Array

__all__ = ["BLOCK_NUMBER", "mark_improved"]

BLOCK_NUMBER = DTYPES["int16"]


def mark_improved(values: Array, old: Array, improved: Array, number: int, threads: int) -> None:
    """Write `number` to `improved` where `values` differ from `old`, and `values` to `old`."""
    dtype = dtype_of(values.dtype)
    machine = target_machine()
    key = f"improvements {dtype} {machine.content_hash}"
    kernel = nest_kernel(key, lambda: _nest(dtype), "improvements of paths")
    sizes = {"n": len(values), "number": number}
    kernel.bind(sizes, np.zeros(0, dtype=np.int64), threads, thread_pool)(values, old, improved)


def _nest(dtype: DType) -> LoopNest:
    i, j, n, number = (Var(name) for name in ("i", "j", "n", "number"))
    value, before = Load("values", (i, j), dtype), Load("old", (i, j), dtype)
    kept = Load("improved", (i, j), BLOCK_NUMBER)
    mark = Select(Binary("ne", value, before), Cast(number, BLOCK_NUMBER), kept)
    body = seq(Store("improved", (i, j), mark), Store("old", (i, j), value))
    kinds = (("values", dtype), ("old", dtype), ("improved", BLOCK_NUMBER))
    buffers = tuple(
        Buffer(name, kind, (n, Const(1)), writable=name != "values") for name, kind in kinds
    )
    columns = loop(j, 0, n, body, mark=Mark.SIMD)
    whole = loop(i, 0, n, columns, mark=Mark.PARALLEL)
    return LoopNest(ENTRY, buffers, ("n", "number"), whole, leave_to_llvm=True, fuses=False)
