"""Frozen index arrays: nobody can write them, so that validating them once is enough.

Code runs on index arrays that were validated. Arrays of a caller may be written to afterwards, so
they are validated in every call. Arrays that were made here, and of which nobody has a writable
view, are frozen before they are handed out: validated once, and shared between tensors at will.

A frozen array is a read-only view of read-only memory, so that NumPy refuses to make it writable
again. An array that a caller made read-only is not among them: an older view may still write to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

__all__ = ["are_frozen", "freeze", "is_frozen"]

Array = NDArray[Any]
_LEAST_SWEPT = 1024
# By identity. References without a callback, swept now and then: a WeakValueDictionary takes 3 us
# more to enter an array and to forget it. An identity that is used again has another array.
_frozen: dict[int, ref[Array]] = {}
_sweep_at = _LEAST_SWEPT  # entries


def freeze(array: Array) -> Array:
    """A read-only view of an array that nobody else has: made here, or copied."""
    if is_frozen(array):
        return array
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner.setflags(write=False)
        owner = owner.base
    view = array.view()  # read-only as well
    if len(_frozen) >= _sweep_at:
        _sweep()
    _frozen[id(view)] = ref(view)
    return view


def _sweep() -> None:
    """Forget arrays that are gone; again when there are twice as many entries as are left.

    A thread that enters an array meanwhile may lose it: the array then counts as one that others
    can write, which costs time and nothing else.
    """
    global _sweep_at
    for key, found in list(_frozen.items()):
        if found() is None:
            _frozen.pop(key, None)
    _sweep_at = max(_LEAST_SWEPT, 2 * len(_frozen))


def is_frozen(array: Array) -> bool:
    """Whether an array was frozen here."""
    found = _frozen.get(id(array))
    return found is not None and found() is array


def are_frozen(arrays: Iterable[Array]) -> bool:
    """Whether all of these were."""
    return all(map(is_frozen, arrays))
