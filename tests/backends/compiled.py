"""A loop nest compiled by LLVM and run beside the interpreter on the same memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from loopwright.backends.llvm.llvm_bounds_check import checked_names
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.backends.llvm.llvm_entry import entry_symbols
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import Memory, interpret_nest
from loopwright.ir.loops import LoopNest, Space
from loopwright.kernels import thread_pool
from loopwright.runtime.checked_kernel import CheckedKernel
from loopwright.runtime.kernel import CompiledKernel
from loopwright.runtime.llvm_engine import compile_to_object, load_object

Arrays = Mapping[str, np.ndarray]


def compile_nest(
    nest: LoopNest, features: frozenset[str] = frozenset(), *, bounds: bool = False
) -> CompiledKernel:
    """The kernel of a checked nest, past every cache; with `bounds` it checks its accesses."""
    check_nest(nest)
    module = emit_module(nest, features, checked=bounds)
    code = load_object(compile_to_object(module.text), entry_symbols(nest.name))
    parts = code, nest.name, module.buffers, module.scalars
    if not bounds:
        return CompiledKernel(*parts)
    ranks = [len(b.strides) for b in nest.buffers if b.space is Space.GLOBAL]
    return CheckedKernel(*parts, True, checked_names(nest), ranks)


def run_kernel(
    kernel: CompiledKernel,
    nest: LoopNest,
    arrays: Arrays,
    scalars: Mapping[str, int],
    threads: int = 1,
) -> None:
    """Run a kernel in place; the first element of each array is element 0 of its buffer."""
    tables = [arrays[b.name] for b in nest.buffers if b.space is Space.TABLE]
    table = tables[0] if tables else np.zeros(0, np.int64)
    bound = kernel.bind(dict(scalars), table, threads, thread_pool)
    bound(*(arrays[name] for name in kernel.buffers))


def assert_same_bits(found: np.ndarray, expected: np.ndarray, what: object = "") -> None:
    """Equal bit by bit, but for which NaN a NaN is."""
    assert found.dtype == expected.dtype
    if found.shape == expected.shape and found.tobytes() == expected.tobytes():
        return
    parts = (found.real, found.imag), (expected.real, expected.imag)
    for x, y in zip(*parts, strict=True):
        if x.dtype.kind == "f":
            np.testing.assert_array_equal(np.isnan(x), np.isnan(y), err_msg=str(what))
            x, y = (np.where(np.isnan(part), 0, part) for part in (x, y))
            np.testing.assert_array_equal(np.signbit(x), np.signbit(y), err_msg=f"sign: {what}")
        np.testing.assert_array_equal(x, y, err_msg=str(what))


def assert_compiled(
    nest: LoopNest,
    arrays: Arrays,
    scalars: Mapping[str, int] | None = None,
    threads: tuple[int, ...] = (1,),
    features: frozenset[str] = frozenset(),
    *,
    bounds: bool = False,
) -> dict[str, np.ndarray]:
    """Compiled code leaves what the interpreter leaves; returns the interpreter's arrays."""
    scalars = scalars or {}
    expected = {name: _same_layout(array) for name, array in arrays.items()}
    memory = {name: Memory.of(array) for name, array in expected.items()}
    interpret_nest(nest, memory, scalars)
    kernel = compile_nest(nest, features, bounds=bounds)
    for count in threads:
        found = {name: _same_layout(array) for name, array in arrays.items()}
        run_kernel(kernel, nest, found, scalars, count)
        for name, array in expected.items():
            # The gaps between strided elements count too: nothing else may be written.
            assert_same_bits(Memory.of(found[name]).data, Memory.of(array).data, name)
    return expected


def _same_layout(array: np.ndarray) -> np.ndarray:
    """A copy of an array with its strides and everything in its gaps."""
    memory = Memory.of(array)
    copy = memory.data.copy()
    return np.lib.stride_tricks.as_strided(copy[memory.base :], array.shape, array.strides)
