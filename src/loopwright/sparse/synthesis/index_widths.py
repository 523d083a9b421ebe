"""How wide the index arrays of a target must be, before the numbers in them are known.

An array that holds coordinates is bounded by the sizes, one that counts by the number of entries.
A running sum such as `cptr` of SELL, with padding in it, is bounded by neither: it is computed in
64 bits, and stored in fewer when its numbers turn out to fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DTYPES, INT32, INT64, DType
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.format import Format, Index
from loopwright.sparse.format_symbols import fixed_symbols
from loopwright.sparse.synthesis.definitions import (
    CountArray,
    MaxArray,
    PermutationArray,
    PointerArray,
    RunningSumArray,
    StoredArray,
    define_arrays,
)
from loopwright.sparse.synthesis.inverse import invert
from loopwright.sparse.synthesis.value_intervals import Interval, interval_of
from loopwright.sparse.uf import Sym, Term, TupleVar, UFCall, evaluate, symbols

__all__ = ["Types", "counter_type", "index_type", "made_types", "narrowed"]

Types: TypeAlias = tuple[tuple[str, DType], ...]  # index array -> its type
_Array: TypeAlias = (
    StoredArray | PointerArray | CountArray | PermutationArray | RunningSumArray | MaxArray
)
_NARROW = (1 << 31) - 2  # numbers up to here are counted in 32 bits


def counter_type(shape: tuple[int, ...], stored: int) -> DType:
    """The type for sizes and numbers of entries of a tensor."""
    return INT32 if max((stored, *shape)) <= _NARROW else INT64


def made_types(target: Format, shape: tuple[int, ...], stored: int, counter: DType) -> Types:
    """The type in which each index array of the target is computed.

    `stored` is how many entries there are at most, `counter` the type for sizes and for them.
    """
    # Only the bits of the largest coordinates count, which few calls differ in.
    bits = tuple(max(size - 1, 0).bit_length() for size in shape)
    return _types(target, bits, stored.bit_length(), counter)


@lru_cache(maxsize=64)
def _types(target: Format, bits: tuple[int, ...], stored: int, counter: DType) -> Types:
    shape = [1 << width for width in bits]
    most = (1 << stored) - 1
    known = _Known(fixed_symbols(target, shape), most, _definitions(target), target)
    return tuple((index.name, _computed(index, known, counter)) for index in target.indices)


def narrowed(
    target: Format, arrays: Mapping[str, NDArray[Any]], made: Types, counter: DType
) -> dict[str, NDArray[Any]]:
    """Narrow index arrays that were computed in more bits than wanted, if they fit.

    Raises UsageError that names the first number for which a declared type is too narrow.
    """
    found = dict(arrays)
    for name, dtype in made:
        index = target.index(name)
        wanted = index_type(index, counter)
        if dtype != wanted:
            found[name] = _stored(target, index, arrays[name], wanted)
    return found


@dataclass(frozen=True)
class _Known:
    """What is known of a target before it is computed."""

    symbols: Mapping[str, int]  # sizes, and what follows from them
    stored: int
    definitions: Mapping[str, _Array]
    target: Format

    def value(self, term: Term) -> int | None:
        return evaluate(term, self.symbols, {}) if symbols(term) <= self.symbols.keys() else None

    def limits(self, array: str) -> tuple[int, int] | None:
        """The least and the largest number that an index array may hold; None where unknown."""
        match self.definitions.get(array):
            case PointerArray() | CountArray():
                return 0, self.stored
            case PermutationArray(count=count):
                most = self.value(count)
                return None if most is None else (0, max(most - 1, 0))
            case RunningSumArray(first=first, variable=variable, step=step):
                is_sum = first == Term.of(0) and self._is_length(step, variable)
                return (0, self.stored) if is_sum else None
            case MaxArray(floor=floor, value=value):
                least, inner = self.value(floor), value.atom
                known = self.limits(inner.name) if isinstance(inner, UFCall) else None
                if least is None or known is None:
                    return None
                return min(least, known[0]), max(least, known[1])
            case StoredArray(entries=entries):
                return self._union([self._span(entry.value) for entry in entries])
            case _:
                return None

    def _is_length(self, step: Term, variable: str) -> bool:
        """Whether a step is how many entries its variable has, so that all steps add up to them."""
        call = step.atom
        return (
            isinstance(call, UFCall)
            and isinstance(self.definitions.get(call.name), CountArray)
            and call.args == (Term.of(TupleVar(variable)),)
        )

    def _span(self, term: Term) -> tuple[int, int] | None:
        pairs = zip(self.target.coordinates, self.target.sizes, strict=True)
        zero = Term.of(0)
        found = interval_of(term, {c: Interval(zero, Term.of(Sym(s)) - 1) for c, s in pairs})
        low, high = (None, None) if found is None else map(self.value, (found.low, found.high))
        return None if low is None or high is None else (low, high)

    def _union(self, parts: list[tuple[int, int] | None]) -> tuple[int, int] | None:
        known = [part for part in parts if part is not None]
        if not known or len(known) < len(parts):
            return None
        return min(low for low, _ in known), max(high for _, high in known)


@lru_cache(maxsize=64)
def _definitions(target: Format) -> Mapping[str, _Array]:
    """The definition of each index array; none of a format that cannot be synthesised."""
    try:
        found = define_arrays(invert(target))
    except UsageError:
        return {}  # synthesis refuses it and says why
    return {d.array: d for d in found if isinstance(d, _Array)}


def index_type(index: Index, counter: DType) -> DType:
    """The type in which an index array is stored, unless its numbers need a wider one."""
    return DTYPES[index.dtype] if index.dtype else counter


def _computed(index: Index, known: _Known, counter: DType) -> DType:
    wanted = index_type(index, counter)
    low, high = _holds(wanted)
    limits = known.limits(index.name)
    if wanted.bits == 64 or (limits is not None and low <= limits[0] <= limits[1] <= high):
        return wanted
    return INT64


def _holds(dtype: DType) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    half = 1 << (dtype.bits - 1)
    return (0, 2 * half - 1) if dtype.kind == "u" else (-half, half - 1)


def _stored(target: Format, index: Index, array: NDArray[Any], wanted: DType) -> NDArray[Any]:
    low, high = _holds(wanted)
    outside = (array < low) | (array > high)
    if not outside.any():
        return array.astype(wanted.numpy)
    if not index.dtype:
        return array
    place = tuple(map(int, np.unravel_index(int(np.argmax(outside)), array.shape)))
    spelled = ", ".join(map(str, place))
    raise UsageError(
        f"{target.name}: {index.name}[{spelled}] = {array[place]} does not fit {index.dtype}",
        hint=f"declare {index.name} with a wider dtype, or without one",
    )
