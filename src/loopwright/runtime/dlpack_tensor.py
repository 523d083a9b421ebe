"""Tensors that other libraries hand over by DLPack, read where they lie.

The layout is that of dlpack.h 0.8, which every producer gives that is not asked for a later one.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from loopwright.diagnostics import DtypeError, UsageError
from loopwright.lazy_dataclass import dataclass

__all__ = ["CUDA", "DlpackTensor", "read_dlpack"]

CUDA, MANAGED = 2, 13  # kinds of device; memory that host and device share is a device's, too
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c"}
_BFLOAT, _BOOL = 4, 6


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class DlpackTensor:
    """What DLPack tells of a tensor; `owner` keeps its memory."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    dtype: np.dtype[Any] | str  # "bfloat16", which NumPy does not have
    device: int
    owner: object


def read_dlpack(value: Any, what: str, stream: int = 1) -> DlpackTensor:
    """The tensor of a CUDA device that `value` stands for; its data is there in `stream` order.

    Raises UsageError for tensors of other devices.
    """
    kind, number = value.__dlpack_device__()
    if int(kind) not in (CUDA, MANAGED):
        raise UsageError(
            f"{what} lies on no CUDA device", found=f"DLPack's device {int(kind)}:{number}"
        )
    try:
        capsule = value.__dlpack__(stream=stream)
    except (BufferError, RuntimeError, TypeError) as error:
        raise UsageError(f"{what} cannot be had by DLPack", found=str(error)) from error
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    place = get(capsule, b"dltensor")
    tensor = ctypes.cast(place, ctypes.POINTER(_Tensor)).contents
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[i] for i in range(tensor.ndim))
    else:
        strides = row_major(shape)
    # A capsule that nobody has renamed frees the tensor when it goes itself.
    pointer = (tensor.data or 0) + tensor.byte_offset
    return DlpackTensor(pointer, shape, strides, _dtype(tensor.dtype, what), number, capsule)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of an array without gaps, whose last subscript runs fastest."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(1, extent)
    return tuple(reversed(strides))


def _dtype(found: _Type, what: str) -> np.dtype[Any] | str:
    if (found.code, found.bits, found.lanes) == (_BFLOAT, 16, 1):
        return "bfloat16"
    if found.code == _BOOL and found.bits == 8:
        return np.dtype(bool)
    if found.code not in _KINDS or found.lanes != 1 or found.bits % 8:
        told = f"DLPack's type {found.code} of {found.bits} bits and {found.lanes} lanes"
        raise DtypeError(f"{what} has elements that are not supported", found=told)
    return np.dtype(f"{_KINDS[found.code]}{found.bits // 8}")
