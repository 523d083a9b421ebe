"""Which functions of NumPy and Python the prelude has."""

from __future__ import annotations

import builtins
from types import FunctionType
from typing import Any

import numpy as np

from loopwright.frontends.python.prelude import along_axes, numbers_and_counts, products, rearranged
from loopwright.memo import IdentityMap

__all__ = ["PRELUDE", "is_of_prelude"]

_RENAMED: dict[object, Any] = {
    np.deg2rad: numbers_and_counts.radians,
    np.rad2deg: numbers_and_counts.degrees,
    np.round: numbers_and_counts.rounded,
    np.around: numbers_and_counts.rounded,
    builtins.round: numbers_and_counts.python_round,
    builtins.divmod: numbers_and_counts.python_divmod,
    builtins.sum: numbers_and_counts.python_sum,
    builtins.any: numbers_and_counts.python_any,
    builtins.all: numbers_and_counts.python_all,
}


def _rows() -> list[tuple[object, FunctionType]]:
    rows: list[tuple[object, Any]] = list(_RENAMED.items())
    for module in (along_axes, rearranged, products, numbers_and_counts):
        for name in module.__all__:
            theirs, ours = getattr(np, name, None), getattr(module, name)
            if theirs is not None:
                rows.append((theirs, ours))
    return rows


# NumPy's function -> ours.
PRELUDE: IdentityMap[object, FunctionType] = IdentityMap(_rows())


def is_of_prelude(function: FunctionType) -> bool:
    """Whether a function is part of the prelude."""
    return function.__module__.startswith("loopwright.frontends.python.prelude.")
