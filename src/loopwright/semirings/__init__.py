"""Semirings: pairs of operators that make a tensor product, with their laws and identities.

A product takes `plus` over `times`: out = x1 times y1  plus  x2 times y2  plus ... Every reduction
starts at `zero`, the identity of `plus` over the whole element type, which is also the value of an
empty one: inf for min, -inf for max, the greatest or least number of an integer type.

Integers wrap. The zero of min_plus over int32 is 2147483647, and adding 1 to it gives the least
integer: an integer "infinity" that takes part in a sum is a number like any other. Results are
bit-equal to `ir/interpret` all the same, under every schedule; `annihilates` says where zero may
stand for "no connection", `absent` which value does, and `distributive` where a factor may be
drawn out of a reduction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwright.ir.trace import maximum, minimum
    from loopwright.semirings.identities import identity
    from loopwright.semirings.named import SEMIRINGS, Semiring, semiring
    from loopwright.semirings.own import make_semiring

__all__ = [
    "SEMIRINGS",
    "Semiring",
    "identity",
    "make_semiring",
    "maximum",
    "minimum",
    "semiring",
]


def __getattr__(name: str) -> Any:
    """Names load on first use: most calls need few of them, and making one's own needs most."""
    found: object
    if name == "make_semiring":
        from loopwright.semirings import own as found  # lazy: see above
    elif name in ("maximum", "minimum"):
        from loopwright.ir import trace as found  # lazy: see above
    elif name == "identity":
        from loopwright.semirings import identities as found  # lazy: see above
    elif name in __all__:
        from loopwright.semirings import named as found  # lazy: see above
    else:
        raise AttributeError(f"module 'loopwright.semirings' has no attribute '{name}'")
    value = globals()[name] = getattr(found, name)
    return value
