"""Ways to run a loop nest on arrays: compiled by LLVM, or printed as C and compiled by cc."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from loopwright.backends.c_text.c_dialect import OPENMP, Dialect
from loopwright.backends.c_text.c_module import emit_functions
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.backends.llvm.llvm_entry import entry_symbols
from loopwright.diagnostics import UsageError
from loopwright.ir.loops import LoopNest, Space
from loopwright.kernels import thread_pool
from loopwright.lower.values.narrow_arithmetic import narrow_arithmetic
from loopwright.machines.machine_argument import target_machine
from loopwright.runtime.address import data_address
from loopwright.runtime.kernel import CompiledKernel
from loopwright.runtime.llvm_engine import compile_to_object, load_object
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.validate.check_data import Runner
from loopwright.validate.check_order import is_parallel, launch_of
from loopwright.validate.reference_run import Arrays

__all__ = ["c_runners", "jit_runner", "jit_runners"]

_NO_TABLE = np.zeros(0, np.int64)


def jit_runner(nest: LoopNest, threads: int = 1) -> Runner:
    """The nest as machine code; each call runs it on the given arrays by `threads` threads."""
    (run,) = jit_runners(nest, (threads,))
    return run


def jit_runners(nest: LoopNest, teams: Sequence[int]) -> tuple[Runner, ...]:
    """The same machine code for each number of threads."""
    _refuse_tables(nest)
    module = emit_module(narrow_arithmetic(nest), target_machine().features)
    text = compile_to_object(module.units)
    code = load_object(text, entry_symbols(nest.name))
    kernel = CompiledKernel(code, nest.name, module.buffers, module.scalars, is_parallel(nest))

    def run(threads: int, arrays: Arrays, params: Mapping[str, int]) -> None:
        bound = kernel.bind(launch_of(nest, arrays, params), _NO_TABLE, threads, thread_pool)
        bound(*(arrays[name] for name in kernel.buffers))

    return tuple(partial(run, threads) for threads in teams)


def c_runners(
    nests: Sequence[LoopNest], flags: Sequence[str], dialect: Dialect = OPENMP
) -> tuple[Runner, ...]:
    """The nests as C functions of one library: one run of the compiler serves many nests."""
    for nest in nests:
        _refuse_tables(nest)
    named = [replace(narrow_arithmetic(nest), name=f"kernel_{at}") for at, nest in enumerate(nests)]
    if not named:
        return ()
    library = load_library(build_library(emit_functions(named, dialect).text, flags))
    return tuple(_c_runner(library, nest) for nest in named)


def _c_runner(library: ctypes.CDLL, nest: LoopNest) -> Runner:
    function = library[nest.name]
    scalars, arguments = [ctypes.c_int64] * len(nest.scalars), [ctypes.c_void_p] * len(nest.buffers)
    function.argtypes, function.restype = [*scalars, *arguments], None

    def run(arrays: Arrays, params: Mapping[str, int]) -> None:
        launch = launch_of(nest, arrays, params)
        values = [launch[name] for name in nest.scalars]
        function(*values, *(data_address(arrays[buffer.name]) for buffer in nest.buffers))

    return run


def _refuse_tables(nest: LoopNest) -> None:
    if any(buffer.space is Space.TABLE for buffer in nest.buffers):
        raise UsageError("a nest with tables of offsets has no program to be compared with")
