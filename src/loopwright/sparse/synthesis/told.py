"""What a sort has found out of its entries on the way, for the stages that come after it."""

from __future__ import annotations

from dataclasses import dataclass

from loopwright.sparse.uf import Linear

__all__ = ["Told"]

_ZERO = Linear.of(0)


@dataclass(frozen=True)
class Told:
    """How many entries repeat the one before, and where the entries of each parent begin."""

    repeats: str  # the symbol of their number
    # It is learnt already but for where none of these is negative.
    untold: tuple[Linear, ...] = ()
    parent: Linear | None = None  # over coordinates
    pointers: str = ""  # pointers[x] entries have a parent below x, while `left` = `right`
    left: Linear = _ZERO
    right: Linear = _ZERO
