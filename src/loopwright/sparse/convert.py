"""Convert a sparse tensor from one format to any other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from loopwright.diagnostics import DtypeError, UsageError
from loopwright.ir.dtypes import DTYPES, INT32, INT64, DType, dtype_of
from loopwright.runtime.threads import num_threads

from .bridge import from_scipy, has_scipy, is_scipy, to_scipy
from .check import check
from .format import Format
from .formats import find
from .inside import ascent, require_inside
from .synthesis.run import run
from .synthesis.synthesize import Conversion, Request, synthesize
from .tensor import SparseTensor, from_dense

__all__ = ["as_tensor", "conversion", "convert", "convert_tensor", "refined"]

_NARROW = (1 << 31) - 2  # numbers up to here are counted in 32 bits
# A dimension with so many more coordinates than there are entries is sorted by digits: counters
# for each coordinate would take longer to clear than the entries to sort.
_SPARE, _PER_ENTRY = 1 << 20, 8
# Unsorted entries are dealt out into parts of about this many, which a second cache holds. Few
# classes of sizes, so that code is shared.
_PART = 1 << 12
_PARTS = (0, 5, 10)  # bits


def convert(tensor: Any, to: str | Format, *, threads: int | None = None) -> Any:
    """The same entries in another format.

    Takes a SparseTensor, a sparse array or matrix of scipy, or a dense array. What came from scipy
    goes back to scipy where scipy has the format, everything else is a SparseTensor. `to` is a
    name such as "csr" or "bcsr(3,3)", or a Format of your own. Where entries keep their places,
    arrays of the source are shared, not copied.
    """
    found = as_tensor(tensor)
    target = find(to, found.ndim)
    result = convert_tensor(found, target, threads=threads)
    if is_scipy(tensor) and has_scipy(target):
        return to_scipy(result, matrix=type(tensor).__name__.endswith("matrix"))
    return result


def as_tensor(tensor: Any) -> SparseTensor:
    """A SparseTensor of whatever stands for one."""
    if isinstance(tensor, SparseTensor):
        return tensor
    if is_scipy(tensor):
        return from_scipy(tensor)
    if isinstance(tensor, np.ndarray):
        return from_dense(tensor)
    raise UsageError(
        "expected a sparse tensor",
        found=type(tensor).__name__,
        hint="a SparseTensor, a sparse array of scipy, or a NumPy array",
    )


def convert_tensor(
    tensor: SparseTensor, target: Format, *, threads: int | None = None
) -> SparseTensor:
    """Convert a SparseTensor to a SparseTensor."""
    if tensor.format == target:
        return tensor
    require_inside(tensor)
    found = conversion(refined(tensor), target)
    arrays = {name: np.ascontiguousarray(array) for name, array in tensor.arrays.items()}
    values = np.ascontiguousarray(tensor.values)
    team = num_threads() if threads is None else threads
    made, numbers, symbols = run(found, arrays, values, tensor.symbols, team)
    return SparseTensor(target, tensor.shape, made, symbols, numbers)


def conversion(tensor: SparseTensor, target: Format) -> Conversion:
    """The conversion of a tensor like this one: types and sizes decide, not the entries."""
    stored = len(tensor.values)
    largest = max((stored, *tensor.shape, *(_places(tensor, target),)))
    counter = INT32 if largest <= _NARROW else INT64
    made = tuple(
        (index.name, DTYPES[index.dtype] if index.dtype else counter) for index in target.indices
    )
    given = tuple(
        (index.name, dtype_of(tensor.arrays[index.name].dtype)) for index in tensor.format.indices
    )
    limit = _PER_ENTRY * stored + _SPARE
    request = Request(
        tensor.format,
        target,
        _value_type(tensor),
        given,
        made,
        counter,
        tuple(max(size - 1, 0).bit_length() for size in tensor.shape),
        tuple(size > limit for size in tensor.shape),
        max((bits for bits in _PARTS if _PART << bits <= stored), default=0),
    )
    return synthesize(request)


def _places(tensor: SparseTensor, target: Format) -> int:
    """Numbers that index arrays of the target may hold beside sizes: places of padded formats."""
    return 0 if target.padding is None else len(tensor.values) * 2


def _value_type(tensor: SparseTensor) -> DType:
    try:
        return dtype_of(tensor.values.dtype)
    except (KeyError, UsageError) as error:
        raise DtypeError(
            "values of this type cannot be converted", str(tensor.values.dtype), ", ".join(DTYPES)
        ) from error


def refined(tensor: SparseTensor) -> SparseTensor:
    """A list of coordinates under what its entries turn out to be: sorted, without repetitions."""
    format = tensor.format
    if format.is_unique or format.padding is not None:
        return tensor
    names = _coordinate_arrays(format)
    if not names:
        return tensor
    descents, repetitions = ascent([tensor.arrays[name] for name in names])
    if descents:
        if format.order:
            check(tensor)  # tells where the order that was declared is broken
        return tensor
    order = find("scoo", format.rank).order
    sorted_format = replace(format, order=order, is_unique=not repetitions)
    return replace(tensor, format=sorted_format)


def _coordinate_arrays(format: Format) -> tuple[str, ...]:
    """The arrays of a list of coordinates, by dimension; none for other formats."""
    plain = find("coo", format.rank)
    is_list = format.map == plain.map and format.access == plain.access
    return tuple(index.name for index in plain.indices) if is_list else ()
