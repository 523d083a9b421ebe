"""Calls of a whole function with the same shapes, strides and integers: by Python, or recorded."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from loopwright.calls.arguments import stride_values
from loopwright.calls.entry_values import EntryValues
from loopwright.calls.procedure_definition import Interface
from loopwright.calls.procedure_results import ResultLayout
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.procedure import STATUS, Procedure
from loopwright.runtime.address import raise_fetched
from loopwright.runtime.array_arguments import Array, element_strides, overlap
from loopwright.runtime.call_table import CallProgram

if TYPE_CHECKING:
    from loopwright.runtime.kernel import CompiledKernel

__all__ = ["ForPython", "ProcedureCall", "argument_strides"]

_NO_TABLE = np.zeros(0, dtype=np.int64)


class ForPython(Exception):  # noqa: N818, a verdict and no error
    """Raised with the reason where a call is for the Python function."""


class ProcedureCall:
    """Runs a kernel on the arguments of a call, and gives what the function returns."""

    def __init__(
        self,
        kernel: CompiledKernel,
        args: tuple[Any, ...],
        values: EntryValues,
        known: Interface,
    ) -> None:
        procedure, failures, written = known
        strides = argument_strides(procedure, args)
        scalars = {**values.integers, **stride_values(strides)}
        self._bound = kernel.bind(scalars, _NO_TABLE, 1, None)
        self._parameters, self._buffers = procedure.parameters, kernel.buffers
        self._names = [p.name for p in procedure.parameters]
        self._results = ResultLayout(procedure, values)
        makers = self._results.makers
        self._numbers = {
            k: DTYPES[procedure.array(p.name).dtype.name].numpy
            for k, p in enumerate(procedure.parameters)
            if p.kind == "number"
        }
        # Where each buffer of the kernel comes from: arguments, then results, then the status.
        places = {name: k for k, name in enumerate([*self._names, *makers, STATUS])}
        self._order = [places[name] for name in kernel.buffers]
        self._fresh = tuple(makers.values())
        self._written = [places[name] for name in written]
        arrays = [k for k, p in enumerate(procedure.parameters) if p.kind == "array"]
        self._apart = [
            (i, j)
            for i in self._written
            for j in arrays
            if i != j and (j not in self._written or i < j)
        ]
        self._failures = failures
        self._room = 0  # words of the status
        if STATUS in kernel.buffers:
            self._room = 1 + max((3, *(failure.values for failure in failures)))

    def __call__(self, args: tuple[Any, ...]) -> Any:
        """Run the kernel; raises ForPython before anything is written."""
        names = self._names
        for i in self._written:
            if not args[i].flags.writeable:
                raise ForPython(f"argument '{names[i]}' is read-only and written")
        for i, j in self._apart:
            if overlap(args[i], args[j]):
                raise ForPython(f"arguments '{names[i]}' and '{names[j]}' share memory")
        memory = [*args, *[make() for make in self._fresh]]
        for k, dtype in self._numbers.items():
            memory[k] = np.array(args[k], dtype)
        if not self._room:
            self._bound(*[memory[k] for k in self._order])
            return self._results.finish(memory)
        status = np.empty(self._room, np.int64)
        memory.append(status)
        self._bound(*[memory[k] for k in self._order])
        if status[0]:
            self._raise(status)
        return self._results.finish(memory)

    def record(self, program: CallProgram, args: tuple[Any, ...]) -> bool:
        """Write down what such a call does; False where the dispatcher cannot do it."""
        if len(self._parameters) != len(args) or not self._results.is_plain():
            return False
        numbers: dict[str, int] = {}
        arrays: dict[int, Array] = {}  # by place, counted from 1
        for place, (parameter, arg) in enumerate(zip(self._parameters, args, strict=True), 1):
            if parameter.kind == "array":
                if not arg.size:
                    return False
                arrays[place] = arg
                numbers[parameter.name] = program.argument(place)
            elif parameter.kind == "number":
                if type(arg) is not float or self._numbers[place - 1] != np.float64:
                    return False
                numbers[parameter.name] = program.number(place, single=False)
        samples = {name: make() for name, make in self._results.makers.items()}
        for name, sample in samples.items():
            strides = None if sample.flags.c_contiguous else sample.strides
            numbers[name] = program.new(sample.shape, sample.dtype, strides)
        if self._room:
            numbers[STATUS] = program.new((self._room,), np.dtype(np.int64))
            program.fails(numbers[STATUS], self._raise)
        program.launch(self._bound, *(numbers[name] for name in self._buffers))
        for i in self._written:
            program.writes(i + 1)
        for i, j in self._apart:
            program.apart(i + 1, args[i], j + 1, args[j])
        program.kept += [array.dtype for array in arrays.values()]
        named = dict(zip(self._names, args, strict=True))
        self._results.record(program, numbers, {**named, **samples})
        return True

    def _raise(self, status: Array) -> None:
        """Raise the exception of the check that has failed."""
        number = int(status[0])
        if number < 0:
            raise_fetched(status[1:])
        failure = self._failures[number - 1]
        kind: type[Exception] = getattr(builtins, failure.exception)
        raise kind(failure.text.format(*map(int, status[1 : 1 + failure.values])))


def argument_strides(procedure: Procedure, args: tuple[Any, ...]) -> dict[str, tuple[int, ...]]:
    """Strides in elements of the arrays among the arguments."""
    pairs = zip(procedure.parameters, args, strict=True)
    return {p.name: element_strides(arg) for p, arg in pairs if p.kind == "array"}
