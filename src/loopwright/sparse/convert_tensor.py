"""Convert a sparse tensor from one format to any other."""

from __future__ import annotations

from bisect import bisect
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from loopwright.diagnostics import DtypeError, RoomError, UsageError
from loopwright.ir.dtypes import DTYPES, DType, dtype_of
from loopwright.kernels import thread_pool
from loopwright.runtime.code_memory import keeps_code
from loopwright.runtime.thread_pool import thread_count

from .bridge import from_scipy, is_scipy
from .format import SIZES, Format
from .formats import find
from .formats.canonical_formats import canonical_format
from .handover import frozen_tensor, handed_out
from .sorted_pointers import convert_by_pointers
from .sortedness import Sortedness, find_sortedness
from .spf.chunk_plan import is_worth_chunking
from .synthesis.conversion import Conversion, ConversionRequest, run, synthesize
from .synthesis.index_widths import counter_type, made_types, narrowed
from .tensor import SparseTensor, from_dense
from .transposition import transposed
from .uf import Term, TupleVar
from .unverified_formats import require_faithful, require_storable, require_valid_source
from .validate_arrays import index_names, require_valid_arrays
from .validate_tensor import validate_tensor

__all__ = [
    "as_tensor",
    "conversion",
    "convert",
    "convert_tensor",
    "convert_unfrozen",
    "converted",
    "with_sortedness",
]

# A dimension with so many more coordinates than there are entries is sorted by digits: counters
# for each coordinate would take longer to clear than the entries to sort.
_SPARE, _PER_ENTRY = 1 << 20, 8
_LONG = 1 << 14  # entries of a list from which on it pays to ask how its pointers are made best
# Unsorted entries are partitioned into buckets that fit the second cache: bucket bits by number of
# entries. Fewer buckets take longer to sort, more of them longer to partition; both are measured.
# Few classes of sizes, so that code is shared.
_BUCKET_BITS = (
    (0, 0),
    (5_000, 3),
    (40_000, 5),
    (150_000, 7),
    (600_000, 8),
    (2_500_000, 9),
    (6_000_000, 10),
)
_BUCKET_STARTS = [entries for entries, _ in _BUCKET_BITS]
_NONE = (False,) * len(SIZES)


def convert(tensor: Any, to: str | Format, *, threads: int | None = None, copy: bool = True) -> Any:
    """The same entries in another format.

    Takes a SparseTensor, a sparse array or matrix of scipy, or a dense array. What came from scipy
    goes back to scipy where scipy has the format, everything else is a SparseTensor. `to` is a
    name such as "csr" or "bcsr(3,3)", or a Format of your own. Writing to the result never changes
    the source, nor the other way round; with `copy=False` arrays that the target would hold just as
    the source does are shared. Index arrays of a SparseTensor that is made here are read-only.
    """
    found = as_tensor(tensor)
    target = find(to, found.ndim)
    team = thread_count(threads)
    result = convert_unfrozen(found, target, team)
    if result is found:
        require_valid_arrays(found)  # what is faulty is refused, whether or not code runs on it
        require_valid_source(found)
        with_sortedness(found)
    return handed_out(result, found, tensor, team, copy=copy)


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
    """Convert a SparseTensor to a SparseTensor; arrays that both hold alike are shared.

    A tensor that has the format is returned as it is.
    """
    result = convert_unfrozen(tensor, target, thread_count(threads))
    return result if result is tensor else frozen_tensor(result, tensor)


def convert_unfrozen(tensor: SparseTensor, target: Format, team: int) -> SparseTensor:
    """The same by a team of threads; index arrays are writable."""
    if tensor.format.name == target.name and tensor.format == target:
        return tensor
    require_valid_source(tensor)
    require_storable(tensor, target)
    try:
        result = converted(tensor, target, team)
    except MemoryError as error:
        raise RoomError(
            f"the tensor does not fit into memory as {target.name}",
            found=str(error),
            hint="recommend(tensor), or loopwright convert --recommend, tells the size in others",
        ) from error
    require_faithful(tensor, result)
    return result


def converted(tensor: SparseTensor, target: Format, team: int) -> SparseTensor:
    """The same by a team of threads; that formats are not built in and may be wrong is ignored."""
    names = _listed(tensor)
    if team > 1 and is_worth_chunking([tensor.values]):
        thread_pool().rouse(team)
    exchanged = transposed(tensor, target, team)
    if exchanged is not None:
        return exchanged
    sortedness = find_sortedness([tensor.arrays[name] for name in names], team) if names else None
    seen = sortedness.largest if sortedness is not None else None
    require_valid_arrays(
        tensor, None if seen is None else dict(zip(names, seen, strict=True)), team
    )
    found = conversion(tensor, target, _format_of(tensor, sortedness))
    arrays = {name: np.ascontiguousarray(array) for name, array in tensor.arrays.items()}
    values = np.ascontiguousarray(tensor.values)
    given = arrays, values, tensor.symbols
    ready = None
    if sortedness is not None and len(values) >= _LONG:
        ready = convert_by_pointers(found, *given, sortedness, team)
    made, numbers, symbols = ready or run(found, *given, team)
    if found.is_wide:
        made = narrowed(target, made, found.request.made, found.request.counter)
    return SparseTensor(target, tensor.shape, made, symbols, numbers)


def conversion(tensor: SparseTensor, target: Format, source: Format | None = None) -> Conversion:
    """The conversion of a tensor like this one: types and sizes decide, not the entries.

    `source` is what its entries turn out to be stored in, if that is known.
    """
    stored, shape, arrays = len(tensor.values), tensor.shape, tensor.arrays
    limit = _PER_ENTRY * stored + _SPARE
    return _conversion(
        source or tensor.format,
        target,
        tensor.values.dtype,
        tuple([arrays[name].dtype for name in index_names(tensor.format)]),
        counter_type(shape, stored).name,
        tuple([max(size - 1, 0).bit_length() for size in shape]),
        stored.bit_length(),
        tuple([size > limit for size in shape]) if max(shape) > limit else _NONE[: len(shape)],
        _BUCKET_BITS[bisect(_BUCKET_STARTS, stored) - 1][1],
    )


@keeps_code
@lru_cache(maxsize=128)
def _conversion(
    source: Format,
    target: Format,
    value: np.dtype[Any],
    types: tuple[np.dtype[Any], ...],
    counter: str,
    bits: tuple[int, ...],
    stored: int,
    wide: tuple[bool, ...],
    bucket_bits: int,
) -> Conversion:
    """The same of what decides: sizes and the number of entries count by their bits alone."""
    largest = tuple(1 << width for width in bits)
    request = ConversionRequest(
        source,
        target,
        _value_type(value),
        tuple(zip(index_names(source), map(dtype_of, types), strict=True)),
        made_types(target, largest, (1 << stored) - 1, DTYPES[counter]),
        DTYPES[counter],
        bits,
        wide,
        bucket_bits,
    )
    return synthesize(request)


def _value_type(dtype: np.dtype[Any]) -> DType:
    try:
        return dtype_of(dtype)
    except (KeyError, UsageError) as error:
        raise DtypeError(
            "values of this type cannot be converted", str(dtype), ", ".join(DTYPES)
        ) from error


def with_sortedness(tensor: SparseTensor, sortedness: Sortedness | None = None) -> SparseTensor:
    """A list of coordinates under what its entries turn out to be: sorted, without repetitions.

    `sortedness` is what is known of them already.
    """
    names = _listed(tensor)
    if not names:
        return tensor
    if sortedness is None:
        sortedness = find_sortedness([tensor.arrays[name] for name in names])
    return replace(tensor, format=_format_of(tensor, sortedness))


def _format_of(tensor: SparseTensor, sortedness: Sortedness | None) -> Format:
    """The format that tells of a list of coordinates how it is arranged."""
    if sortedness is None:
        return tensor.format
    if sortedness.descends:
        if tensor.format.order:
            validate_tensor(tensor)  # tells where the order that was declared is broken
        return tensor.format
    return _in_order(tensor.format, not sortedness.repeats)


@lru_cache(maxsize=64)
def _in_order(format: Format, is_unique: bool) -> Format:
    order = tuple(Term.of(TupleVar(name)) for name in format.coordinates)
    return replace(format, order=order, is_unique=is_unique)


def _listed(tensor: SparseTensor) -> tuple[str, ...]:
    """The arrays of coordinates whose order is to be found; none where a format tells it."""
    format = tensor.format
    if format.is_unique or format.padding is not None:
        return ()
    names = _coordinate_arrays(format)
    shape = (len(tensor.values),)
    for name in names:
        array = tensor.arrays[name]
        if array.shape != shape or array.dtype.kind not in "iu":
            return ()
    return names


@lru_cache(maxsize=64)
def _coordinate_arrays(format: Format) -> tuple[str, ...]:
    """The arrays of a list of coordinates, by dimension; none for other formats."""
    own, wanted = canonical_format(format), canonical_format(find("coo", format.rank))
    is_list = (own.map, own.access) == (wanted.map, wanted.access)
    return tuple(index.name for index in format.indices) if is_list else ()
