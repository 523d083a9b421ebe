"""Strides of the arrays of a call, in elements, and the scalars kernels know them by."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from operator import mul
from typing import TypeAlias

from loopwright.lower.strides import stride_name

__all__ = ["Strides", "row_major", "stride_values", "unit_strides"]

Strides: TypeAlias = Mapping[str, tuple[int, ...]]  # by array, one per dimension


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a fresh array."""
    return tuple(accumulate(reversed(shape[1:]), mul, initial=1))[::-1] if shape else ()


def stride_values(strides: Strides) -> dict[str, int]:
    """The value of each stride scalar."""
    return {stride_name(name, d): x for name, steps in strides.items() for d, x in enumerate(steps)}


def unit_strides(strides: Strides) -> dict[str, int]:
    """The stride scalars that are 1: code is made for them."""
    return {name: 1 for name, stride in stride_values(strides).items() if stride == 1}
