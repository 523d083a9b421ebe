"""Loop nests printed as C, compiled by the system's compiler and run beside the interpreter.

One run of the compiler takes longer than all nests of a test do: many nests share one file.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from loopwright.backends.c_text.c_dialect import OPENMP, Dialect
from loopwright.backends.c_text.c_module import RegionSurroundings, emit_functions, emit_region
from loopwright.backends.c_text.c_syntax import c_type
from loopwright.diagnostics import ToolchainError
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import INT64
from loopwright.ir.loops import LoopNest, Space
from loopwright.runtime.toolchain import Compiler, build_library, find_compiler, load_library
from needed_tools import needs_compiler

Arrays = Mapping[str, np.ndarray]

# No contraction: the interpreter rounds every operation.
EXACT = (
    "-O1",
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused",
    "-Wno-unknown-pragmas",
)


@cache
def compiler() -> Compiler | None:
    try:
        return find_compiler()
    except ToolchainError:
        return None


needs_cc = needs_compiler


def has_openmp() -> bool:
    found = compiler()
    return found is not None and found.accepts("-fopenmp")


def compile_c(
    nests: Sequence[LoopNest], dialect: Dialect = OPENMP, flags: Sequence[str] = EXACT
) -> list[Compiled]:
    """The nests as functions of arrays and launch values, all from one file."""
    for nest in nests:
        check_nest(nest)
    named = [replace(nest, name=f"f{k}") for k, nest in enumerate(nests)]
    text = emit_functions(named, dialect).text
    library = load_library(build_library(text, flags, compiler()))
    return [Compiled(library, nest) for nest in named]


class Compiled:
    """A function of a loaded library; calls change arrays in place."""

    def __init__(self, library: ctypes.CDLL, nest: LoopNest) -> None:
        self._library = library
        self._scalars = nest.scalars
        tables = [b.name for b in nest.buffers if b.space is Space.TABLE][:1]
        self._names = [*tables, *(b.name for b in nest.buffers if b.space is not Space.TABLE)]
        self._function = library[nest.name]
        kinds = [ctypes.c_int64] * len(nest.scalars)
        self._function.argtypes = kinds + [ctypes.c_void_p] * len(self._names)
        self._function.restype = None

    def __call__(self, arrays: Arrays, scalars: Mapping[str, int], threads: int = 1) -> None:
        if threads > 1:
            self._library.omp_set_num_threads(threads)
        launch = [scalars[name] for name in self._scalars]
        self._function(*launch, *(arrays[name].ctypes.data for name in self._names))


def compile_regions(nests: Sequence[LoopNest], flags: Sequence[str] = EXACT) -> list[Compiled]:
    """As `compile_c`, but each nest between the lines of a function that somebody else wrote."""
    named = [replace(nest, name=f"f{k}") for k, nest in enumerate(nests)]
    text = "\n".join(map(_around_region, named))
    library = load_library(build_library(text, flags, compiler()))
    return [Compiled(library, nest) for nest in named]


def _around_region(nest: LoopNest) -> str:
    arrays = {buffer.name: f"{buffer.name}_" for buffer in nest.buffers}
    parameters = [f"long {name}" for name in nest.scalars]
    parameters += [f"{c_type(b.dtype)} *restrict {arrays[b.name]}" for b in nest.buffers]
    around = RegionSurroundings(
        arrays, {name: (name, INT64) for name in nest.scalars}, margin="    "
    )
    body = emit_region(nest, OPENMP, around)
    return f"void {nest.name}({', '.join(parameters)})\n{{\n{body}}}\n"
