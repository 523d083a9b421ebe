"""Which functions of NumPy and Python the prelude has."""

from __future__ import annotations

import builtins
from types import FunctionType
from typing import Any

import numpy as np

from loopwright.frontends.python.prelude import along_axes, elements, products, rearranged
from loopwright.memo import IdentityMap

__all__ = ["PRELUDE", "is_of_prelude"]

_RENAMED: dict[object, Any] = {
    np.deg2rad: elements.radians,
    np.rad2deg: elements.degrees,
    np.round: elements.rounded,
    np.around: elements.rounded,
    builtins.round: elements.python_round,
    builtins.divmod: elements.python_divmod,
    builtins.sum: elements.python_sum,
    builtins.any: elements.python_any,
    builtins.all: elements.python_all,
}


def _rows() -> list[tuple[object, FunctionType]]:
    rows: list[tuple[object, Any]] = list(_RENAMED.items())
    for module in (along_axes, rearranged, products, elements):
        for name in module.__all__:
            theirs, ours = getattr(np, name, None), getattr(module, name)
            if theirs is not None:
                rows.append((theirs, ours))
    return rows


# NumPy's function -> ours.
PRELUDE: IdentityMap[object, FunctionType] = IdentityMap(_rows())


def is_of_prelude(function: FunctionType) -> bool:
    """Whether a function is part of the prelude."""
    return (function.__module__ or "").startswith("loopwright.frontends.python.prelude.")
