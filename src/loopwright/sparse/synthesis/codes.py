"""Coordinates packed into one number that ascends as an order does."""

from __future__ import annotations

from dataclasses import dataclass

from loopwright.sparse.synthesis.order import Order
from loopwright.sparse.synthesis.stream import Sizes
from loopwright.sparse.uf import Call, Linear, Var

__all__ = ["MOST_BITS", "Code", "packed"]

MOST_BITS = 62  # of a packed key


@dataclass(frozen=True)
class Code:
    """All coordinates in one number that ascends as an order does."""

    key: Linear  # over the coordinates
    bits: int
    parts: tuple[tuple[str, int, int], ...]  # coordinate, its lowest bit, its bits
    curve: int = 0  # bits of each coordinate, where the number is one along Morton's curve
    layout: tuple[Linear, ...] = ()  # sizes, where it is ALTO's

    @property
    def is_plain(self) -> bool:
        """Whether coordinates stand side by side in the number."""
        return not self.curve and not self.layout

    def coordinate(self, name: str, at: int, number: Linear) -> Linear:
        """A coordinate, the `at`-th of all, from the number."""
        if not self.is_plain:
            sizes = self.layout or (Linear.of(1 << self.curve),) * len(self.parts)
            return Linear.of(Call(f"ALTO_{at}", (number, *sizes)))
        low, bits = next((low, bits) for part, low, bits in self.parts if part == name)
        above = number.floor(1 << low)
        return above if low + bits == self.bits else above % (1 << bits)

    def above(self, shift: int) -> Linear:
        """The bits of the number from `shift` on, over the coordinates that have some of them."""
        if not self.is_plain:
            return self.key.floor(1 << shift) if shift else self.key
        found = Linear.of(0)
        for name, low, bits in self.parts:
            if low + bits > shift:
                term = Linear.of(Var(name))
                held = term.floor(1 << shift - low) if low < shift else term
                found += held * (1 << max(low - shift, 0))
        return found

    def below(self, width: int) -> Linear:
        """The lowest bits of the number, over the coordinates that have some of them."""
        if not self.is_plain:
            # A number has nothing above its last bit, which may reach over the width of a key.
            return self.key if width >= MOST_BITS else self.key % (1 << width)
        found = Linear.of(0)
        for name, low, bits in self.parts:
            if low < width:
                term = Linear.of(Var(name))
                held = term % (1 << width - low) if low + bits > width else term
                found += held * (1 << low)
        return found


def packed(wanted: Order, coordinates: tuple[str, ...], sizes: Sizes) -> Code | None:
    """The number to sort by; None where the order is not one of plain coordinates or a curve."""
    bits = {name: max(sizes.bits[name], 1) for name in coordinates}
    names = [term.atom.name for term in wanted if isinstance(term.atom, Var)]
    if set(names) == set(coordinates) and len(names) == len(wanted):
        key, low, parts = Linear.of(0), 0, []
        for name in reversed(names):
            key += Linear.of(Var(name)) * (1 << low)
            parts.append((name, low, bits[name]))
            low += bits[name]
        return Code(key, low, tuple(parts)) if low <= MOST_BITS else None
    call = wanted[0].atom
    if not isinstance(call, Call) or call.name not in ("MORTON", "ALTO"):
        return None
    each = max(bits.values())
    parts = [(name, 0, bits[name]) for name in coordinates]
    if call.name == "MORTON":
        total = each * len(coordinates)
        return Code(wanted[0], total, tuple(parts), each) if total <= MOST_BITS else None
    layout = call.args[len(coordinates) :]
    total = sum(sizes.bits[name] for name in coordinates)
    return Code(wanted[0], max(total, 1), tuple(parts), 0, layout) if total <= MOST_BITS else None
