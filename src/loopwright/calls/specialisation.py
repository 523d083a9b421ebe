"""Calls of compiled functions: arguments to arrays and parameters, units of code run in order.

A program that is one contraction runs as its prologues, the contraction's kernel and its epilogue.
Any other program runs as the loop nest of the generic road.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loopwright.analysis.bounds import bounds_violation, find_violation, predicate
from loopwright.analysis.contraction import explain as explain_contractions
from loopwright.analysis.contraction import find_contractions
from loopwright.calls.contraction import ContractionUnit
from loopwright.diagnostics import SourceError, UsageError
from loopwright.frontends.extract import extract
from loopwright.frontends.tree import ArrayParam, IntParam, ScalarParam, SourceTree
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Array, Program, Role
from loopwright.ir.text import nest_text, program_text
from loopwright.kernels import nest_kernel, nest_module, thread_pool
from loopwright.lower.buffers import stride_name
from loopwright.pipeline import generic_nest
from loopwright.planner.numbers import value_of
from loopwright.runtime import jit
from loopwright.runtime.arguments import Array as NumpyArray
from loopwright.runtime.arguments import as_operand, element_strides, overlap

__all__ = ["Specialisation"]

_MOST_PREPARED = 1024

Values = dict[str, int]
Arrays = dict[str, NumpyArray]


@dataclass(frozen=True, slots=True)
class Unit:
    """One kernel call of a prepared program."""

    run: Callable[..., None]
    buffers: tuple[str, ...]


class Specialisation:
    """A function for one tuple of argument types."""

    def __init__(self, tree: SourceTree, reassoc: bool) -> None:
        self.tree = tree
        self.program: Program = replace(extract(tree), reassoc=reassoc)
        self._violated = predicate(bounds_violation(self.program))
        found = find_contractions(self.program)
        names = {s.name for s in self.program.statements}
        whole = len(found) == 1 and set(found[0].covers) == names
        self.contraction = found[0] if whole else None
        self._nests: dict[tuple[Any, ...], LoopNest] = {}
        self._prepared: dict[tuple[Any, ...], Callable[[Arrays], None]] = {}
        written = {s.write.array for s in self.program.statements}
        self._written = tuple(
            a.name for a in self.program.arrays if a.name in written and a.role is not Role.LOCAL
        )

    def __call__(self, args: tuple[Any, ...], threads: int) -> Any:
        params, arrays = self._bind(args)
        self._check_aliases(arrays)
        key = (threads, *params.values(), *((a.shape, a.strides) for a in arrays.values()))
        run = self._prepared.get(key)
        if run is None:
            run = self._prepare(params, arrays, threads)
            if len(self._prepared) >= _MOST_PREPARED:
                self._prepared.clear()
            self._prepared[key] = run
        run(arrays)
        return self._result(args, arrays)

    # -- arguments ------------------------------------------------------------------------------

    def _bind(self, args: tuple[Any, ...]) -> tuple[Values, Arrays]:
        """Parameters and arrays by the names the program gives them."""
        params: Values = {}
        arrays: Arrays = {}
        for param, arg in zip(self.tree.params, args, strict=True):
            match param:
                case ArrayParam(name=name, shape=shape):
                    array = arg
                    if not arg.flags.aligned or any(s % arg.itemsize for s in arg.strides):
                        array = self._aligned(name, arg)
                    arrays[name] = array
                    for extent, size in zip(shape, arg.shape, strict=True):
                        params[extent.name] = size  # type: ignore[union-attr]
                case IntParam(name=name):
                    params[name] = int(arg)
                case ScalarParam(name=name, dtype=dtype):
                    arrays[name] = np.array(arg, dtype=dtype.numpy)
        for array in self.program.arrays:
            if array.role is Role.OUT:
                sizes = tuple(max(0, value_of(x, params)) for x in array.shape)
                arrays[array.name] = np.empty(sizes, array.dtype.numpy)
        return params, arrays

    def _aligned(self, name: str, array: NumpyArray) -> NumpyArray:
        if name in self._written:
            raise UsageError(
                f"argument '{name}' is not aligned to its elements", hint="pass a fresh array"
            )
        return as_operand(array, f"argument '{name}'")

    def _check_aliases(self, arrays: Arrays) -> None:
        """What the function writes must be writable and lie apart from everything else."""
        for name in self._written:
            if not arrays[name].flags.writeable:
                raise UsageError(f"argument '{name}' is written but read-only", hint="pass a copy")
        for name, other in itertools.product(self._written, arrays):
            if name != other and overlap(arrays[name], arrays[other]):
                raise UsageError(
                    f"arguments '{name}' and '{other}' share memory, and '{name}' is written",
                    hint="pass a copy of one of them",
                )

    def _result(self, args: tuple[Any, ...], arrays: Arrays) -> Any:
        result = self.tree.result
        if result is None:
            return None
        places = {p.name: k for k, p in enumerate(self.tree.params)}
        values = [
            args[places[name]] if name in places else arrays[name][()] for name in result.names
        ]
        return tuple(values) if result.is_tuple else values[0]

    # -- code -----------------------------------------------------------------------------------

    def _prepare(self, params: Values, arrays: Arrays, threads: int) -> Callable[[Arrays], None]:
        """Check the sizes, fetch kernels and bind launches for one set of shapes."""
        if self._violated(params):
            found = find_violation(self.program, params)
            assert found is not None
            raise SourceError(found)
        if self.contraction is not None:
            unit = ContractionUnit(self.program, self.contraction)
            return unit.prepare(params, arrays, threads)
        nest = self._nest(arrays, threads)
        kernel = nest_kernel(nest, repr(nest))
        values = {**params, **_strides(self.program.arrays, arrays)}
        empty = np.zeros(0, dtype=np.int64)
        bound = kernel.bind(values, empty, threads, thread_pool)
        names = kernel.buffers
        return lambda given: bound(*(given[name] for name in names))

    def _nest(self, arrays: Mapping[str, NumpyArray], threads: int) -> LoopNest:
        """The generic road's nest for arrays with these unit strides."""
        strides = _strides(self.program.arrays, arrays)
        unit = {name: 1 for name, stride in strides.items() if stride == 1}
        key = (threads > 1, *sorted(unit))
        found = self._nests.get(key)
        if found is None:
            found = self._nests[key] = generic_nest(self.program, unit, parallel=threads > 1)
        return found

    # -- reports --------------------------------------------------------------------------------

    def inspect_schedule(self) -> str:
        return program_text(self.program)

    def inspect(self, stage: str, args: tuple[Any, ...], threads: int) -> str:
        """The text of a stage for one call: loops, llvm or asm."""
        params, arrays = self._bind(args)
        if self.contraction is not None:
            unit = ContractionUnit(self.program, self.contraction)
            return unit.inspect(stage, params, arrays, threads)
        nest = self._nest(arrays, threads)
        if stage == "loops":
            return nest_text(nest)
        text = nest_module(nest).text
        return text if stage == "llvm" else jit.assembly(text)

    def explain(self, args: tuple[Any, ...] = (), threads: int = 1) -> str:
        """What each statement is taken for, and the plan of a call when its arguments are given."""
        lines = list(explain_contractions(self.program))
        if args and self.contraction is not None:
            params, arrays = self._bind(args)
            unit = ContractionUnit(self.program, self.contraction)
            lines.append(unit.explain(params, arrays, threads))
        return "\n".join(lines)


def _strides(declared: tuple[Array, ...], arrays: Mapping[str, NumpyArray]) -> Values:
    found: Values = {}
    for array in declared:
        if array.name in arrays:
            for d, stride in enumerate(element_strides(arrays[array.name])):
                found[stride_name(array.name, d)] = stride
    return found
