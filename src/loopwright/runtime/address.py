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

__all__ = [
    "Address",
    "addresses_of",
    "builtin_function",
    "builtin_method",
    "data_address",
    "function_at",
    "hold_for_ever",
    "locked_function_at",
    "memory_at",
    "object_address",
    "python_function",
    "raise_fetched",
]


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


def locked_function_at(
    address: Address, *arguments: type, result: type | None = None
) -> Callable[..., Any]:
    """The machine code at an address as a function of Python; it keeps the GIL."""
    function = ctypes.PYFUNCTYPE(result, *arguments)(address)
    function.owner = address  # type: ignore[attr-defined]
    return function


def memory_at(address: Address, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """`size` bytes of memory as an array, which keeps the owner of the memory; so do its views."""
    memory: Any = (ctypes.c_uint8 * size).from_address(address)
    memory.owner = address  # ctypes keeps the number only
    return np.frombuffer(memory, np.uint8)


def python_function(name: str) -> int:
    """Where a function of Python's C interface lies; it stays as long as the process."""
    found = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert found is not None
    return found


def raise_fetched(words: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    """Raise what PyErr_Fetch has put into three words; their references are taken over."""
    restore = ctypes.pythonapi.PyErr_Restore
    restore.restype, restore.argtypes = None, [ctypes.c_void_p] * 3
    restore(*map(int, words[:3]))


def hold_for_ever(thing: object) -> None:
    """Never free an object, not even while the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


class _MethodDef(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL_KEYWORDS = 0x80 | 0x2  # METH_FASTCALL | METH_KEYWORDS


def _method_def(code: Address, name: str, doc: str) -> Any:
    made = _MethodDef(name.encode(), code, _FASTCALL_KEYWORDS, doc.encode())
    hold_for_ever(made)  # Python refers to the definitions of its functions and to their code
    hold_for_ever(code)
    return ctypes.byref(made)


def builtin_function(code: Address, name: str, module: str, doc: str) -> Any:
    """Machine code with the interface of METH_FASTCALL | METH_KEYWORDS as a built-in function."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 2 + [ctypes.py_object]
    return make(_method_def(code, name, doc), None, module)


def builtin_method(code: Address, name: str, owner: type, doc: str) -> Any:
    """The same as a method of a class."""
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return make(owner, _method_def(code, name, doc))
