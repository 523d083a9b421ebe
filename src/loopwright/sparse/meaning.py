"""What a stored tensor means: its entries, found by evaluating the descriptor of its format.

This is the slow oracle of the sparse part: conversions and kernels are compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError

from .format import Format
from .points import Surroundings, points
from .uf import Conj, Relation

__all__ = ["Entries", "Stored", "dense", "entries", "surroundings"]

Ints = NDArray[np.int64]
_PLACE = "place"


class Stored(Protocol):
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


def surroundings(tensor: Stored) -> Surroundings:
    """The symbols and index arrays of a tensor, with the inverses that its format names."""
    arrays = dict(tensor.arrays)
    for index in tensor.format.indices:
        if index.inverse:
            arrays[index.inverse] = _inverse(tensor.format.name, index.name, arrays[index.name])
    return Surroundings(tensor.symbols, arrays)


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


def entries(tensor: Stored) -> Entries:
    """All entries of a tensor, in the lexicographic order of its format's tuples."""
    format = tensor.format
    around = surroundings(tensor)
    order = (*format.map.variables, _PLACE)
    found = [points(conj, order, around) for conj in _joint(format.map, format.access)]
    names = (*format.coordinates, _PLACE)
    if len(found) == 1:
        columns = [found[0][name] for name in names]
    else:
        columns = _united(found, order, names)
    return Entries(tuple(columns[:-1]), columns[-1])


@lru_cache(maxsize=256)
def _joint(map: Relation, access: Relation) -> tuple[Conj, ...]:
    """The tuples of the map together with their places, a conjunction for each pair of cases."""
    named = [right.rename({access.outputs[0]: _PLACE}) for right in access.conjs]
    return tuple(
        conj
        for left in map.conjs
        for right in named
        if not (conj := left.conjoined(right.constraints, right.exists)).is_false
    )


def _united(
    found: list[dict[str, Ints]], order: tuple[str, ...], names: tuple[str, ...]
) -> list[Ints]:
    """The points of all pieces of a union, each once, in the order of the tuples."""
    if not found:
        return [np.zeros(0, np.int64) for _ in names]
    rows = np.concatenate([np.stack([f[name] for name in order], axis=1) for f in found])
    kept = np.unique(rows, axis=0)
    return [kept[:, order.index(name)] for name in names]


def dense(tensor: Stored) -> NDArray[Any]:
    """The tensor as an array; repeated coordinates are summed, what is not stored is 0."""
    found = entries(tensor)
    fill = tensor.format.padding.fill if tensor.format.padding else 0
    try:
        result = np.full(tensor.shape, fill, tensor.values.dtype)
    except (MemoryError, ValueError) as error:
        spelled = " x ".join(map(str, tensor.shape))
        raise UsageError(f"a dense array of {spelled} does not fit into memory") from error
    values = tensor.values[found.places]
    if tensor.format.is_unique:
        result[found.coordinates] = values
    else:
        np.add.at(result, found.coordinates, values)
    return result
