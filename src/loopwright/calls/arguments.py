"""Arguments of compiled functions: bound to the names of the program, checked before any use."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from itertools import accumulate
from operator import mul
from typing import Any, TypeAlias

import numpy as np

from loopwright.calls.function_summary import FunctionSummary
from loopwright.diagnostics import Diagnostic, UsageError
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.program import Role
from loopwright.lower.buffers import stride_name
from loopwright.planner.contraction_plans.call_shape import value_of
from loopwright.runtime.array_arguments import Array as NumpyArray
from loopwright.runtime.array_arguments import (
    as_operand,
    is_regular,
    made_for,
    overlap,
    overlaps_itself,
)

__all__ = [
    "Arrays",
    "Fresh",
    "Signature",
    "Strides",
    "Values",
    "Violation",
    "row_major",
    "short_strides",
    "stride_values",
]

Values: TypeAlias = dict[str, int]  # parameters by name
Arrays: TypeAlias = dict[str, NumpyArray]
Violation: TypeAlias = Callable[[Values], Diagnostic]  # what goes wrong for unsafe parameters
Fresh: TypeAlias = tuple[str, tuple[int, ...], np.dtype[Any]]  # name, shape and dtype

_LEAST, _MOST = -(2**63), 2**63 - 1


class Signature:
    """What a function takes and gives back."""

    def __init__(self, summary: FunctionSummary) -> None:
        self._arguments = summary.arguments
        self._result = summary.result
        self._places = {argument.name: k for k, argument in enumerate(summary.arguments)}
        # Arguments that the function writes.
        self.written = tuple(a.name for a in summary.arrays if a.role is Role.INOUT)
        self._fresh = tuple(a for a in summary.arrays if a.role is Role.OUT)

    def bind(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Arrays]:
        """Arrays by name, and everything else that the code for a call depends on."""
        arrays: Arrays = {}
        key: list[Any] = []
        for (kind, name, dtype, _), arg in zip(self._arguments, args, strict=True):
            if kind == "array":
                if not (arg.flags.carray or is_regular(arg)):
                    arg = self._regular(name, arg)
                arrays[name] = arg
                key += (arg.shape, arg.strides)
            elif kind == "int":
                key.append(int(arg))
            else:
                arrays[name] = np.array(arg, dtype=DTYPES[dtype].numpy)
        self._check_written(arrays)
        return tuple(key), arrays

    def params(self, args: tuple[Any, ...]) -> Values:
        """Sizes and integer arguments by name."""
        params: Values = {}
        for (kind, name, _, sizes), arg in zip(self._arguments, args, strict=True):
            if kind == "array":
                params.update(zip(sizes, arg.shape, strict=True))
            elif kind == "int":
                params[name] = _int64(name, int(arg))
        params.pop("", None)  # extents that follow from other arguments
        return params

    def check_layout(self, arrays: Arrays) -> None:
        """Refuse arrays whose elements share memory with each other where they are written."""
        for name in self.written:
            if overlaps_itself(arrays[name]):
                raise UsageError(
                    f"elements of argument '{name}' share memory, and '{name}' is written",
                    hint="pass a copy",
                )

    def fresh(self, params: Values) -> tuple[Fresh, ...]:
        """The arrays to allocate for results."""
        return tuple(
            (a.name, tuple(value_of(extent, params) for extent in a.shape), a.dtype.numpy)
            for a in self._fresh
        )

    def result(self, args: tuple[Any, ...], arrays: Arrays) -> Any:
        """What the function returns: arguments themselves, fresh arrays, and numbers."""
        if self._result is None:
            return None
        values = [
            args[self._places[name]] if name in self._places else _value(arrays[name])
            for name in self._result.names
        ]
        return tuple(values) if self._result.is_tuple else values[0]

    def _regular(self, name: str, array: NumpyArray) -> NumpyArray:
        """A copy that kernels can address of an argument that is only read."""
        if name in self.written:
            raise UsageError(
                f"argument '{name}' is not aligned to its elements, and '{name}' is written",
                hint="pass a copy",
            )
        return as_operand(array, f"argument '{name}'")

    def _check_written(self, arrays: Arrays) -> None:
        """What the function writes must be writable and lie apart from everything else."""
        for name in self.written:
            if not arrays[name].flags.writeable:
                raise UsageError(f"argument '{name}' is written but read-only", hint="pass a copy")
        for name, other in itertools.product(self.written, arrays):
            if name != other and overlap(arrays[name], arrays[other]):
                raise UsageError(
                    f"arguments '{name}' and '{other}' share memory, and '{name}' is written",
                    hint="pass a copy of one of them",
                )


def _value(array: NumpyArray) -> Any:
    return array if array.ndim else array[()]


def _int64(name: str, value: int) -> int:
    if not _LEAST <= value <= _MOST:
        raise UsageError(f"argument '{name}' does not fit int64", found=str(value))
    return value


# -- strides of the arrays of a call, in elements, and the scalars kernels know them by -----------


Strides: TypeAlias = Mapping[str, tuple[int, ...]]  # by array, one per dimension


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a fresh array."""
    return tuple(accumulate(reversed(shape[1:]), mul, initial=1))[::-1] if shape else ()


def stride_values(strides: Strides) -> dict[str, int]:
    """The value of each stride scalar."""
    return {stride_name(name, d): x for name, steps in strides.items() for d, x in enumerate(steps)}


def short_strides(strides: Strides) -> dict[str, int]:
    """The stride scalars for whose values code is made."""
    return made_for(stride_values(strides))
