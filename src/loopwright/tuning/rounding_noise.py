"""How much rounding moves the results of a run: what its inputs' last digits do to them.

Recurrences and eliminations amplify what is rounded: two orders of the same sums then differ by far
more than their terms do, and neither is nearer to the true result. (Levinson's recursion of order
400: 2e-14 between two plans, both 1e-14 away from a run in long double.) So a difference counts
only where it is beyond what neighbouring inputs make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from loopwright.runtime.array_arguments import Array

__all__ = ["rounding_noise"]

_TIMES = 8.0  # of what one random change of all last digits makes


def rounding_noise(
    run: Callable[[], None], arrays: Sequence[Array], results: Sequence[Array]
) -> list[float]:
    """Bounds of the differences that rounding explains, one for each result.

    Every floating element of `arrays` gets one of its neighbours for a run; afterwards they hold
    what they held before it. `results` are some of them.
    """
    before = [array.copy() for array in arrays]
    run()
    expected = [array.copy() for array in results]
    random = np.random.default_rng(0)
    for array, old in zip(arrays, before, strict=True):
        array[...] = _neighbours(old, random)
    run()
    found = []
    with np.errstate(all="ignore"):
        for array, own in zip(results, expected, strict=True):
            if own.dtype.kind not in "fc":
                found.append(0.0)
                continue
            apart = np.abs(array - own)
            largest = float(apart[np.isfinite(apart)].max(initial=0.0))
            found.append(_TIMES * largest)
    for array, old in zip(arrays, before, strict=True):
        array[...] = old
    return found


def _neighbours(array: Array, random: np.random.Generator) -> Array:
    """An array whose elements are a unit in the last place larger or smaller."""
    if array.dtype.kind == "c":
        parts = array.view(array.real.dtype) if array.flags.c_contiguous else None
        return array if parts is None else _neighbours(parts, random).view(array.dtype)
    if array.dtype.kind != "f":
        return array
    ends = np.where(random.random(array.shape) < 0.5, -np.inf, np.inf).astype(array.dtype)
    found: Array = np.nextafter(array, ends)
    return found
