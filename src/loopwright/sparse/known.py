"""Functions with one fixed meaning that a descriptor may call: orders along curves through space.

MORTON(i,j,..)             the bits of all coordinates in turn, the last coordinate lowest:
                           bit p of coordinate m of r becomes bit r*p + r-1-m
ALTO(i,j,..,NR,NC,..)      the same, where a coordinate has only the bits that its size needs
ALTO_0(x,NR,NC,..)         the coordinate 0 of ALTO's number x; ALTO_1 and so on likewise
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError

__all__ = ["KNOWN", "KnownFunction", "alto_bits", "alto_places"]

KnownFunction = Callable[..., NDArray[np.int64]]
_MOST_BITS = 63  # of a key that is a signed 64-bit number
_MOST_COORDINATES = 8


def alto_bits(size: int) -> int:
    """How many bits the coordinates 0 to size-1 need."""
    return max(int(size) - 1, 0).bit_length()


def alto_places(sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """(coordinate, bit of it) of each bit of ALTO's number, lowest first."""
    bits = [alto_bits(size) for size in sizes]
    return tuple(
        (m, p)
        for p in range(max(bits, default=0))
        for m in reversed(range(len(sizes)))
        if p < bits[m]
    )


def _bit_places(name: str, sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    places = alto_places(sizes)
    if len(places) > _MOST_BITS:
        raise UsageError(
            f"{name} needs {len(places)} bits for sizes {' x '.join(map(str, sizes))}",
            hint=f"at most {_MOST_BITS} bits fit its number; use coo or csf for this tensor",
        )
    return places


def _gathered(
    places: tuple[tuple[int, int], ...], coordinates: Sequence[NDArray[Any]]
) -> NDArray[np.int64]:
    arrays = np.broadcast_arrays(*(np.asarray(c, np.int64) for c in coordinates))
    number = np.zeros(arrays[0].shape, np.int64)
    for at, (m, p) in enumerate(places):
        number |= (arrays[m] >> p & 1) << at
    return number


def _morton(*coordinates: NDArray[Any]) -> NDArray[np.int64]:
    rank = len(coordinates)
    largest = max((int(np.max(c, initial=0)) for c in coordinates), default=0)
    if any(int(np.min(c, initial=0)) < 0 for c in coordinates):
        raise UsageError("MORTON is defined for coordinates from 0 on", found="a negative one")
    bits = largest.bit_length()
    if rank * bits > _MOST_BITS:
        raise UsageError(
            f"MORTON needs {rank * bits} bits for {rank} coordinates up to {largest}",
            hint=f"at most {_MOST_BITS} bits fit its number; use alto, coo or csf for this tensor",
        )
    # Equal sizes: every coordinate has every bit, so this is ALTO's order.
    return _gathered(alto_places((1 << bits,) * rank), coordinates)


def _alto(*arguments: NDArray[Any]) -> NDArray[np.int64]:
    rank = len(arguments) // 2
    sizes = [_constant("ALTO", size) for size in arguments[rank:]]
    return _gathered(_bit_places("ALTO", sizes), arguments[:rank])


def _alto_coordinate(mode: int) -> KnownFunction:
    def coordinate(number: NDArray[Any], *sizes: NDArray[Any]) -> NDArray[np.int64]:
        places = _bit_places("ALTO", [_constant("ALTO", size) for size in sizes])
        packed = np.asarray(number, np.int64)
        found = np.zeros(packed.shape, np.int64)
        for at, (m, p) in enumerate(places):
            if m == mode:
                found |= (packed >> at & 1) << p
        return found

    return coordinate


def _constant(name: str, size: NDArray[Any]) -> int:
    """A size given as an array of one value, however often it is repeated."""
    values = np.unique(size)
    if len(values) > 1:
        raise UsageError(f"the sizes in {name}(...) must be constants")
    return int(values[0]) if len(values) else 0


KNOWN: Mapping[str, KnownFunction] = MappingProxyType(
    {
        "MORTON": _morton,
        "ALTO": _alto,
        **{f"ALTO_{m}": _alto_coordinate(m) for m in range(_MOST_COORDINATES)},
    }
)
