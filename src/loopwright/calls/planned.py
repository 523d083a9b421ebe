"""Code of a program for a plan and a target of the caller's choice.

The road of `specialisation` decides for each call anew, by the model. Here the plan is made or
given once; the code is LLVM's, or C compiled by the system's compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from loopwright.analysis.find_contractions import explain
from loopwright.calls.arguments import Arrays, Signature, Values, stride_values, unit_strides
from loopwright.calls.function_summary import FunctionSummary, compile_test
from loopwright.calls.polyhedral_function import PolyhedralFunction
from loopwright.computed_once import computed_once
from loopwright.diagnostics import Diagnostic, SourceError
from loopwright.frontends.source_tree import SourceTree
from loopwright.ir.loops import LoopNest
from loopwright.ir.machine import Machine
from loopwright.ir.module import Module
from loopwright.ir.program import Program
from loopwright.ir.text import program_text, schedule_text
from loopwright.kernels import nest_kernel, stage_text, thread_pool
from loopwright.lower.buffers import specialise
from loopwright.machines.machine_argument import require_runnable
from loopwright.pipeline import compile_program
from loopwright.planner.planners import Planner
from loopwright.runtime.address import data_address
from loopwright.runtime.array_arguments import element_strides
from loopwright.runtime.toolchain import (
    build_library,
    find_compiler,
    find_function,
    load_library,
    openmp_threads,
    tuning_flags,
)
from loopwright.targets import TARGETS
from loopwright.transform.plan import Plan

__all__ = ["PlannedCode"]

Violation: TypeAlias = Callable[[Values], Diagnostic]  # what goes wrong for unsafe parameters

_NO_TABLE = np.zeros(0, dtype=np.int64)


class PlannedCode:
    """The code of one program. Arrays of calls are laid out as in C, with the declared extents."""

    def __init__(
        self,
        program: Program,
        summary: FunctionSummary,
        planner: Planner,
        target: str,
        violation: Violation,
        machine: Machine,
        threads: int,
    ) -> None:
        self._target = target
        self._summary = summary
        self._signature = Signature(summary)
        self._is_unsafe = compile_test(summary.unsafe, summary.params)
        self._violation = violation
        self._machine = machine
        # Also of machine code the C can be inspected.
        printed = "openmp" if TARGETS[target].dialect is None else target
        found = compile_program(program, machine, threads, planner, printed)
        # isl objects belong to this thread: what reports need is made now.
        self.plan, self._nest = found.plan, found.nest
        self._text = program_text(program)
        self._schedule = schedule_text(found.schedule)
        self._taken_for = explain(program)
        assert found.module is not None
        self._module = found.module

    @classmethod
    def of_tree(
        cls,
        tree: SourceTree,
        planner: Planner,
        target: str,
        machine: Machine,
        threads: int,
        *,
        reassoc: bool,
    ) -> PlannedCode:
        """The code of a source tree."""
        function = PolyhedralFunction(tree, reassoc=reassoc)

        def violation(params: Values) -> Diagnostic:
            return PolyhedralFunction(tree, reassoc=reassoc).violation(params)

        summary = function.summary()
        return cls(function.program, summary, planner, target, violation, machine, threads)

    def __call__(self, args: tuple[Any, ...], threads: int) -> None:
        _, arrays = self._signature.bind(args)
        params = self._checked(args, arrays)
        if self._target == "host":
            require_runnable(self._machine)
            self._run_nest(params, arrays, threads)
        else:
            self._library.run(params, arrays, threads)

    def _checked(self, args: tuple[Any, ...], arrays: Arrays) -> Values:
        params = self._signature.params(args)
        self._signature.check_layout(arrays)
        if self._is_unsafe(params):
            raise SourceError(self._violation(params))
        return params

    def _run_nest(self, params: Values, arrays: Arrays, threads: int) -> None:
        strides = {name: element_strides(array) for name, array in arrays.items()}
        unit = unit_strides(strides)
        key = f"planned {self._text} {self.plan.dumps()} {sorted(unit)}"
        kernel = nest_kernel(key, lambda: specialise(self._nest, unit))
        bound = kernel.bind(params | stride_values(strides), _NO_TABLE, threads, thread_pool)
        bound(*(arrays[name] for name in kernel.buffers))

    @computed_once
    def _library(self) -> _Library:
        return _Library(self._module, self._nest, openmp=self._target == "openmp")

    # -- reports ----------------------------------------------------------------------------------

    def explain(self, args: tuple[Any, ...] = (), threads: int = 1) -> str:
        """What each statement is taken for, and the steps."""
        steps = [f"  {step}" for step in self.plan] or ["  none: loops in source order"]
        return "\n".join([*self._taken_for, "steps:", *steps])

    def plan_of(self, args: tuple[Any, ...] = (), threads: int = 1) -> Plan:
        """The plan, whatever the call."""
        return self.plan

    def inspect(self, stage: str, args: tuple[Any, ...], threads: int) -> str:
        """The text of a stage."""
        return self._module.text if stage == "c" else stage_text(self._nest, stage, self._machine)

    def inspect_schedule(self) -> str:
        return self._schedule


class _Library:
    """The C of a nest, compiled and loaded."""

    def __init__(self, module: Module, nest: LoopNest, *, openmp: bool) -> None:
        compiler = find_compiler()
        code = build_library(module.text, tuning_flags(compiler, openmp=openmp), compiler)
        library = load_library(code)
        self._scalars = module.scalars
        self._buffers = module.buffers
        self._function = library[module.entry]
        self._function.restype = None
        kinds: list[Any] = [ctypes.c_int64] * len(module.scalars)
        self._function.argtypes = kinds + [ctypes.c_void_p] * len(module.buffers)
        # The OpenMP runtime comes with the library, if there is one.
        self._set_threads = find_function(library, "omp_set_num_threads") if openmp else None

    def run(self, params: Values, arrays: Arrays, threads: int) -> None:
        if self._set_threads is not None:
            self._set_threads(openmp_threads(threads))
        places = (data_address(arrays[name]) for name in self._buffers)
        self._function(*(params[name] for name in self._scalars), *places)
