"""Known functions as expressions: numbers along Morton's curve and ALTO's, and back.

Bits are moved in groups: a mask takes those that travel equally far, so that a coordinate of b bits
costs about log2(b) steps on Morton's curve and one step per run of bits elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.diagnostics import UsageError
from loopwright.ir.expr import Binary, Const, Expr
from loopwright.sparse.known import alto_places

__all__ = ["CURVES", "curve"]

CURVES = frozenset({"MORTON", "ALTO", *(f"ALTO_{m}" for m in range(8))})


def curve(name: str, args: Sequence[Expr]) -> Expr:
    """The value of a known function; sizes in ALTO's arguments are constants."""
    if name == "MORTON":
        bits = 63 // len(args)
        places = alto_places((1 << bits,) * len(args))
        return _together(args, places, spread=len(args))
    if name == "ALTO":
        coordinates, sizes = args[: len(args) // 2], args[len(args) // 2 :]
        return _together(coordinates, alto_places(_constants(name, sizes)))
    mode = int(name.removeprefix("ALTO_"))
    number, *sizes = args
    places = alto_places(found := _constants(name, sizes))
    if len(set(found)) == 1 and len(found) > 1:
        bits = len(places) // len(found)
        return _gathered(_shifted(number, mode + 1 - len(found)), bits, len(found))
    return _moved(number, [(at, p) for at, (m, p) in enumerate(places) if m == mode])


def _constants(name: str, sizes: Sequence[Expr]) -> list[int]:
    found = [size.value for size in sizes if isinstance(size, Const)]
    numbers = [value for value in found if isinstance(value, int)]
    if len(numbers) != len(sizes):
        raise UsageError(f"code for {name} needs sizes that are constants")
    return numbers


def _together(
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
    """Bit p of x at place stride*p, by halving the groups that stay together."""
    group = 1
    while group < bits:
        group *= 2
    while group > 1:
        group //= 2
        # Groups of `group` bits go apart; each lands where its first bit belongs.
        mask = 0
        for p in range(bits):
            mask |= 1 << (p // group * group * stride + p % group)
        moved = _shifted(x, group * (stride - 1))
        x = _masked(Binary("or", x, moved), mask)
    return x


def _gathered(x: Expr, bits: int, stride: int) -> Expr:
    """The bits of x at places stride*p, side by side: `_spread` turned round."""
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
    """Bits of x at other places; those that travel equally far go together."""
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
