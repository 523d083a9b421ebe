"""A Program as a callable: its parameters, then its arrays, by position or by name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from loopwright.analysis.subscript_bounds import find_violation
from loopwright.calls.arguments import Values
from loopwright.calls.c_function import checked_array
from loopwright.calls.function_summary import Argument, FunctionSummary
from loopwright.calls.planned import PlannedCode
from loopwright.calls.polyhedral_function import unsafe_sizes
from loopwright.diagnostics import Diagnostic, UsageError
from loopwright.ir.expr import Var
from loopwright.ir.machine import Machine
from loopwright.ir.program import Array, Program, Role
from loopwright.planner.call_shape import value_of
from loopwright.planner.planners import Planner
from loopwright.targets import TARGETS
from loopwright.tracebacks import public_edge

__all__ = ["CompiledProgram"]


class CompiledProgram:
    """A compiled Program. A parameter that is the extent of an array need not be given."""

    def __init__(
        self,
        program: Program,
        planner: Planner,
        target: str,
        machine: Machine,
        threads: Callable[[], int],
    ) -> None:
        self.program = program
        self._owner = threading.get_ident()
        self._threads = threads
        self._arrays = tuple(a for a in program.arrays if a.role is not Role.LOCAL)
        self._names = (*program.params, *(a.name for a in self._arrays))
        count = TARGETS[target].threads(threads())
        summary, violation = _summary(program), self._violation
        self._code = PlannedCode(program, summary, planner, target, violation, machine, count)
        self.plan = self._code.plan

    @public_edge
    def __call__(self, *args: Any, **named: Any) -> None:
        """Run the program on the arrays, in place."""
        self._code(self._bound(args, named), self._threads())

    @public_edge
    def explain(self) -> str:
        """What each statement is taken for, and the steps that were taken."""
        return self._code.explain()

    @public_edge
    def inspect_schedule(self) -> str:
        """The loops in the order they run."""
        return self._code.inspect_schedule()

    @public_edge
    def inspect_loops(self) -> str:
        """The loop nest that is emitted."""
        return self._code.inspect("loops", (), 1)

    @public_edge
    def inspect_c(self) -> str:
        """The loop nest as C."""
        return self._code.inspect("c", (), 1)

    @public_edge
    def inspect_llvm(self) -> str:
        """The loop nest as LLVM IR."""
        return self._code.inspect("llvm", (), 1)

    @public_edge
    def inspect_asm(self) -> str:
        """The machine code, as assembly."""
        return self._code.inspect("asm", (), 1)

    def __repr__(self) -> str:
        return f"<loopwright program {self.program.name}({', '.join(self._names)})>"

    def _bound(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        names = self._names
        # Without parameters, positions are those of the arrays.
        if len(args) <= len(self._arrays) and not set(named) & set(names[-len(self._arrays) :]):
            names = tuple(a.name for a in self._arrays)
        given = dict(zip(names, args, strict=False))
        wrong = sorted(set(named) - set(self._names) | set(named) & set(given))
        if wrong or len(args) > len(names):
            what = wrong[0] if wrong else f"{len(args)} arguments"
            raise UsageError(f"'{self.program.name}' takes other arguments", what, self._hint())
        given |= named
        params = {name: self._param(name, given) for name in self.program.params}
        arrays = [self._array(array, given, params) for array in self._arrays]
        return (*params.values(), *arrays)

    def _hint(self) -> str:
        return ", ".join(self._names)

    def _param(self, name: str, given: dict[str, Any]) -> int:
        if name in given:
            value = given[name]
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise UsageError(f"'{name}' is an integer", found=repr(value)[:60])
            return int(value)
        for array in self._arrays:
            extents = getattr(given.get(array.name), "shape", ())
            for extent, size in zip(array.shape, extents, strict=False):
                if extent == Var(name):
                    return int(size)
        raise UsageError(f"'{name}' is missing", hint=self._hint())

    def _array(self, array: Array, given: dict[str, Any], params: Values) -> Any:
        if array.name not in given:
            raise UsageError(f"'{array.name}' is missing", hint=self._hint())
        value = given[array.name]
        if not array.shape and array.role is Role.IN:
            return value
        shape = tuple(value_of(extent, params) for extent in array.shape)
        return checked_array(array.name, value, array.dtype, shape)

    def _violation(self, params: Values) -> Diagnostic:
        # isl objects belong to the thread that made the program.
        if threading.get_ident() != self._owner:
            sizes = ", ".join(f"{name} = {value}" for name, value in params.items())
            raise UsageError(f"'{self.program.name}' leaves its arrays", found=sizes)
        found = find_violation(self.program, params)
        assert found is not None, f"{self.program.name} is safe for {params}"
        return found


def _summary(program: Program) -> FunctionSummary:
    unsafe = unsafe_sizes(program)
    arguments = [Argument("int", name, "int64", ()) for name in program.params]
    for array in program.arrays:
        if array.role is not Role.LOCAL:
            kind = "scalar" if not array.shape and array.role is Role.IN else "array"
            sizes = tuple(e.name if isinstance(e, Var) else "" for e in array.shape)
            arguments.append(Argument(kind, array.name, array.dtype.name, sizes))
    return FunctionSummary(
        program.name, tuple(arguments), None, program.params, program.arrays, unsafe, None
    )
