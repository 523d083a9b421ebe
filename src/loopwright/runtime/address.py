"""Addresses in memory, each with the object that owns the memory.

Machine code takes numbers, and a number keeps nothing alive: memory whose owner is collected is
reused while a closure still calls code on it. An Address therefore references its owner (ADR 24).
No other module takes addresses of arrays or makes functions of them, which tests/architecture
checks.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

__all__ = ["Address", "addresses_of", "data_address", "function_at", "object_address"]


class Address(int):
    """An address in memory; the memory stays as long as the address is referenced.

    It is an int so that ctypes takes it as it is: a call with one costs what a call with a plain
    number does.
    """

    owner: object  # keeps the memory

    def __new__(cls, place: int, owner: object) -> Self:
        address = super().__new__(cls, place)
        address.owner = owner
        return address

    def __add__(self, offset: int) -> Address:
        """The address `offset` bytes further, with the same owner."""
        return Address(int.__add__(self, offset), self.owner)


def data_address(array: np.ndarray[Any, np.dtype[Any]]) -> Address:
    """The address of the first element of an array."""
    return Address(array.ctypes.data, array)


def object_address(thing: object) -> Address:
    """The address of a Python object: what entry points of kernels take for an array."""
    return Address(id(thing), thing)


def addresses_of(things: Sequence[object]) -> bytes:
    """The addresses of Python objects as an array of machine words.

    The bytes own no object: the caller must keep them alive.
    """
    return struct.pack(f"{len(things)}q", *map(id, things))


def function_at(
    address: Address, *arguments: type, result: type | None = None
) -> Callable[..., Any]:
    """The machine code at an address as a function of Python; it releases the GIL."""
    function = ctypes.CFUNCTYPE(result, *arguments)(address)
    function.owner = address  # type: ignore[attr-defined]  # ctypes keeps the number only
    return function
