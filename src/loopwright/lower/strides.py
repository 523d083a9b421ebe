"""Strides of arguments as scalars of a nest."""

from __future__ import annotations

__all__ = ["stride_name"]


def stride_name(array: str, dimension: int) -> str:
    """The scalar that holds an argument's stride, in elements."""
    return f"{array}_s{dimension}"
