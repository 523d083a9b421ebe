"""Functions of NumPy as functions of the accepted language, which are read like a user's helpers.

They are for vectors; what a table of primitives has is not written here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from loopwright.memo import IdentityMap

__all__ = ["PRELUDE"]


def _argmax(a: Any) -> Any:
    if a.shape[0] == 0:
        raise ValueError("attempt to get argmax of an empty sequence")
    best = 0
    for i in range(1, a.shape[0]):
        if a[i] > a[best] or (a[i] != a[i] and a[best] == a[best]):
            best = i
    return np.int64(best)


def _argmin(a: Any) -> Any:
    if a.shape[0] == 0:
        raise ValueError("attempt to get argmin of an empty sequence")
    best = 0
    for i in range(1, a.shape[0]):
        if a[i] < a[best] or (a[i] != a[i] and a[best] == a[best]):
            best = i
    return np.int64(best)


def _cumsum(a: Any) -> Any:
    found = np.empty(a.shape[0], np.sum(a[:0]).dtype)
    if a.shape[0] > 0:
        found[0] = a[0]
        for i in range(1, a.shape[0]):
            found[i] = found[i - 1] + a[i]
    return found


def _cumprod(a: Any) -> Any:
    found = np.empty(a.shape[0], np.sum(a[:0]).dtype)
    if a.shape[0] > 0:
        found[0] = a[0]
        for i in range(1, a.shape[0]):
            found[i] = found[i - 1] * a[i]
    return found


def _diff(a: Any) -> Any:
    return a[1:] - a[:-1]


def _trace(a: Any) -> Any:
    total = np.sum(a[:0, :0])
    for i in range(min(a.shape[0], a.shape[1])):
        total = total + a[i, i]
    return total


PRELUDE: IdentityMap[object, FunctionType] = IdentityMap(
    [
        (np.argmax, _argmax),
        (np.argmin, _argmin),
        (np.cumsum, _cumsum),
        (np.cumprod, _cumprod),
        (np.diff, _diff),
        (np.trace, _trace),
    ]
)
