"""Semirings: pairs of operators that make a tensor product, with their laws and identities.

A product takes `plus` over `times`: out = x1 times y1  plus  x2 times y2  plus ... Every reduction
starts at `zero`, the identity of `plus` over the whole element type, which is also the value of an
empty one: inf for min, -inf for max, the greatest or least number of an integer type.

Sums of products of integers wrap (plus_times is a ring). Where plus is min or max, times saturates:
the zero of min_plus over int32 is 2147483647, it stands for infinity and absorbs whatever is added
to it, and sums that reach it are infinite. Operands are converted first: the zero is that of the
type in which products are formed. `annihilates` says where zero may stand for "no connection",
`absent` which value does, and `distributive` where a factor may be drawn out of a reduction.
Results are bit-equal to `ir/interpret`, under every schedule.

`loopwright.semirings.min_plus` and its kin are modules with `einsum`, `tensordot` and `transpose`
over that semiring: backends of opt_einsum.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from loopwright.semirings.opt_einsum_backends import NAMES, install

if TYPE_CHECKING:
    from loopwright.ir.trace import maximum, minimum
    from loopwright.semirings.named import SEMIRINGS, Semiring, identity, semiring
    from loopwright.semirings.user_defined import make_semiring

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
        from loopwright.semirings import user_defined as found  # lazy: see above
    elif name in ("maximum", "minimum"):
        from loopwright.ir import trace as found  # lazy: see above
    elif name in __all__:
        from loopwright.semirings import named as found  # lazy: see above
    elif name in NAMES:
        return sys.modules[f"{__name__}.{name}"]
    else:
        raise AttributeError(f"module 'loopwright.semirings' has no attribute '{name}'")
    value = globals()[name] = getattr(found, name)
    return value


install(__name__)


def __dir__() -> list[str]:
    return sorted([*__all__, *NAMES, *(name for name in globals() if name.startswith("__"))])
