"""Calls under `error_model="python"`: what Python raises is raised, by Python itself.

Compiled code sets a flag where Python may raise, or where its integers leave 64 bits. Then what was
written is put back and Python runs the function: it raises the same exception at the same element,
and leaves the arrays as it leaves them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from loopwright.calls.specialisation import Specialisation

__all__ = ["call_as_python"]

_LARGE = 1 << 31  # sums of sizes and integer arguments below this stay inside int64


def call_as_python(
    code: Specialisation, function: Callable[..., Any], given: tuple[Any, ...], threads: int
) -> Any:
    """Run compiled code whose last result is the flag; run Python where that is set."""
    is_large = any(isinstance(x, int | np.integer) and not -_LARGE < x < _LARGE for x in given)
    if is_large:
        return function(*given)
    written = [given[place] for place in code.written_places]
    kept = [array.copy() for array in written]
    *values, flag = code(given, threads)
    if not flag:
        if len(values) > 1:
            return tuple(values[1:])
        return values[0] if values else None
    for array, old in zip(written, kept, strict=True):
        array[...] = old
    return function(*given)
