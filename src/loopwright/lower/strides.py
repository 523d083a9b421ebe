"""Names of the scalars that hold strides; calls of cached kernels load no more of lower."""

from __future__ import annotations

__all__ = ["stride_name"]


def stride_name(array: str, dimension: int) -> str:
    """The scalar of a nest that holds the stride of an argument's dimension, in elements."""
    return f"{array}_s{dimension}"
