"""Running the quick code of a tree with parallel loops on the thread pool."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from loopwright.kernels import thread_pool
from loopwright.runtime.address import Address, data_address, function_at
from loopwright.runtime.llvm_engine import LoadedObject
from loopwright.runtime.scratch import local_scratch
from loopwright.tuning.parallel_code import ParallelCode

__all__ = ["bind_parallel"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
_NO_LAUNCH = Address(0, None)
_LINE = 128  # bytes: private memory of two threads shares no pair of cache lines


def bind_parallel(
    code: ParallelCode, loaded: LoadedObject, arguments: Sequence[str]
) -> Callable[[Sequence[Array]], Callable[[], None]]:
    """What makes a call of arrays in the order of `arguments`."""
    pointers = [ctypes.c_void_p] * (1 + len(code.arrays))
    functions = {entry: function_at(loaded.address(entry), *pointers) for entry in code.entries[1:]}
    private = -(-code.private // _LINE) * _LINE
    shared = -(-sum(size for _, size in code.locals) // _LINE) * _LINE
    most = max(map(len, code.nests))
    need = shared + most * private
    run = loaded.address(code.run)

    def bind(arrays: Sequence[Array]) -> Callable[[], None]:
        base = local_scratch().reserve(need)
        firsts: dict[str, int] = dict(zip(arguments, map(data_address, arrays), strict=True))
        at = int(base)
        for name, size in code.locals:
            firsts[name] = at
            at += size
        rows = [
            [[firsts[name] + off for name, off in zip(code.arrays, chunk.offsets, strict=True)]
             for chunk in chunks]
            for chunks in code.nests
        ]  # fmt: skip
        tables = [
            np.array(
                [
                    [loaded.address(chunk.entry), *row]
                    for chunk, row in zip(chunks, own, strict=True)
                ],
                np.int64,
            )
            for chunks, own in zip(code.nests, rows, strict=True)
        ]

        def call() -> None:
            pool = thread_pool()
            scratch = base, int(base) + shared, private
            for chunks, own, table in zip(code.nests, rows, tables, strict=True):
                if len(chunks) > 1 and pool.run(
                    run, _NO_LAUNCH, scratch, data_address(table), len(chunks)
                ):
                    continue
                for chunk, row in zip(chunks, own, strict=True):
                    functions[chunk.entry](int(base) + shared, *row)

        return call

    return bind
