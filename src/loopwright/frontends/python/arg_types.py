"""Argument types of a call, as far as compilation depends on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DTYPES, DType, dtype_of

__all__ = ["ArgType", "argument_types"]


# A tuple and not a dataclass: hashed on every call, in C.
class ArgType(NamedTuple):
    """The type of one argument."""

    kind: Literal["array", "scalar", "python"]  # NumPy array, NumPy scalar, Python number
    dtype: str  # a name of ir/dtypes; Python numbers are bool, int64, float64, complex128
    rank: int = 0

    @property
    def element(self) -> DType:
        return DTYPES[self.dtype]

    @classmethod
    def array(cls, dtype: object, rank: int) -> ArgType:
        """The type of an array of the given element type (any spelling NumPy takes) and rank."""
        return cls("array", dtype_of(dtype).name, rank)


_PYTHON: dict[type, ArgType] = {
    bool: ArgType("python", "bool"),
    int: ArgType("python", "int64"),
    float: ArgType("python", "float64"),
    complex: ArgType("python", "complex128"),
}
# (dtype, rank) -> type; dtypes of arrays are few, so this stays small.
_ARRAYS: dict[tuple[np.dtype[np.generic], int], ArgType] = {}


def argument_types(args: Iterable[object]) -> tuple[ArgType, ...]:
    """The types of the arguments of one call, in order; about half a microsecond each."""
    types: list[ArgType] = []
    for arg in args:
        if type(arg) is np.ndarray:
            found = _ARRAYS.get((arg.dtype, arg.ndim))
        else:
            found = _PYTHON.get(type(arg))
        types.append(_type_of(arg, len(types)) if found is None else found)
    return tuple(types)


def _type_of(arg: object, position: int) -> ArgType:
    """The type of an argument that is not in the tables above."""
    if type(arg) is np.ndarray or isinstance(arg, np.memmap):
        found = ArgType.array(arg.dtype, arg.ndim)
        _ARRAYS[arg.dtype, arg.ndim] = found
        return found
    if isinstance(arg, np.generic):
        return ArgType("scalar", dtype_of(arg.dtype).name)
    raise UsageError(
        f"argument {position + 1} has a type that cannot be compiled",
        found=f"an object of type '{type(arg).__module__}.{type(arg).__qualname__}'",
        hint="pass NumPy arrays (np.asarray makes one) and numbers",
    )
