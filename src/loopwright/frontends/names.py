"""Unique names for everything in a program, from names the user wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["Names"]

# Words of isl's own notation (isl_stream.c): sets are printed and read back by people and tests.
_LOGIC = ("and", "or", "not", "implies", "exists", "true", "false")
_NUMBERS = (
    "infty",
    "infinity",
    "nan",
    "rat",
    "min",
    "max",
    "mod",
    "ceil",
    "floor",
    "ceild",
    "floord",
)
_ISL_WORDS = frozenset((*_LOGIC, *_NUMBERS))
_STRIDE = re.compile(r"_s[0-9]+$")  # the strides of an array A are called A_s0, A_s1, ... below


class Names:
    """Hands out each name once. Names are C identifiers, no words of isl and no strides."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def fresh(self, wish: str) -> str:
        """Return `wish` made plain, or with the first free number: i, i_1, i_2."""
        plain = "".join(c if c.isascii() else f"u{ord(c):04x}" for c in wish)
        if plain.lower() in _ISL_WORDS or _STRIDE.search(plain):
            plain += "_"
        name, count = plain, 0
        while name in self._taken:
            count += 1
            name = f"{plain}_{count}"
        self._taken.add(name)
        return name
