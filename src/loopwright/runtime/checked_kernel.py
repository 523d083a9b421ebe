"""Kernels with bounds checks: limits from the arrays of each call, violations as exceptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loopwright.diagnostics import BoundsError
from loopwright.runtime.array_arguments import element_strides
from loopwright.runtime.kernel import BoundKernel, CompiledKernel
from loopwright.runtime.llvm_engine import LoadedObject
from loopwright.runtime.thread_pool import Pool

__all__ = ["CheckedKernel"]

Launch = np.ndarray[Any, np.dtype[np.int64]]
_RECORD = 5  # words of a violation, the last scalars (see backends/llvm/llvm_bounds_check)


class CheckedKernel(CompiledKernel):
    """The entry points of a module emitted with checks."""

    __slots__ = ("_names", "_ranks")

    def __init__(
        self,
        code: LoadedObject,
        entry: str,
        buffers: Sequence[str],
        scalars: Sequence[str],
        is_parallel: bool,
        names: Sequence[str],
        ranks: Sequence[int],
        needs_memory: bool = True,
    ) -> None:
        super().__init__(code, entry, buffers, scalars, is_parallel, needs_memory)
        self._names = tuple(names)  # buffers by their number in a violation, which starts at 1
        self._ranks = tuple(ranks)  # subscripts of each argument; -1: offsets in its memory

    def alone(self, names: Sequence[str]) -> None:
        """None: limits are taken from the arrays of each call."""

    def bind(
        self,
        values: dict[str, int],
        table: Launch,
        threads: int = 1,
        pool: Callable[[], Pool] | None = None,
    ) -> BoundKernel:
        """Fix the kernel arguments; each call fills in the limits of its arrays."""
        limits = {"table.high0": len(table)}
        known = {**dict.fromkeys(self.scalars, 0), **limits, **values}
        return _CheckedBoundKernel(self, super().bind(known, table, threads, pool))

    def limit(self, launch: Launch, arrays: tuple[object, ...]) -> None:
        """Write the limits of these arrays into the kernel arguments."""
        for name, rank, array in zip(self.buffers, self._ranks, arrays, strict=True):
            assert isinstance(array, np.ndarray)
            if rank < 0:
                ranges: tuple[tuple[int, int], ...] = (_reach(array),)
            else:
                ranges = tuple((0, extent) for extent in array.shape)
                assert len(ranges) == rank, f"{name} has rank {array.ndim}, not {rank}"
            for dimension, (low, high) in enumerate(ranges):
                launch[self.scalars.index(f"{name}.low{dimension}")] = low
                launch[self.scalars.index(f"{name}.high{dimension}")] = high

    def raise_violation(self, launch: Launch) -> None:
        """Raise BoundsError if the call recorded an access outside a buffer."""
        end = len(self.scalars)
        number, dimension, subscript, low, high = (int(x) for x in launch[end - _RECORD : end])
        if not number:
            return
        name = self._names[number - 1]
        is_offset = name in self.buffers and self._ranks[self.buffers.index(name)] < 0
        raise BoundsError(name, -1 if is_offset else dimension, subscript, (low, high))


class _CheckedBoundKernel(BoundKernel):
    """A bound kernel; each call has its own copy of the limits and of the record of a violation."""

    __slots__ = ("_kernel", "_plain")

    def __init__(self, kernel: CheckedKernel, plain: BoundKernel) -> None:
        self._kernel = kernel
        self._plain = plain
        self.threads = plain.threads

    def __call__(self, *arrays: object) -> None:
        bound, launch = self._plain.again()
        self._kernel.limit(launch, arrays)
        bound(*arrays)
        self._kernel.raise_violation(launch)

    def quick(self, exchange: bool = False) -> Callable[[object, object, object], None]:
        return (lambda out, x, y: self(out, y, x)) if exchange else self

    def bare(self) -> None:
        """None: limits are taken from the arrays themselves."""


def _reach(array: np.ndarray[Any, np.dtype[Any]]) -> tuple[int, int]:
    """The offsets of an array's elements from the first, in elements: range(low, high)."""
    if array.size == 0:
        return 0, 0
    steps = zip(element_strides(array), array.shape, strict=True)
    ends = [stride * (extent - 1) for stride, extent in steps]
    return sum(x for x in ends if x < 0), sum(x for x in ends if x > 0) + 1
