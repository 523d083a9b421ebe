"""Computations as code: scanned, compiled by LLVM, kept in memory and on disk by content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Role
from loopwright.kernels import nest_kernel, stage_text, thread_pool
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.machine_argument import target_machine
from loopwright.memo import BoundedCache
from loopwright.runtime.array_arguments import overlap
from loopwright.runtime.kernel import BoundKernel, CompiledKernel
from loopwright.sparse.spf.chunk_loops import chunk_computation
from loopwright.sparse.spf.chunk_plan import (
    ChunkedComputation,
    allocate_rows,
    chunk_bounds,
    chunk_count,
    is_worth_chunking,
)
from loopwright.sparse.spf.computation import Computation, DataSpace, computation_text
from loopwright.sparse.spf.regions import split_regions
from loopwright.sparse.spf.scan import scan
from loopwright.sparse.uf import evaluate

__all__ = ["CompiledComputation", "compile_computation"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_NO_TABLE = np.zeros(0, dtype=np.int64)
_MOST_BOUND = 8  # launches kept: tensors of one size often come again


class CompiledComputation:
    """A callable on arrays and symbols, in place; see `compile_computation`."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self._arguments = tuple(s for s in computation.spaces if s.role is not Role.LOCAL)
        self._key = f"computation {computation_text(computation)}"
        # Run by one thread: arrays in the order of the spaces, then the values of symbols.
        self.alone: Callable[..., None] = self._first_alone
        self._kernel: CompiledKernel | None = None
        self._bound: BoundedCache[tuple[int, ...], BoundKernel] = BoundedCache(_MOST_BOUND)
        self._chunks: _Chunks | None = None  # made by the first call of several threads

    def __call__(
        self, arrays: Mapping[str, Array], symbols: Mapping[str, int], threads: int = 1
    ) -> None:
        """Run on the arrays of all spaces that are no temporaries; outputs are written in place.

        Index arrays are not validated here: that is done where tensors come in.
        """
        self._check(arrays, symbols)
        self.run(arrays, symbols, threads)

    def run(
        self, arrays: Mapping[str, Array], symbols: Mapping[str, int], threads: int = 1
    ) -> None:
        """The same without looking at the arrays: for those that were made to fit.

        Several threads divide the loops that are marked parallel; where none is, the outermost loop
        runs in chunks, if that is legal and pays.
        """
        if (
            threads > 1
            and not self.computation.marks
            and self._run_chunked(arrays, symbols, threads)
        ):
            return
        if threads == 1 or not self.kernel.is_parallel:
            given = [arrays[space.name] for space in self._arguments]
            self.alone(*given, *(symbols[name] for name in self.computation.symbols))
        else:
            self._launch(arrays, symbols, threads)

    def _first_alone(self, *given: Any) -> None:
        """Replace itself by the code, which the first call compiles."""
        names = [*(space.name for space in self._arguments), *self.computation.symbols]
        self.alone = self.kernel.alone(names) or self._alone_launch
        self.alone(*given)

    def _alone_launch(self, *given: Any) -> None:
        count = len(self._arguments)
        arrays = {space.name: a for space, a in zip(self._arguments, given[:count], strict=True)}
        symbols = dict(zip(self.computation.symbols, given[count:], strict=True))
        self._launch(arrays, symbols, 1)

    def _launch(
        self, arrays: Mapping[str, Array], symbols: Mapping[str, int], threads: int
    ) -> None:
        kernel = self.kernel
        names = self.computation.symbols
        key = (threads, *(int(symbols[name]) for name in names))
        bound = self._bound.get(key)
        if bound is None:
            values = dict(zip(names, key[1:], strict=True))
            bound = kernel.bind(values, _NO_TABLE, threads, thread_pool)
            self._bound[key] = bound
        bound(*(arrays[name] for name in kernel.buffers))

    def _run_chunked(
        self, arrays: Mapping[str, Array], symbols: Mapping[str, int], threads: int
    ) -> bool:
        """Run in chunks; False where the computation is better run as it is."""
        if not is_worth_chunking(arrays.values()):
            return False
        if self._chunks is None:
            self._chunks = _chunks_for(self.computation)  # published whole: other threads read it
        found = self._chunks
        for piece in found.pieces:
            used = {space.name for space in piece.computation.spaces}
            piece.run({n: a for n, a in arrays.items() if n in used}, symbols, threads)
        chunked, chunked_code = found.chunked, found.chunked_code
        if chunked is None or chunked_code is None:
            return bool(found.pieces)
        count = chunk_count(chunked, arrays, symbols, threads)
        if count < 2:
            return False
        values = {**symbols, chunked.chunks: count}
        rows = allocate_rows(chunked, values) | {
            chunked.cut: chunk_bounds(chunked, arrays, symbols, count)
        }
        chunked_code.run({**arrays, **rows}, values, threads)
        return True

    @property
    def kernel(self) -> CompiledKernel:
        """The loaded code; compiled when it is neither in memory nor on disk."""
        if self._kernel is None:
            self._kernel = nest_kernel(self._key, self.nest, f"computation {self.computation.name}")
        return self._kernel

    def nest(self) -> LoopNest:
        """The loops."""
        return scan(self.computation)

    def inspect(self, stage: str) -> str:
        """The text of a stage: "loops", "c", "llvm" or "asm"."""
        return stage_text(self.nest(), stage, target_machine())

    def _check(self, arrays: Mapping[str, Array], symbols: Mapping[str, int]) -> None:
        name = self.computation.name
        wanted = {space.name for space in self._arguments}
        for what, given, needed in (
            ("arrays", set(arrays), wanted),
            ("symbols", set(symbols), set(self.computation.symbols)),
        ):
            if given != needed:
                raise UsageError(
                    f"computation '{name}' takes the {what} {_listed(needed)}",
                    _listed(given),
                    "give exactly these",
                )
        for space in self._arguments:
            _check_array(space, arrays[space.name], symbols)
        self._check_overlap(arrays)

    def _check_overlap(self, arrays: Mapping[str, Array]) -> None:
        # The code is compiled for arrays that do not overlap.
        for space in self._arguments:
            if space.role is Role.IN:
                continue
            for other in self._arguments:
                x, y = arrays[space.name], arrays[other.name]
                if other is not space and x.size and y.size and overlap(x, y):
                    raise UsageError(
                        f"'{space.name}' shares memory with '{other.name}'",
                        hint=f"pass a fresh array as '{space.name}'",
                    )


@dataclass(frozen=True, slots=True)
class _Chunks:
    """How several threads run a computation: its pieces one by one, or its outermost loop cut."""

    pieces: tuple[CompiledComputation, ...]  # with one loop each; none where it has one loop itself
    chunked: ChunkedComputation | None = None
    chunked_code: CompiledComputation | None = None  # the code of `sharing`


def _chunks_for(computation: Computation) -> _Chunks:
    pieces = split_regions(computation)
    if len(pieces) > 1:
        return _Chunks(tuple(map(compile_computation, pieces)))
    chunked = chunk_computation(computation)
    if isinstance(chunked, str):
        return _Chunks(())
    return _Chunks((), chunked, compile_computation(chunked.computation))


@lru_cache(maxsize=256)
def compile_computation(computation: Computation) -> CompiledComputation:
    """The callable of a computation: `f(arrays, symbols, threads=1)` runs it in place.

    `arrays` maps the name of every space that is no temporary to a row-major array of its dtype and
    shape, `symbols` every symbolic constant to an integer. Nothing is compiled before the first
    call; code is found again by the text of the computation, in memory and on disk.
    """
    return CompiledComputation(computation)


def _check_array(space: DataSpace, array: Array, symbols: Mapping[str, int]) -> None:
    shape = tuple(evaluate(extent, symbols, {}) for extent in space.shape)
    if not isinstance(array, np.ndarray) or array.dtype != space.dtype.numpy:
        found = getattr(array, "dtype", type(array).__name__)
        raise UsageError(f"'{space.name}' must be an array of {space.dtype}", str(found))
    if array.shape != shape:
        spelled = ", ".join(map(str, space.shape))
        raise UsageError(
            f"'{space.name}' has the wrong shape",
            str(array.shape),
            f"it is {space.name}[{spelled}], so {shape}",
        )
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise UsageError(f"'{space.name}' is not laid out row by row", hint="pass a copy of it")
    if space.role is not Role.IN and not array.flags.writeable:
        raise UsageError(f"'{space.name}' is read-only", hint="pass a writable array")


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "(none)"
