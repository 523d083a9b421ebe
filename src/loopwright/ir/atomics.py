"""Which updates of an element a GPU makes in one piece, so that blocks may make them together."""

from __future__ import annotations

from loopwright.ir.dtypes import DType

__all__ = ["has_atomic"]

_INTEGERS = frozenset({"int32", "uint32", "int64", "uint64"})
# CUDA's, of every GPU that has double precision at all; OpenCL has those of 32 bits.
_TYPES = {
    "add": _INTEGERS | {"float32", "float64"},
    **dict.fromkeys(("min", "max", "and", "or", "xor"), _INTEGERS),
}


def has_atomic(op: str, dtype: DType) -> bool:
    """Whether `x = x op y` is one operation on elements of a type."""
    return dtype.name in _TYPES.get(op, ())
