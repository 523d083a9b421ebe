"""`tensordot` and `transpose`: with `einsum`, what opt_einsum asks of a backend.

opt_einsum.contract("ij,jk,kl->il", a, b, c, backend="loopwright")
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import numpy as np

from loopwright.calls.einsum import einsum
from loopwright.diagnostics import UsageError
from loopwright.runtime.array_arguments import as_operand
from loopwright.semirings import Semiring

__all__ = ["tensordot", "transpose"]


def tensordot(a: Any, b: Any, axes: Any = 2, *, semiring: str | Semiring = "plus_times") -> Any:
    """Sum of products over pairs of axes, as numpy.tensordot has it, over any semiring.

    `axes` is a number n, which pairs the last n axes of `a` with the first n of `b`, or two axes
    or two lists of axes. The result has the other axes of `a`, then those of `b`.
    """
    left, right = _operand(a, "a"), _operand(b, "b")
    pairs = _pairs(axes, left.ndim, right.ndim)
    if left.ndim + right.ndim - len(pairs) > len(ascii_letters):
        raise UsageError(
            f"tensordot takes at most {len(ascii_letters)} different axes",
            found=f"{left.ndim} and {right.ndim} axes, {len(pairs)} of them paired",
        )
    of_left = ascii_letters[: left.ndim]
    free = iter(ascii_letters[left.ndim :])
    paired = {second: of_left[first] for first, second in pairs}
    of_right = "".join(paired.get(k) or next(free) for k in range(right.ndim))
    common = set(of_left) & set(of_right)
    out = "".join(c for c in of_left + of_right if c not in common)
    return einsum(f"{of_left},{of_right}->{out}", left, right, semiring=semiring)


def transpose(array: Any, axes: Sequence[int] | None = None) -> Any:
    """The array with its axes in another order, as a view."""
    given = _operand(array, "array")
    if isinstance(given, np.ndarray) or given.ndim > len(ascii_letters):
        return np.transpose(given, axes)
    before = ascii_letters[: given.ndim]
    order = range(given.ndim)[::-1] if axes is None else axes
    return einsum(
        f"{before}->{''.join(before[_axis(k, given.ndim, 'array')] for k in order)}", given
    )


def _operand(value: Any, what: str) -> Any:
    """An array of NumPy or of another library, also on a device: einsum takes all of them."""
    is_foreign = hasattr(value, "__dlpack__") and hasattr(value, "shape")
    return value if is_foreign else as_operand(value, what)


def _pairs(axes: Any, left: int, right: int) -> list[tuple[int, int]]:
    """The axes to sum over, counted from 0, as pairs of one of `a` and one of `b`."""
    if isinstance(axes, int | np.integer):
        count = int(axes)
        chosen: tuple[list[int], list[int]] = list(range(left - count, left)), list(range(count))
    else:
        first, second = ([int(k) for k in np.atleast_1d(part)] for part in axes)
        chosen = first, second
    if len(chosen[0]) != len(chosen[1]):
        raise UsageError(
            "tensordot pairs as many axes of a as of b",
            found=f"{len(chosen[0])} and {len(chosen[1])}",
        )
    found = [
        [_axis(k, ndim, name) for k in part]
        for part, ndim, name in zip(chosen, (left, right), "ab", strict=True)
    ]
    for part, name in zip(found, "ab", strict=True):
        if len(set(part)) != len(part):
            raise UsageError(f"tensordot pairs an axis of {name} twice", found=f"axes = {axes!r}")
    return list(zip(*found, strict=True))


def _axis(axis: int, ndim: int, name: str) -> int:
    if not -ndim <= axis < ndim:
        raise UsageError(f"{name} has {ndim} axes", found=f"axis {axis} in axes of tensordot")
    return axis % ndim
