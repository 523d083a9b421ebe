"""Unique names for the loops, arrays and statements of a program, from the user's names."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["FreshNames"]

# Keywords of isl's notation (isl_stream.c): printed sets are read back by people and tests.
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
_STRIDE = re.compile(r"_s[0-9]+$")  # later stages call the strides of an array A: A_s0, A_s1, ...


class FreshNames:
    """Hands out each name once: C identifiers that are neither keywords of isl nor strides.

    Names that are made up avoid `others`, the identifiers of the surrounding source.
    """

    def __init__(self, taken: Iterable[str] = (), others: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._others = frozenset(others)

    def fresh(self, wish: str) -> str:
        """`wish` as an ASCII identifier, with the first free number if it is taken: i, i_1, i_2."""
        plain = "".join(c if c.isascii() else f"u{ord(c):04x}" for c in wish)
        if plain.lower() in _ISL_WORDS or _STRIDE.search(plain):
            plain += "_"
        name, count = plain, 0
        while name in self._taken or (name != wish and name in self._others):
            self._taken.add(name)
            count += 1
            name = f"{plain}_{count}"
        self._taken.add(name)
        return name

    def taken(self) -> frozenset[str]:
        """The names given so far."""
        return frozenset(self._taken)
