"""Array arguments of calls: conversion, and checks before any element is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from loopwright.diagnostics import DtypeError, UsageError, WrongTypeError
from loopwright.ir.dtypes import dtype_of

__all__ = [
    "Array",
    "as_operand",
    "check_out",
    "element_strides",
    "is_regular",
    "made_for",
    "overlap",
    "overlaps_itself",
    "takes_results",
]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_MOST_INTERLEAVED = 4  # elements that machines load and store for every lane at once
_OVERLAP_WORK = 10_000  # how hard NumPy may try to decide whether two arrays share elements


def as_operand(value: Any, what: str) -> Array:
    """`value` as an array of a supported dtype that kernels can address.

    Arrays of other libraries come in through DLPack or NumPy's array protocols, without a copy
    where they live in this process's memory. Unaligned arrays, strides that are no multiple of the
    element and numbers of another byte order are copied.
    """
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "nnz") or hasattr(value, "tocoo"):
        # A sparse matrix, of SciPy or of ours: NumPy sees one object where it has entries.
        hint = "lw.sparse.einsum, or a dense array"
        raise WrongTypeError(f"{what} is sparse", found=type(value).__name__, hint=hint)
    elif hasattr(value, "__dlpack__"):
        from loopwright.runtime.foreign_arrays import array_view  # lazy: most arrays are NumPy's

        array = array_view(value, what)
    else:
        try:
            array = np.asarray(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise UsageError(
                f"{what} is no array of numbers", found=type(value).__name__
            ) from error
    if array.dtype.hasobject or array.dtype.fields is not None:
        raise DtypeError(f"{what} has dtype '{array.dtype}'", hint="an array of numbers")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    dtype_of(array.dtype)
    return array if is_regular(array) else np.array(array)


def made_for(strides: Mapping[str, int]) -> dict[str, int]:
    """The strides, by name, for whose values code is made: 1, and those of interleaved elements.

    Pixels of three colours and pairs of numbers are then loaded and stored whole, by vectors.
    """
    return {name: stride for name, stride in strides.items() if 1 <= stride <= _MOST_INTERLEAVED}


def element_strides(array: Array) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(s // array.itemsize for s in array.strides)


def check_out(out: Any, shape: tuple[int, ...]) -> Array:
    """`out` if it can take a result of `shape`."""
    if not isinstance(out, np.ndarray):
        raise WrongTypeError("out must be a NumPy array", found=type(out).__name__)
    if out.shape != shape:
        raise UsageError(f"out has shape {out.shape}", hint=f"the result has shape {shape}")
    if not out.flags.writeable:
        raise UsageError("out is read-only", hint="pass a writable array, or a copy of it")
    if overlaps_itself(out):
        raise UsageError("elements of out share memory", hint="pass a fresh array")
    return out


def takes_results(out: Array, dtype: np.dtype[Any], operands: tuple[Array, ...]) -> bool:
    """Whether a kernel may write to `out`, which passed check_out; else to a copy of it."""
    return (
        out.dtype == dtype
        and is_regular(out)
        and not any(overlap(out, operand) for operand in operands)
    )


def is_regular(array: Array) -> bool:
    """Whether all elements are aligned, at whole numbers of elements from the first."""
    return array.flags.aligned and not any(s % array.itemsize for s in array.strides)


def overlap(x: Array, y: Array) -> bool:
    """Whether two arrays may share an element; when that is too hard to decide, they may."""
    if not np.may_share_memory(x, y):
        return False
    try:
        # NumPy's stubs know only two of the values that max_work takes.
        return bool(np.shares_memory(x, y, max_work=_OVERLAP_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(x: Array) -> bool:
    """Whether two indices reach one element, as in a broadcast view: a sufficient test."""
    if x.size == 0:
        return False
    reach = 0
    for stride, extent in sorted((abs(s), e) for s, e in zip(x.strides, x.shape, strict=True)):
        if extent == 1:
            continue
        if stride <= reach:
            return True
        reach += stride * (extent - 1)
    return False
