"""Computations as code: scanned, compiled by LLVM, kept in memory and on disk by content."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias
from weakref import ref

import numpy as np

from loopwright.diagnostics import BoundsError, RoomError, SubscriptError, UsageError
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Role
from loopwright.kernels import nest_kernel, stage_text, thread_pool
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.machine_argument import target_machine
from loopwright.memo import BoundedCache, computed_once
from loopwright.runtime.array_arguments import overlap
from loopwright.runtime.code_memory import keeps_code
from loopwright.runtime.kernel import BoundKernel, CompiledKernel
from loopwright.sparse.frozen import are_frozen
from loopwright.sparse.spf.array_dependences import SpaceAccess, accesses
from loopwright.sparse.spf.chunk_loops import chunk_computation
from loopwright.sparse.spf.chunk_plan import (
    ChunkedComputation,
    allocate_rows,
    chunk_bounds,
    chunk_count,
    is_worth_chunking,
)
from loopwright.sparse.spf.computation import Computation, DataSpace, computation_text
from loopwright.sparse.spf.proven_accesses import unproven_arrays
from loopwright.sparse.spf.regions import split_regions
from loopwright.sparse.spf.scan import scan
from loopwright.sparse.spf.validate_facts import given_facts, rule_calls, validate_facts
from loopwright.sparse.uf import Facts, evaluate

__all__ = ["CompiledComputation", "compile_computation"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_NO_TABLE = np.zeros(0, dtype=np.int64)
_FAR = 1 << 48  # sums of a few multiples of smaller numbers stay within 64 bits
_MOST_BYTES = 1 << 47  # no processor addresses more
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
        # Symbols and frozen arrays that were found to obey the facts.
        self._obey: tuple[tuple[int, ...], tuple[ref[Array], ...]] | None = None
        self._tested: CompiledKernel | None = None  # the code that tests accesses

    def __call__(
        self, arrays: Mapping[str, Array], symbols: Mapping[str, int], threads: int = 1
    ) -> None:
        """Run on the arrays of all spaces that are no temporaries; outputs are written in place.

        The facts are validated first. Where the facts and the domains do not prove that every
        access is inside, the code that runs tests each one, on copies of what it writes: a call
        that leads outside of an array is refused before anything is written.
        """
        values = self._check(arrays, symbols)
        self._require_facts(arrays, values)
        if self._is_proven(arrays, values):
            self.run(arrays, values, threads)
        else:
            self._run_tested(arrays, values, threads)

    def _require_facts(self, arrays: Mapping[str, Array], symbols: Mapping[str, int]) -> None:
        """Validate what is known of the arrays, once for those that nobody can write."""
        names = self._facts_about
        key = tuple(symbols.values())
        held = self._obey
        if (
            held is not None
            and held[0] == key
            and all(found() is arrays[name] for name, found in zip(names, held[1], strict=True))
        ):
            return
        given = {name: arrays[name] for name in self._given}
        validate_facts(self.computation.name, self._facts, given, symbols)
        if are_frozen(arrays[name] for name in names):
            self._obey = key, tuple(ref(arrays[name]) for name in names)

    def _is_proven(self, arrays: Mapping[str, Array], symbols: Mapping[str, int]) -> bool:
        """Whether no access can be outside, in numbers with which no sum leaves 64 bits."""
        if self._unproven:
            return False
        is_small = all(-_FAR < value < _FAR for value in symbols.values())
        return is_small and all(
            -_FAR < int(array.min(initial=0)) <= int(array.max(initial=0)) < _FAR
            for name, array in arrays.items()
            if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and name in self._given
        )

    def _run_tested(
        self, arrays: Mapping[str, Array], symbols: Mapping[str, int], threads: int
    ) -> None:
        """Run code that tests every access on copies, and hand on what it has written."""
        if self._tested is None:
            what = f"computation {self.computation.name}, tested"
            self._tested = nest_kernel(self._key, self.nest, what, checked=True)
        kernel = self._tested
        written = [s.name for s in self._arguments if s.role is not Role.IN]
        copies = {**arrays, **{name: arrays[name].copy() for name in written}}
        bound = kernel.bind(dict(symbols), _NO_TABLE, threads, thread_pool)
        try:
            bound(*(copies[name] for name in kernel.buffers))
        except BoundsError as error:
            raise self._outside(error) from None
        for name in written:
            np.copyto(arrays[name], copies[name])

    def _outside(self, error: BoundsError) -> SubscriptError:
        """The refusal of a call that leads outside of an array."""
        name, dimension = error.array, error.dimension
        space = self.computation.by_name[name]
        which = f"subscript {dimension + 1}" if space.rank > 1 else "the subscript"
        low, high = error.limits
        inside = f"{low} to {high - 1} are inside" if low < high else "it is empty"
        verbs = {True: "writes", False: "reads"}
        places = dict.fromkeys(
            f"statement '{stmt.name}' {verbs[access.is_write]} {_spelled(access)}"
            for stmt in self.computation.statements
            for access in accesses(stmt)
            if access.space == name
        )
        return SubscriptError(
            f"computation '{self.computation.name}' leaves '{name}': {which} is "
            f"{error.subscript}, {inside}",
            "; ".join(places),
            "nothing was written; index arrays of other numbers, or a domain that leaves these out",
        )

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

    @computed_once
    def _given(self) -> frozenset[str]:
        """The arrays that are not written."""
        return frozenset(space.name for space in self._arguments if space.role is Role.IN)

    @computed_once
    def _facts(self) -> Facts:
        """The facts that a call can validate."""
        return given_facts(self.computation)

    @computed_once
    def _facts_about(self) -> tuple[str, ...]:
        """The arrays of a call that they speak of."""
        calls = {call.name for rule in self._facts.rules for call in rule_calls(rule)}
        named = calls | {function.name for function in self._facts.functions}
        return tuple(s.name for s in self._arguments if s.name in named & self._given)

    @computed_once
    def _unproven(self) -> frozenset[str]:
        """The arrays with an access that facts and domains do not prove to be inside."""
        return unproven_arrays(self.computation, self.nest(), self._facts)

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

    def _check(self, arrays: Mapping[str, Array], symbols: Mapping[str, int]) -> dict[str, int]:
        """The values of the symbols, where arrays and symbols are such as the computation takes."""
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
        values = {name: _whole(name, symbols[name]) for name in self.computation.symbols}
        for space in self._arguments:
            _check_array(space, arrays[space.name], values)
        for space in self.computation.spaces:
            if space.role is Role.LOCAL:
                _check_room(space, values)
        self._check_overlap(arrays)
        return values

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


@keeps_code
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


def _whole(name: str, value: object) -> int:
    """The value of a symbol, a number of 64 bits."""
    try:
        found = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"'{name}' must be a whole number", repr(value)) from None
    if not -(1 << 63) <= found < 1 << 63:
        raise UsageError(f"'{name}' does not fit 64 bits", str(found))
    return found


def _check_room(space: DataSpace, symbols: Mapping[str, int]) -> None:
    shape = [max(evaluate(extent, symbols, {}), 0) for extent in space.shape]
    size = math.prod(shape) * space.dtype.bytes
    if size >= _MOST_BYTES:
        spelled = " x ".join(map(str, shape))
        raise RoomError(f"the temporary '{space.name}' takes {size} bytes", f"shape {spelled}")


def _spelled(access: SpaceAccess) -> str:
    entries = ("?" if entry is None else str(entry) for entry in access.index)
    return f"{access.space}({', '.join(entries)})"


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "(none)"
