"""The textual side of LLVM: types, literals, fresh names, instructions as lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import lru_cache

import numpy as np

from loopwright.ir.dtypes import INT64, DType
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "WITH_SSE2",
    "Flag",
    "FunctionBuilder",
    "SSAValue",
    "int_literal",
    "intrinsic_suffix",
    "literal",
    "plain_name",
    "type_name",
]

# Extensions that only processors with SSE2 have.
WITH_SSE2 = frozenset({"sse3", "sse4.1", "sse4.2", "avx", "avx2"})

_SCALAR_TYPES = {
    "bool": "i8",  # a truth value in memory and registers is a byte 0 or 1; i1 only in branches
    "float16": "half",
    "float32": "float",
    "float64": "double",
}


@dataclass(frozen=True, slots=True)
class SSAValue:
    """An SSA value or literal: `lanes` elements of `dtype`; complex ones carry two texts."""

    text: str  # operand text without type: %7, 42, zeroinitializer
    dtype: DType
    lanes: int = 1
    imag: str = ""  # operand text of the imaginary part, complex values only

    @property
    def type(self) -> str:
        return type_name(self.dtype, self.lanes)

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


@dataclass(frozen=True, slots=True)
class Flag:
    """A truth value (or one per lane) as branches and selects want it: i1."""

    text: str
    lanes: int = 1

    @property
    def type(self) -> str:
        return "i1" if self.lanes == 1 else f"<{self.lanes} x i1>"

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


@lru_cache(maxsize=1024)
def type_name(dtype: DType, lanes: int = 1) -> str:
    """LLVM's name of a vector of `lanes` elements; complex types give the type of one part."""
    real = dtype.real
    scalar = _SCALAR_TYPES.get(real.name, f"i{real.bits}")
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def intrinsic_suffix(dtype: DType, lanes: int) -> str:
    """The mangled type in an intrinsic's name: v4f32, i64, ..."""
    letter = "f" if dtype.real.is_float else "i"
    scalar = f"{letter}{dtype.real.bits}"
    return scalar if lanes == 1 else f"v{lanes}{scalar}"


def _number(dtype: DType, value: bool | int | float) -> str:
    if not dtype.is_float:
        bits = dtype.bits
        wrapped = int(value) & ((1 << bits) - 1)
        return str(wrapped - (1 << bits) if wrapped >> (bits - 1) and bits > 1 else wrapped)
    with np.errstate(over="ignore"):
        rounded = dtype.numpy.type(value)
    if dtype.bits == 16:
        return f"0xH{int(rounded.view(np.uint16)):04X}"
    # A float literal is written as the double of equal value.
    return f"0x{int(np.float64(rounded).view(np.uint64)):016X}"


def literal(dtype: DType, value: bool | int | float | complex) -> SSAValue:
    """A scalar constant."""
    if dtype.is_complex:
        number = complex(value)
        return SSAValue(
            _number(dtype.real, number.real), dtype, 1, _number(dtype.real, number.imag)
        )
    assert not isinstance(value, complex)
    return SSAValue(_number(dtype, value), dtype)


def plain_name(name: str) -> str:
    """A user's name in the letters LLVM takes without quotes; others become underscores."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._") else "_" for c in name)


def int_literal(value: SSAValue) -> int | None:
    """The number an int64 literal stands for; None for anything computed at run time."""
    # Dtypes are rows of one table, so identity is equality; this is the hottest test of emission.
    if value.dtype is not INT64 or value.lanes > 1 or value.text[0] == "%":
        return None
    return int(value.text)


@dataclass(slots=True)
class FunctionBuilder:
    """A function body under construction, and the declarations it needs."""

    lines: list[str] = field(default_factory=list)
    declarations: dict[str, None] = field(default_factory=dict)
    entry: list[str] = field(default_factory=list)  # allocas, which belong at the very start
    features: dict[str, None] = field(default_factory=dict)  # extensions its instructions need
    attributes: dict[str, None] = field(default_factory=dict)  # others of the function
    block: str = "entry"  # label of the block being written
    flags: str = ""  # freedoms of floating-point arithmetic, each followed by a space
    tags: str = ""  # metadata of every access to memory
    # Whether the parts of a complex element are loaded one by one, as LLVM wants where it is to
    # make vectors; else it gets both at once.
    parts_apart: bool = False
    _names: int = 0
    _values: dict[str, str] = field(default_factory=dict)  # pure instruction -> its result
    _scopes: list[list[str]] = field(default_factory=lambda: [[]])  # what each scope added

    def name(self, hint: str = "") -> str:
        self._names += 1
        return f"%{plain_name(hint)}{self._names}" if hint else f"%t{self._names}"

    def emit(self, instruction: str) -> str:
        """Append `instruction`, return the name of its result."""
        name = self.name()
        self.lines.append(f"  {name} = {instruction}")
        return name

    def pure(self, instruction: str) -> str:
        """Like `emit`, but an instruction already written in an open scope is not repeated."""
        found = self._values.get(instruction)
        if found is None:
            found = self._values[instruction] = self.emit(instruction)
            self._scopes[-1].append(instruction)
        return found

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Results of `pure` instructions inside are forgotten on leaving: they may not dominate."""
        self._scopes.append([])
        yield
        for instruction in self._scopes.pop():
            del self._values[instruction]

    def effect(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def label(self, hint: str) -> str:
        self._names += 1
        return f"{plain_name(hint)}{self._names}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def branch(self, label: str) -> None:
        self.effect(f"br label %{label}")

    def call(self, result: str, function: str, *operands: SSAValue | Flag) -> str:
        """Call a pure intrinsic that returns the type `result`."""
        types = ", ".join(operand.type for operand in operands)
        self.declarations[f"declare {result} @{function}({types})"] = None
        return self.emit(f"call {result} @{function}({', '.join(map(str, operands))})")

    def intrinsic(self, type_: str, function: str, *operands: str) -> str:
        """Call a pure intrinsic whose result and operands have one type, which no dtype has."""
        types = ", ".join([type_] * len(operands))
        self.declarations[f"declare {type_} @{function}({types})"] = None
        given = ", ".join(f"{type_} {operand}" for operand in operands)
        return self.emit(f"call {type_} @{function}({given})")

    def alloca(self, type_: str, count: int = 1, align: int = 64) -> str:
        name = self.name("slot")
        size = "" if count == 1 else f", i64 {count}"
        self.entry.append(f"  {name} = alloca {type_}{size}, align {align}")
        return name
