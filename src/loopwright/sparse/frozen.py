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
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

__all__ = ["are_frozen", "freeze", "is_frozen"]

Array = NDArray[Any]
_frozen: WeakValueDictionary[int, Array] = WeakValueDictionary()  # by identity


def freeze(array: Array) -> Array:
    """A read-only view of an array that nobody else has: made here, or copied."""
    if is_frozen(array):
        return array
    view = array.view()
    owner: Any = view
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        owner = owner.base
    _frozen[id(view)] = view
    return view


def is_frozen(array: Array) -> bool:
    """Whether an array was frozen here."""
    return _frozen.get(id(array)) is array


def are_frozen(arrays: Iterable[Array]) -> bool:
    """Whether all of these were."""
    return all(map(is_frozen, arrays))
