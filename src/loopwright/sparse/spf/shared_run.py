"""Run a computation in shares: how many, where they begin, and rows for each of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.sparse.spf.sharing import Sharing, Split
from loopwright.sparse.uf import evaluate

__all__ = [
    "cuts",
    "is_long_enough",
    "is_worth_sharing",
    "new_rows",
    "shares_of",
    "work_in",
]

Array = NDArray[Any]

# Iterations of a share at least: to wake a worker and to wait for all costs some 100 us, as much
# as tens of thousands of entries take that are moved, and many more that are only looked at.
LEAST, LEAST_LIGHT = 1 << 16, 1 << 18
# Elements of rows for each entry at most. Rows are cleared, counted in and joined, each element
# about as fast as an entry is read; an entry that is moved takes several times that.
ROWS = 2


def shares_of(
    sharing: Sharing, arrays: Mapping[str, Array], known: Mapping[str, int], threads: int
) -> int:
    """Into how many shares to cut: no more than threads, and than entries pay for."""
    work = work_in(sharing.entries, arrays, known)
    rows = max(evaluate(sharing.longest, known, {}), 1)
    least = LEAST_LIGHT if sharing.is_light else LEAST
    return max(1, min(threads, work // least, ROWS * work // rows))


def is_worth_sharing(arrays: Iterable[Array]) -> bool:
    """Whether some array is long enough for two shares of a loop over it."""
    return max((array.size for array in arrays), default=0) >= 2 * LEAST_LIGHT


def is_long_enough(count: int) -> bool:
    """Whether a loop of so many iterations may be cut into two shares at all."""
    return count >= 2 * min(LEAST, LEAST_LIGHT)


def work_in(split: Split, arrays: Mapping[str, Array], known: Mapping[str, int]) -> int:
    """How many instances there are, as far as pointers tell."""
    low, high = (evaluate(end, known, {}) for end in (split.low, split.high))
    return _before(split, arrays, max(low, high)) - _before(split, arrays, low)


def new_rows(sharing: Sharing, values: Mapping[str, int]) -> dict[str, Array]:
    """Rows for all shares; their elements are undefined."""
    return {
        space.name: np.empty([evaluate(e, values, {}) for e in space.shape], space.dtype.numpy)
        for space in sharing.rows
    }


def cuts(
    sharing: Sharing, arrays: Mapping[str, Array], known: Mapping[str, int], shares: int
) -> Array:
    """Where shares of about equal work begin, and where the last one ends."""
    split = sharing.split
    low, high = (evaluate(end, known, {}) for end in (split.low, split.high))
    high = max(low, high)
    first, last = (_before(split, arrays, end) for end in (low, high))
    inner = [
        _reached(split, arrays, range(low, high), first + (last - first) * t // shares)
        for t in range(1, shares)
    ]
    found = [low, *(_run_end(split, arrays, at, low, high) for at in inner), high]
    return np.array(found, np.int64)


def _reached(split: Split, arrays: Mapping[str, Array], within: range, work: int) -> int:
    """The first place of a range before which there is so much work."""
    if not split.pointers:
        return work
    if len(split.pointers) == 1:
        pointer = arrays[split.pointers[0]][within.start : within.stop]
        # For a number of another type the whole pointer would be converted.
        return within.start + int(pointer.searchsorted(pointer.dtype.type(work)))
    return within.start + bisect_left(within, work, key=lambda v: _before(split, arrays, v))


def _run_end(split: Split, arrays: Mapping[str, Array], at: int, low: int, high: int) -> int:
    """The first place from `at` on where iterations that belong together have come to an end."""
    if not split.together or at <= low:
        return at
    before = [arrays[name][at - 1] for name in split.together]
    step = 64
    while at < high:
        end = min(at + step, high)
        pairs = zip(split.together, before, strict=True)
        differs = np.logical_or.reduce([arrays[name][at:end] != x for name, x in pairs])
        if differs.any():
            return at + int(differs.argmax())
        at, step = end, 2 * step
    return high


def _before(split: Split, arrays: Mapping[str, Array], v: int) -> int:
    for name in split.pointers:
        v = int(arrays[name][v])
    return v
