"""Element types: one table row each, and NumPy's names for them."""

from __future__ import annotations

import numpy as np

from loopwright.diagnostics import DtypeError
from loopwright.lazy_dataclass import dataclass

__all__ = ["BFLOAT16", "DTYPES", "DType", "dtype_of"]


@dataclass(frozen=True, slots=True)
class DType:
    """The type of one array element or scalar value."""

    name: str  # NumPy's name, our only spelling
    kind: str  # "b" boolean, "i" signed, "u" unsigned, "f" floating, "c" complex, "s" stored only
    bits: int  # bits of one element in memory (a boolean takes a byte)

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """NumPy's type of elements in memory; that of their bits, where it has no such type."""
        return _NUMPY[self.name]

    @property
    def is_stored_only(self) -> bool:
        """True for elements that are loaded, stored and converted to float32, and no more."""
        return self.kind == "s"

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def is_exact(self) -> bool:
        """True when addition is associative: integers (modulo 2^bits) and booleans."""
        return self.kind in "biu"

    @property
    def least(self) -> int:
        """The least value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @property
    def greatest(self) -> int:
        """The greatest value of an integer type."""
        return (1 << (self.bits - (self.kind == "i"))) - 1

    @property
    def real(self) -> DType:
        """The type of the parts of a complex number; any other type itself."""
        return DTYPES[f"float{self.bits // 2}"] if self.is_complex else self

    def __str__(self) -> str:
        return self.name


DTYPES: dict[str, DType] = {
    row.name: row
    for row in (
        DType("bool", "b", 8),
        DType("int8", "i", 8),
        DType("int16", "i", 16),
        DType("int32", "i", 32),
        DType("int64", "i", 64),
        DType("uint8", "u", 8),
        DType("uint16", "u", 16),
        DType("uint32", "u", 32),
        DType("uint64", "u", 64),
        DType("float16", "f", 16),
        DType("float32", "f", 32),
        DType("float64", "f", 64),
        DType("complex64", "c", 64),
        DType("complex128", "c", 128),
    )
}

# The upper half of a float32: arrays of devices have it, NumPy and our arithmetic do not.
BFLOAT16 = DType("bfloat16", "s", 16)

BOOL = DTYPES["bool"]
INT32 = DTYPES["int32"]
INT64 = DTYPES["int64"]
FLOAT32 = DTYPES["float32"]
FLOAT64 = DTYPES["float64"]
_NUMPY: dict[str, np.dtype[np.generic]] = {name: np.dtype(name) for name in DTYPES}
_NUMPY[BFLOAT16.name] = np.dtype("uint16")
_OF_NUMPY: dict[np.dtype[np.generic], DType] = {_NUMPY[name]: DTYPES[name] for name in DTYPES}


def dtype_of(value: object) -> DType:
    """The DType of a NumPy dtype, a NumPy scalar type or a dtype name."""
    if isinstance(value, np.dtype) and value in _OF_NUMPY:
        return _OF_NUMPY[value]  # the usual case; the name of a dtype takes NumPy a while
    try:
        dtype = np.dtype(value)  # type: ignore[call-overload]
    except TypeError:
        raise DtypeError(f"{value!r} is no dtype; accepted: {', '.join(DTYPES)}") from None
    if not dtype.isnative:
        raise DtypeError(
            f"byte order of dtype '{dtype}' is not the machine's; try a.astype('{dtype.name}')"
        )
    found = DTYPES.get(dtype.name)
    if found is None:
        raise DtypeError(f"dtype '{dtype}' is not supported; accepted: {', '.join(DTYPES)}")
    return found
