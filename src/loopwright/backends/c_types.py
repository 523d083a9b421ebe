"""C's spelling of element types and constants, without any header."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from loopwright.ir.dtypes import BOOL, DType

__all__ = ["INDEX", "Code", "Width", "c_type", "constant", "unsigned", "wrap_type"]

# Types of loop variables, bounds and subscripts. Like the C front end this counts on a `long` of 64
# bits: headers, and with them int64_t, are not ours to include.
INDEX = "long"

_NAMES = {
    "bool": "_Bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long",
    "float16": "_Float16",
    "float32": "float",
    "float64": "double",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}


class Width(Enum):
    """What C's arithmetic does with an integer."""

    INT = "int"  # computes in int, which may be too narrow for an index
    LONG = "long"  # computes in long
    WRAPS = "unsigned"  # computes modulo a power of two


@dataclass(frozen=True, slots=True)
class Code:
    """Text of a C expression, how tightly its outermost operator binds, and its width."""

    text: str
    binding: int
    width: Width = Width.INT

    def within(self, binding: int) -> str:
        """The text, in parentheses where its place asks for an operator that binds tighter."""
        return self.text if self.binding >= binding else f"({self.text})"

    def __str__(self) -> str:
        return self.text


# How tightly C's operators bind; a higher number binds more.
ATOM, UNARY, PRODUCT, SUM, ORDER, EQUAL = 15, 14, 13, 12, 10, 9
BIT_AND, BIT_XOR, BIT_OR, AND, OR, CHOICE = 8, 7, 6, 5, 4, 3


def c_type(dtype: DType) -> str:
    """The C type of an element."""
    return _NAMES[dtype.name]


def wrap_type(dtype: DType) -> str:
    """The unsigned type that arithmetic of an integer dtype is done in: it wraps, int does not."""
    return "unsigned long" if dtype.bits == 64 else "unsigned"


def constant(value: complex, dtype: DType) -> Code:
    """A literal of exactly the type `dtype`, but that narrow integers are literals of int."""
    if dtype == BOOL:
        return Code("1" if value else "0", ATOM)
    if dtype.is_integer:
        assert isinstance(value, int)
        return _integer(value, dtype)
    if dtype.is_complex:
        parts = (_real(part, dtype.real).text for part in (value.real, value.imag))
        return Code(f"__builtin_complex({', '.join(parts)})", ATOM)
    return _real(value.real, dtype)


def unsigned(value: int, dtype: DType) -> Code:
    """A literal of the type that arithmetic of an integer dtype wraps in."""
    suffix = "ul" if dtype.bits == 64 else "u"
    if value < 0:
        return Code(f"-{-value}{suffix}", UNARY, Width.WRAPS)
    return Code(f"{value}{suffix}", ATOM, Width.WRAPS)


def _integer(value: int, dtype: DType) -> Code:
    if dtype.kind == "u" and dtype.bits >= 32:
        return unsigned(value, dtype)
    suffix, width = ("L", Width.LONG) if dtype.bits == 64 else ("", Width.INT)
    if value == -(1 << (dtype.bits - 1)) and dtype.bits >= 32:
        # C has no negative literals, and the number without its sign is of no signed type.
        return Code(f"{value + 1}{suffix} - 1", SUM, width)
    return Code(f"{value}{suffix}", ATOM if value >= 0 else UNARY, width)


def _real(value: float, dtype: DType) -> Code:
    with np.errstate(over="ignore"):
        number = float(dtype.numpy.type(value))
    if math.isnan(number):
        text = '__builtin_nan("")' if dtype.bits == 64 else '__builtin_nanf("")'
    elif math.isinf(number):
        text = "__builtin_inf()" if dtype.bits == 64 else "__builtin_inff()"
        text = f"-{text}" if number < 0 else text
    else:
        text = _digits(number, dtype)
    if dtype.bits == 16:
        return Code(f"(_Float16){text}", UNARY)
    return Code(text, UNARY if text.startswith("-") else ATOM)


def _digits(number: float, dtype: DType) -> str:
    """The shortest decimal number that is read back as this one."""
    if dtype.bits == 64:
        return repr(number)
    # A half is a float, whose digits tell it apart from all other floats.
    text = str(np.float32(number))
    return text + ("f" if any(c in text for c in ".e") else ".0f")
