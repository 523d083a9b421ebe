"""Convert a sparse tensor from one format to any other."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from loopwright.diagnostics import DtypeError, UsageError
from loopwright.ir.dtypes import DTYPES, INT32, INT64, DType, dtype_of
from loopwright.runtime.threads import thread_count

from .arrangement import Arrangement, arrangement
from .bridge import as_given, from_scipy, is_scipy
from .check import check
from .format import Format
from .formats import find
from .inside import require_inside
from .synthesis.run import run
from .synthesis.synthesize import Conversion, Request, synthesize
from .synthesis.widths import made_types, narrowed
from .tensor import SparseTensor, from_dense

__all__ = ["as_tensor", "conversion", "convert", "convert_tensor", "refined"]

_NARROW = (1 << 31) - 2  # numbers up to here are counted in 32 bits
# A dimension with so many more coordinates than there are entries is sorted by digits: counters
# for each coordinate would take longer to clear than the entries to sort.
_SPARE, _PER_ENTRY = 1 << 20, 8
# Unsorted entries are dealt out into parts of at least this many, which a second cache holds. Few
# classes of sizes, so that code is shared.
_PART = 2500
_PARTS = (0, 4, 6, 8, 10)  # bits


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
    if result is found:
        require_inside(found)  # what is faulty is refused, whether or not code runs on it
        refined(found)
    return as_given(result, tensor)


def as_tensor(tensor: Any) -> SparseTensor:
    """A SparseTensor of whatever stands for one."""
    if isinstance(tensor, SparseTensor):
        return tensor
    if is_scipy(tensor):
        return from_scipy(tensor)
    if isinstance(tensor, np.ma.MaskedArray):
        raise UsageError(
            "a masked array does not say what its masked elements are",
            hint="a.filled(0) leaves them out",
        )
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
    names = _listed(tensor)
    team = thread_count(threads)
    arranged = arrangement([tensor.arrays[name] for name in names], team) if names else None
    seen = arranged.largest if arranged is not None else None
    require_inside(tensor, None if seen is None else dict(zip(names, seen, strict=True)), team)
    found = conversion(refined(tensor, arranged), target)
    arrays = {name: np.ascontiguousarray(array) for name, array in tensor.arrays.items()}
    values = np.ascontiguousarray(tensor.values)
    made, numbers, symbols = run(found, arrays, values, tensor.symbols, team)
    made = narrowed(target, made, found.request.made, found.request.counter)
    return SparseTensor(target, tensor.shape, made, symbols, numbers)


def conversion(tensor: SparseTensor, target: Format) -> Conversion:
    """The conversion of a tensor like this one: types and sizes decide, not the entries."""
    stored = len(tensor.values)
    counter = INT32 if max((stored, *tensor.shape)) <= _NARROW else INT64
    given = tuple(
        (index.name, dtype_of(tensor.arrays[index.name].dtype)) for index in tensor.format.indices
    )
    limit = _PER_ENTRY * stored + _SPARE
    request = Request(
        tensor.format,
        target,
        _value_type(tensor),
        given,
        made_types(target, tensor.shape, stored, counter),
        counter,
        tuple(max(size - 1, 0).bit_length() for size in tensor.shape),
        tuple(size > limit for size in tensor.shape),
        max((bits for bits in _PARTS if _PART << bits <= stored), default=0),
    )
    return synthesize(request)


def _value_type(tensor: SparseTensor) -> DType:
    try:
        return dtype_of(tensor.values.dtype)
    except (KeyError, UsageError) as error:
        raise DtypeError(
            "values of this type cannot be converted", str(tensor.values.dtype), ", ".join(DTYPES)
        ) from error


def refined(tensor: SparseTensor, arranged: Arrangement | None = None) -> SparseTensor:
    """A list of coordinates under what its entries turn out to be: sorted, without repetitions.

    `arranged` is what is known of them already.
    """
    names = _listed(tensor)
    if not names:
        return tensor
    if arranged is None:
        arranged = arrangement([tensor.arrays[name] for name in names])
    if arranged.descends:
        if tensor.format.order:
            check(tensor)  # tells where the order that was declared is broken
        return tensor
    return replace(tensor, format=_in_order(tensor.format, not arranged.repeats))


@lru_cache(maxsize=64)
def _in_order(format: Format, is_unique: bool) -> Format:
    return replace(format, order=find("scoo", format.rank).order, is_unique=is_unique)


def _listed(tensor: SparseTensor) -> tuple[str, ...]:
    """The arrays of coordinates whose order is to be found; none where a format tells it."""
    format = tensor.format
    if format.is_unique or format.padding is not None:
        return ()
    names = _coordinate_arrays(format)
    arrays = [tensor.arrays[name] for name in names]
    shapes = {array.shape for array in arrays}
    is_list = len(shapes) == 1 and all(a.ndim == 1 and a.dtype.kind in "iu" for a in arrays)
    return names if is_list else ()


@lru_cache(maxsize=64)
def _coordinate_arrays(format: Format) -> tuple[str, ...]:
    """The arrays of a list of coordinates, by dimension; none for other formats."""
    plain = find("coo", format.rank)
    is_list = format.map == plain.map and format.access == plain.access
    return tuple(index.name for index in plain.indices) if is_list else ()
