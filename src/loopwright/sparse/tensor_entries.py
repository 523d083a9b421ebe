"""What a stored tensor means: its entries, found by evaluating the descriptor of its format.

This is the slow oracle of the sparse part: conversions and kernels are compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass

from .enumerate_sets import IndexEnvironment, enumerate_points, solvable_order
from .format import Format
from .uf import Conj, Relation

__all__ = [
    "Entries",
    "StoredTensor",
    "dense",
    "entries",
    "environment_of",
    "require_within",
    "without_padding",
]

Ints = NDArray[np.int64]
_PLACE = "place"


class StoredTensor(Protocol):
    """A tensor in some format."""

    @property
    def format(self) -> Format: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]: ...
    @property
    def symbols(self) -> Mapping[str, int]: ...
    @property
    def values(self) -> NDArray[Any]: ...


@dataclass(frozen=True, slots=True)
class Entries:
    """The tuples of the storage in their order: dense coordinates, and places in the values."""

    coordinates: tuple[Ints, ...]
    places: Ints

    @property
    def count(self) -> int:
        return len(self.places)


def environment_of(tensor: StoredTensor) -> IndexEnvironment:
    """The symbols and index arrays of a tensor, with the inverses that its format names."""
    arrays = dict(tensor.arrays)
    for index in tensor.format.indices:
        if index.inverse:
            arrays[index.inverse] = _inverse(tensor.format.name, index.name, arrays[index.name])
    return IndexEnvironment(tensor.symbols, arrays)


def _inverse(format: str, name: str, array: NDArray[Any]) -> Ints:
    count = len(array)
    inverse = np.full(count, -1, np.int64)
    inside = (array >= 0) & (array < count)
    inverse[array[inside]] = np.flatnonzero(inside)
    if (inverse < 0).any():
        missing = int(np.argmax(inverse < 0))
        raise UsageError(
            f"{format}: {name} is not a permutation, {missing} does not occur in it",
            hint=f"each number from 0 to {count - 1} must stand in {name} once",
        )
    return inverse


def entries(tensor: StoredTensor) -> Entries:
    """All tuples of a tensor in their lexicographic order, those that read as padding included."""
    format = tensor.format
    env = environment_of(tensor)
    order = (*format.map.variables, _PLACE)
    found = [_ordered_points(conj, order, env) for conj in _joint(format.map, format.access)]
    names = (*format.coordinates, _PLACE)
    if len(found) == 1:
        columns = [found[0][name] for name in names]
    else:
        columns = _union(found, order, names)
    return Entries(tuple(columns[:-1]), columns[-1])


def _ordered_points(conj: Conj, order: tuple[str, ...], env: IndexEnvironment) -> dict[str, Ints]:
    """The points in an order of the variables, whichever of them give the others."""
    solvable = _solvable_order(conj, order)
    found = enumerate_points(conj, solvable, env)
    if solvable == order:
        return found
    sorted_ = np.lexsort([found[name] for name in reversed(order)])
    return {name: found[name][sorted_] for name in order}


_solvable_order = lru_cache(maxsize=64)(solvable_order)


@lru_cache(maxsize=64)
def _joint(map: Relation, access: Relation) -> tuple[Conj, ...]:
    """The tuples of the map together with their places, a conjunction for each pair of cases."""
    named = [right.rename({access.outputs[0]: _PLACE}) for right in access.conjs]
    return tuple(
        conj
        for left in map.conjs
        for right in named
        if not (conj := left.conjoined(right.constraints, right.exists)).is_false
    )


def without_padding(found: Entries, values: NDArray[Any], *formats: Format) -> Entries:
    """The entries, of all tuples: those whose values no format with mapped padding takes for it."""
    kept = np.ones(found.count, np.bool_)
    for format in formats:
        if format.padding is not None and format.padding.is_mapped:
            kept &= values[found.places] != format.padding.fill
    if kept.all():
        return found
    return Entries(tuple(at[kept] for at in found.coordinates), found.places[kept])


def require_within(tensor: StoredTensor, found: Entries) -> None:
    """Refuse tuples with places outside the values, and entries outside the shape."""
    format = tensor.format
    places, count = found.places, len(tensor.values)
    outside = (places < 0) | (places >= count)
    if outside.any():
        n = int(np.argmax(outside))
        raise UsageError(
            f"{format.name}: an entry lies at {places[n]}, there are {count} places",
            hint="check the access and `places`",
        )
    found = without_padding(found, tensor.values, format)
    for dimension, (at, size) in enumerate(zip(found.coordinates, tensor.shape, strict=True)):
        outside = (at < 0) | (at >= size)
        if outside.any():
            n = int(np.argmax(outside))
            raise UsageError(
                f"{format.name}: an entry lies outside the shape",
                found=f"{format.coordinates[dimension]} = {at[n]}, with a size of {size}",
                hint="bound the coordinates in the map, or the range of the index array",
            )


def _union(
    found: list[dict[str, Ints]], order: tuple[str, ...], names: tuple[str, ...]
) -> list[Ints]:
    """The points of all pieces of a union, each once, in the order of the tuples."""
    if not found:
        return [np.zeros(0, np.int64) for _ in names]
    rows = np.concatenate([np.stack([f[name] for name in order], axis=1) for f in found])
    kept = np.unique(rows, axis=0)
    return [kept[:, order.index(name)] for name in names]


def dense(tensor: StoredTensor) -> NDArray[Any]:
    """The tensor as an array; repeated coordinates are summed, what is not stored is 0."""
    found = entries(tensor)
    require_within(tensor, found)
    found = without_padding(found, tensor.values, tensor.format)
    try:
        result = np.zeros(tensor.shape, tensor.values.dtype)
    except (MemoryError, ValueError) as error:
        spelled = " x ".join(map(str, tensor.shape))
        raise UsageError(f"a dense array of {spelled} does not fit into memory") from error
    values = tensor.values[found.places]
    if tensor.format.is_unique:
        result[found.coordinates] = values
    else:
        np.add.at(result, found.coordinates, values)
    return result
