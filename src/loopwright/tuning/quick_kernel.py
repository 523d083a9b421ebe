"""From a LoopTree to a callable in milliseconds, and how long a call takes.

Candidates of a search are compiled, run a few times and forgotten: nothing is written to disk, no
cache keeps them, and LLVM gives their memory back when the last reference goes (runtime/
llvm_engine).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.backends.llvm.llvm_entry import entry_symbols
from loopwright.diagnostics import UsageError
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Role
from loopwright.kernels import thread_pool
from loopwright.machines.host import host
from loopwright.runtime.address import data_address, function_at
from loopwright.runtime.array_arguments import overlap
from loopwright.runtime.kernel import CompiledKernel
from loopwright.runtime.llvm_engine import compile_as_written, compile_to_object, load_object
from loopwright.runtime.scratch import local_scratch
from loopwright.tuning.loop_tree import LoopTree, shape_of
from loopwright.tuning.lower_tree import lower_tree
from loopwright.tuning.parallel_code import parallel_code
from loopwright.tuning.parallel_kernel import bind_parallel
from loopwright.tuning.quick_code import can_emit, emit_tree
from loopwright.tuning.tree_check import require_sound

__all__ = ["TreeKernel", "compile_tree", "compile_tree_by_pipeline", "seconds_of"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Arrays: TypeAlias = Mapping[str, Array]


class TreeKernel:
    """The compiled loops of a tree, to be called with arrays by name."""

    __slots__ = ("_bind", "_names", "_shapes", "_words", "_written", "tree")

    def __init__(
        self,
        tree: LoopTree,
        bind: Callable[[Sequence[Array]], Callable[[], None]],
        words: Callable[[Sequence[Array]], tuple[int, ...]] | None = None,
    ) -> None:
        self.tree = tree
        self._bind = bind
        self._words = words
        arguments = [a for a in tree.arrays if a.role is not Role.LOCAL]
        self._names = tuple(a.name for a in arguments)
        self._shapes = {a.name: (shape_of(a), a.dtype.numpy) for a in arguments}
        self._written = tuple(a.name for a in arguments if a.role is not Role.IN)

    def __call__(self, arrays: Arrays) -> None:
        """Run on arrays that are contiguous and have the shapes and types of the tree."""
        self.call_on(arrays)()

    def call_on(self, arrays: Arrays) -> Callable[[], None]:
        """The call with these arrays, checked once, for repeated measurement."""
        return self._bind(self._checked(arrays))

    def native(self, arrays: Arrays) -> tuple[int, ...] | None:
        """The address of the code and of its arguments, for native code that repeats the call.

        They keep what they point to; None where the code is called otherwise.
        """
        given = self._checked(arrays)
        return None if self._words is None else self._words(given)

    def _checked(self, arrays: Arrays) -> list[Array]:
        if set(arrays) != set(self._names):
            raise UsageError(
                f"the tree takes the arrays {', '.join(self._names)}", ", ".join(arrays)
            )
        for name, array in arrays.items():
            shape, dtype = self._shapes[name]
            if not isinstance(array, np.ndarray):
                raise UsageError(f"array {name} must be an array of NumPy", type(array).__name__)
            if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
                raise UsageError(
                    f"array {name} must be contiguous {dtype} of shape {list(shape)}",
                    found=f"{array.dtype} of shape {list(array.shape)}",
                )
            if not array.flags.aligned:
                raise UsageError(f"array {name} is not aligned", hint="pass a copy of it")
        for name in self._written:
            if not arrays[name].flags.writeable:
                raise UsageError(f"array {name} is read-only", hint="pass a writable array")
            for other in self._names:
                if other != name and overlap(arrays[name], arrays[other]):
                    raise UsageError(
                        f"array {name} shares memory with {other}", hint="pass a fresh array"
                    )
        return [arrays[name] for name in self._names]


def compile_tree(tree: LoopTree, machine: Machine | None = None, threads: int = 1) -> TreeKernel:
    """The kernel of a tree in its own loop order, compiled quickly.

    What quick code does not have (see `can_emit`) is compiled by LLVM's pipeline; parallel loops
    are cut into chunks of `threads` threads that have quick code each.
    """
    require_sound(tree)
    if not can_emit(tree):
        return _compile_chunks(tree, machine, threads) or compile_tree_by_pipeline(
            tree, machine, threads
        )
    code = emit_tree(tree, machine or host())
    loaded = load_object(compile_as_written(code.text), (code.entry,))
    pointers = [ctypes.c_void_p] * (1 + len(code.arrays))
    run = function_at(loaded.address(code.entry), *pointers)

    def bind(arrays: Sequence[Array]) -> Callable[[], None]:
        firsts = [data_address(array) for array in arrays]
        memory = local_scratch().reserve(code.memory)
        return lambda: run(memory, *firsts)

    def words(arrays: Sequence[Array]) -> tuple[int, ...]:
        memory = local_scratch().reserve(code.memory)
        return loaded.address(code.entry), memory, *map(data_address, arrays)

    return TreeKernel(tree, bind, words)


def _compile_chunks(tree: LoopTree, machine: Machine | None, threads: int) -> TreeKernel | None:
    """The kernel of a tree with parallel loops; None where there are none or no quick code."""
    if not any(loop.mark is Mark.PARALLEL for nest in tree.nests for loop in nest.loops):
        return None
    code = parallel_code(tree, machine or host(), threads)
    if code is None:
        return None
    loaded = load_object(compile_as_written(code.text), code.entries)
    arguments = [a.name for a in tree.arrays if a.role is not Role.LOCAL]
    return TreeKernel(tree, bind_parallel(code, loaded, arguments))


def compile_tree_by_pipeline(
    tree: LoopTree, machine: Machine | None = None, threads: int = 1
) -> TreeKernel:
    """The kernel of the same loops, optimised by LLVM's whole pipeline (-O3)."""
    require_sound(tree)
    module = emit_module(lower_tree(tree), (machine or host()).features)
    is_parallel = any(x.mark is Mark.PARALLEL for nest in tree.nests for x in nest.loops)
    loaded = load_object(compile_to_object(module.units), entry_symbols(module.entry))
    kernel = CompiledKernel(loaded, module.entry, module.buffers, (), is_parallel=is_parallel)
    bound = kernel.bind({}, np.empty(0, np.int64), threads, thread_pool)
    return TreeKernel(tree, lambda arrays: lambda: bound(*arrays))


def seconds_of(
    run: Callable[[], None],
    *,
    warm_up: int = 1,
    least_seconds: float = 0.01,
    most_runs: int = 1000,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The fastest call among those that fit into `least_seconds`, after some that do not count.

    `clock` may be that of this thread's processor time, which others on the machine disturb less.
    """
    for _ in range(warm_up):
        run()
    best, count = float("inf"), 0
    end = clock() + least_seconds
    while count < most_runs:
        start = clock()
        run()
        stop = clock()
        best, count = min(best, stop - start), count + 1
        if stop >= end:
            break
    return best
