"""Real numbers in lanes, and the arithmetic that functions of them are made of.

Straight lines of it are what compilers take in vectors: no branches, no tables, no calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.backends.llvm_arithmetic import binary, broadcast, compare, select, unary
from loopwright.backends.llvm_builder import (
    Flag,
    FunctionBuilder,
    SSAValue,
    intrinsic_suffix,
    literal,
)
from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, DType

__all__ = ["Lanes", "types_in_vectors"]

_VECTOR_BITS = {"avx512f": 512, "avx2": 256, "neon": 128}  # the widest first
_INTEGERS = {FLOAT32: DTYPES["int32"], FLOAT64: DTYPES["int64"]}
_FRACTIONS = {FLOAT32: 23, FLOAT64: 52}


def types_in_vectors(features: frozenset[str], least: int = 2) -> frozenset[DType]:
    """Types of which a vector has `least` lanes or more, where there are fused products."""
    bits = next((bits for name, bits in _VECTOR_BITS.items() if name in features), 0)
    is_fused = "fma" in features
    return frozenset(x for x in _INTEGERS if is_fused and bits >= least * x.bits)


@dataclass(frozen=True, slots=True)
class Lanes:
    """What is computed on `lanes` numbers of one type at once."""

    code: FunctionBuilder
    dtype: DType
    lanes: int

    @property
    def fraction(self) -> int:
        """Bits of the fraction of a number."""
        return _FRACTIONS[self.dtype]

    @property
    def integer_type(self) -> DType:
        """Integers of as many bits."""
        return _INTEGERS[self.dtype]

    def number(self, value: float) -> SSAValue:
        """The same number in all lanes."""
        return broadcast(self.code, literal(self.dtype, value), self.lanes)

    def integer(self, value: int) -> SSAValue:
        """The same integer in all lanes."""
        return broadcast(self.code, literal(self.integer_type, value), self.lanes)

    def add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return binary(self.code, "add", x, y)

    def sub(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return binary(self.code, "sub", x, y)

    def mul(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return binary(self.code, "mul", x, y)

    def div(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return binary(self.code, "div", x, y)

    def negative(self, x: SSAValue) -> SSAValue:
        return unary(self.code, "neg", x)

    def fma(self, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
        """x*y + z, rounded once."""
        return self.intrinsic("fma", x, y, z)

    def intrinsic(self, function: str, *args: SSAValue) -> SSAValue:
        """A function of LLVM's on numbers."""
        name = f"llvm.{function}.{intrinsic_suffix(self.dtype, self.lanes)}"
        return self._number(self.code.call(args[0].type, name, *args))

    def select(self, cond: Flag, x: SSAValue, y: SSAValue) -> SSAValue:
        return select(self.code, cond, x, y)

    def compare(self, op: str, x: SSAValue, y: SSAValue) -> Flag:
        return compare(self.code, op, x, y)

    def bits_of(self, x: SSAValue) -> SSAValue:
        """The bits of numbers as integers."""
        found = SSAValue("", self.integer_type, self.lanes)
        return self._integer(self.code.emit(f"bitcast {x} to {found.type}"))

    def of_bits(self, x: SSAValue) -> SSAValue:
        """The numbers that have these bits."""
        found = SSAValue("", self.dtype, self.lanes)
        return self._number(self.code.emit(f"bitcast {x} to {found.type}"))

    def on_bits(self, instruction: str, x: SSAValue, y: SSAValue) -> SSAValue:
        """An instruction on integers: shl, lshr, ashr, and, or, xor."""
        return self._integer(self.code.emit(f"{instruction} {x}, {y.text}"))

    def small_number(self, x: SSAValue) -> SSAValue:
        """Integers that the fraction of a number can hold, as numbers: AVX2 has no conversion."""
        shift = self.number(1.5 * 2.0**self.fraction)
        return self.sub(self.of_bits(self.add(x, self.bits_of(shift))), shift)

    def nearest(self, x: SSAValue, factor: float) -> tuple[SSAValue, SSAValue]:
        """The integer nearest to x * factor: the number, and bits that end in its own.

        3/2 of the largest power of two that has a half is added: nothing is converted, and NaN goes
        through.
        """
        shift = self.number(1.5 * 2.0**self.fraction)
        shifted = self.fma(x, self.number(factor), shift)
        return self.sub(shifted, shift), self.bits_of(shifted)

    def polynomial(
        self, coefficients: Sequence[float], x: SSAValue, square: SSAValue | None = None
    ) -> SSAValue:
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

    def _number(self, text: str) -> SSAValue:
        return SSAValue(text, self.dtype, self.lanes)

    def _integer(self, text: str) -> SSAValue:
        return SSAValue(text, self.integer_type, self.lanes)
