"""Identities of operators: the values that leave every other as it is."""

from __future__ import annotations

import math

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DType

__all__ = ["identity"]


def identity(operator: str, dtype: DType) -> bool | int | float | complex:
    """The value that leaves every other as it is under an operator of ir/expr."""
    match operator:
        case "add" | "or" | "xor":
            return _typed(0, dtype)
        case "mul":
            return _typed(1, dtype)
        case "and":
            return True if dtype.kind == "b" else int(np.array(-1).astype(dtype.name))
        case "min":
            return _greatest(dtype)
        case "max":
            return _least(dtype)
    raise UsageError(f"operator '{operator}' has no identity that we know")


def _greatest(dtype: DType) -> bool | int | float | complex:
    if dtype.is_integer:
        return int(np.iinfo(dtype.name).max)
    return math.inf if dtype.is_float else True


def _least(dtype: DType) -> bool | int | float | complex:
    if dtype.is_integer:
        return int(np.iinfo(dtype.name).min)
    return -math.inf if dtype.is_float else False


def _typed(number: int, dtype: DType) -> bool | int | float | complex:
    value: bool | int | float | complex = dtype.numpy.type(number).item()
    return value
