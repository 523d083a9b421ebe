"""The factors alpha and beta of a call: plain numbers that the sums can hold."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DType

__all__ = ["is_value", "plain_number"]

Number: TypeAlias = bool | int | float | complex


def plain_number(value: Any, what: str) -> Number:
    """`value` as a number of Python; NumPy's scalars and arrays of rank 0 stand for theirs."""
    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, bool | int | float | complex):
        raise UsageError(f"{what} must be a number", found=repr(value))
    return value


def is_value(number: Number, dtype: DType) -> bool:
    """Whether a number can be written in `dtype`, up to rounding."""
    if isinstance(number, complex):
        return dtype.is_complex
    if not (dtype.is_integer or dtype.kind == "b"):
        return True
    if isinstance(number, float) and not number.is_integer():
        return False
    limits = np.iinfo(dtype.name) if dtype.is_integer else None
    low, high = (0, 1) if limits is None else (limits.min, limits.max)
    return bool(low <= number <= high)
