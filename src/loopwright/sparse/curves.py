"""Space-filling curves that a descriptor may call: by NumPy, and as expressions of loop nests.

MORTON(i,j,..)             the bits of all coordinates in turn, the last coordinate lowest:
                           bit p of coordinate m of r becomes bit r*p + r-1-m
ALTO(i,j,..,NR,NC,..)      the same, where a coordinate has only the bits that its size needs
ALTO_0(x,NR,NC,..)         the coordinate 0 of ALTO's number x; ALTO_1 and so on likewise

In expressions bits are moved in groups: a mask takes those that move equally far, so that a
coordinate of b bits costs about log2(b) steps on Morton's curve and one step per group elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.ir.expr import Binary, Const, Expr

__all__ = ["CURVES", "CurveFunction", "alto_bits", "alto_places", "curve"]

CurveFunction = Callable[..., NDArray[np.int64]]
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


def _interleaved(
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
    return _interleaved(alto_places((1 << bits,) * rank), coordinates)


def _alto(*arguments: NDArray[Any]) -> NDArray[np.int64]:
    rank = len(arguments) // 2
    sizes = [_constant("ALTO", size) for size in arguments[rank:]]
    return _interleaved(_bit_places("ALTO", sizes), arguments[:rank])


def _alto_coordinate(mode: int) -> CurveFunction:
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


CURVES: Mapping[str, CurveFunction] = MappingProxyType(
    {
        "MORTON": _morton,
        "ALTO": _alto,
        **{f"ALTO_{m}": _alto_coordinate(m) for m in range(_MOST_COORDINATES)},
    }
)


def curve(name: str, args: Sequence[Expr]) -> Expr:
    """The value of a known function; sizes in ALTO's arguments are constants."""
    if name == "MORTON":
        bits = 63 // len(args)
        places = alto_places((1 << bits,) * len(args))
        return _interleaved_expr(args, places, spread=len(args))
    if name == "ALTO":
        coordinates, sizes = args[: len(args) // 2], args[len(args) // 2 :]
        return _interleaved_expr(coordinates, alto_places(_constants(name, sizes)))
    mode = int(name.removeprefix("ALTO_"))
    number, *sizes = args
    places = alto_places(found := _constants(name, sizes))
    if len(set(found)) == 1 and len(found) > 1:
        bits = len(places) // len(found)
        return _gathered_expr(_shifted(number, mode + 1 - len(found)), bits, len(found))
    return _moved(number, [(at, p) for at, (m, p) in enumerate(places) if m == mode])


def _constants(name: str, sizes: Sequence[Expr]) -> list[int]:
    found = [size.value for size in sizes if isinstance(size, Const)]
    numbers = [value for value in found if isinstance(value, int)]
    if len(numbers) != len(sizes):
        raise UsageError(f"code for {name} needs sizes that are constants")
    return numbers


def _interleaved_expr(
    coordinates: Sequence[Expr], places: Sequence[tuple[int, int]], spread: int = 0
) -> Expr:
    """The bits of all coordinates at their places in one number."""
    total: Expr | None = None
    for m, coordinate in enumerate(coordinates):
        moves = [(p, at) for at, (mode, p) in enumerate(places) if mode == m]
        if spread > 1:
            first = moves[0][1] if moves else 0
            part = _shifted(_spread(coordinate, len(moves), spread), first)
        else:
            part = _moved(coordinate, moves)
        total = part if total is None else Binary("or", total, part)
    assert total is not None, "a curve through space has coordinates"
    return total


def _spread(x: Expr, bits: int, stride: int) -> Expr:
    """Bit p of x at place stride*p, by halving the groups of adjacent bits."""
    group = 1
    while group < bits:
        group *= 2
    while group > 1:
        group //= 2
        # Groups of `group` bits separate; each lands where its first bit belongs.
        mask = 0
        for p in range(bits):
            mask |= 1 << (p // group * group * stride + p % group)
        moved = _shifted(x, group * (stride - 1))
        x = _masked(Binary("or", x, moved), mask)
    return x


def _gathered_expr(x: Expr, bits: int, stride: int) -> Expr:
    """The bits of x at places stride*p, made contiguous: the inverse of `_spread`."""
    group = 1
    x = _masked(x, sum(1 << p * stride for p in range(bits)))
    while group < bits:
        group *= 2
        mask = 0
        for p in range(bits):
            mask |= 1 << (p // group * group * stride + p % group)
        moved = _shifted(x, -(group // 2) * (stride - 1))
        x = _masked(Binary("or", x, moved), mask)
    return x


def _moved(x: Expr, moves: Sequence[tuple[int, int]]) -> Expr:
    """Bits of x at other places; those that move equally far share a mask."""
    groups: dict[int, int] = {}
    for source, target in moves:
        groups[target - source] = groups.get(target - source, 0) | 1 << source
    total: Expr = Const(0)
    for number, (distance, mask) in enumerate(sorted(groups.items())):
        part = _shifted(_masked(x, mask), distance)
        total = part if number == 0 else Binary("or", total, part)
    return total


def _masked(x: Expr, mask: int) -> Expr:
    return Binary("and", x, Const(mask))


def _shifted(x: Expr, distance: int) -> Expr:
    if distance == 0:
        return x
    if distance > 0:
        return Binary("mul", x, Const(1 << distance))
    return Binary("floordiv", x, Const(1 << -distance))
