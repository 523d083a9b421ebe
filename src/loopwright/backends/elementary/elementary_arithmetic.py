"""The arithmetic that functions of real numbers are made of, whatever code computes it.

A function is described once, as a straight line of these operations, and becomes LLVM's
instructions (`llvm_lanes`) or lines of C (`c_elementary`) with the same bits. Straight lines are
what compilers take in vectors: no branches, no tables, no calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, DType

__all__ = ["INTEGERS", "Arithmetic"]

INTEGERS = {FLOAT32: DTYPES["int32"], FLOAT64: DTYPES["int64"]}  # of as many bits
_FRACTIONS = {FLOAT32: 23, FLOAT64: 52}

Value = TypeVar("Value")  # numbers or integers of as many bits
Condition = TypeVar("Condition")


class Arithmetic(ABC, Generic[Value, Condition]):
    """Operations on numbers of one type, each rounded once."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.fraction = _FRACTIONS[dtype]  # bits of the fraction of a number
        self.integer_type = INTEGERS[dtype]

    @abstractmethod
    def number(self, value: float) -> Value: ...

    @abstractmethod
    def integer(self, value: int) -> Value: ...

    @abstractmethod
    def add(self, x: Value, y: Value) -> Value: ...

    @abstractmethod
    def sub(self, x: Value, y: Value) -> Value: ...

    @abstractmethod
    def mul(self, x: Value, y: Value) -> Value:
        """A product that no sum takes but by `fma`: compilers of C would fuse the two."""

    @abstractmethod
    def rounded_product(self, x: Value, y: Value) -> Value:
        """A product that may go into sums, rounded before."""

    @abstractmethod
    def div(self, x: Value, y: Value) -> Value: ...

    @abstractmethod
    def negative(self, x: Value) -> Value: ...

    @abstractmethod
    def absolute(self, x: Value) -> Value: ...

    @abstractmethod
    def with_sign(self, x: Value, sign: Value) -> Value:
        """x with the sign of another number."""

    @abstractmethod
    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x*y + z, rounded once."""

    @abstractmethod
    def select(self, cond: Condition, x: Value, y: Value) -> Value: ...

    @abstractmethod
    def compare(self, op: str, x: Value, y: Value) -> Condition: ...

    @abstractmethod
    def bits_of(self, x: Value) -> Value:
        """The bits of numbers as integers."""

    @abstractmethod
    def of_bits(self, x: Value) -> Value:
        """The numbers that have these bits."""

    @abstractmethod
    def on_bits(self, instruction: str, x: Value, y: Value) -> Value:
        """An instruction of LLVM's on integers: add, sub, shl, lshr, and, xor."""

    def small_number(self, x: Value) -> Value:
        """Integers that the fraction of a number can hold, as numbers: AVX2 has no conversion."""
        shift = self.number(1.5 * 2.0**self.fraction)
        return self.sub(self.of_bits(self.on_bits("add", x, self.bits_of(shift))), shift)

    def nearest(self, x: Value, factor: float) -> tuple[Value, Value]:
        """The integer nearest to x * factor: the number, and bits that end in its own.

        3/2 of the largest power of two that has a half is added: nothing is converted, and NaN goes
        through.
        """
        shift = self.number(1.5 * 2.0**self.fraction)
        shifted = self.fma(x, self.number(factor), shift)
        return self.sub(shifted, shift), self.bits_of(shifted)

    def polynomial(
        self, coefficients: Sequence[float], x: Value, square: Value | None = None
    ) -> Value:
        """The sum of c_k x^k by halves (Estrin): they wait for each other less than terms in turn.

        `square` is x^2 where it is known.
        """
        parts, power = [self.number(c) for c in coefficients], x
        while len(parts) > 1:
            pairs = zip(parts[::2], [*parts[1::2], None], strict=False)
            parts = [low if high is None else self.fma(high, power, low) for low, high in pairs]
            if len(parts) > 1:
                power, square = self.mul(power, power) if square is None else square, None
        return parts[0]
