"""Real numbers in lanes of LLVM: the operations that functions of them are made of."""

from __future__ import annotations

from loopwright.backends.elementary.elementary_arithmetic import Arithmetic
from loopwright.backends.llvm.llvm_arithmetic import binary, broadcast, compare, select, unary
from loopwright.backends.llvm.llvm_builder import (
    Flag,
    FunctionBuilder,
    SSAValue,
    intrinsic_suffix,
    literal,
)

__all__ = ["Lanes"]


class Lanes(Arithmetic[SSAValue, Flag]):
    """What is computed on as many numbers at once as `x` has lanes."""

    def __init__(self, code: FunctionBuilder, x: SSAValue, features: frozenset[str]) -> None:
        super().__init__(x.dtype)
        self.code = code
        self.lanes = x.lanes
        self._features = features

    def number(self, value: float) -> SSAValue:
        return broadcast(self.code, literal(self.dtype, value), self.lanes)

    def integer(self, value: int) -> SSAValue:
        return broadcast(self.code, literal(self.integer_type, value), self.lanes)

    def add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return binary(self.code, "add", x, y)

    def sub(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return binary(self.code, "sub", x, y)

    def mul(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return binary(self.code, "mul", x, y)

    def rounded_product(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.mul(x, y)  # without flags LLVM fuses nothing

    def div(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return binary(self.code, "div", x, y)

    def negative(self, x: SSAValue) -> SSAValue:
        return unary(self.code, "neg", x)

    def absolute(self, x: SSAValue) -> SSAValue:
        return self._intrinsic("fabs", x)

    def with_sign(self, x: SSAValue, sign: SSAValue) -> SSAValue:
        return self._intrinsic("copysign", x, sign)

    def fma(self, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
        return self._intrinsic("fma", x, y, z)

    def select(self, cond: Flag, x: SSAValue, y: SSAValue) -> SSAValue:
        return select(self.code, cond, x, y)

    def compare(self, op: str, x: SSAValue, y: SSAValue) -> Flag:
        return compare(self.code, op, x, y)

    def bits_of(self, x: SSAValue) -> SSAValue:
        found = SSAValue("", self.integer_type, self.lanes)
        return self._integer(self.code.emit(f"bitcast {x} to {found.type}"))

    def of_bits(self, x: SSAValue) -> SSAValue:
        found = SSAValue("", self.dtype, self.lanes)
        return self._number(self.code.emit(f"bitcast {x} to {found.type}"))

    def on_bits(self, instruction: str, x: SSAValue, y: SSAValue) -> SSAValue:
        return self._integer(self.code.emit(f"{instruction} {x}, {y.text}"))

    def _intrinsic(self, function: str, *args: SSAValue) -> SSAValue:
        name = f"llvm.{function}.{intrinsic_suffix(self.dtype, self.lanes)}"
        return self._number(self.code.call(args[0].type, name, *args))

    def _number(self, text: str) -> SSAValue:
        return SSAValue(text, self.dtype, self.lanes)

    def _integer(self, text: str) -> SSAValue:
        return SSAValue(text, self.integer_type, self.lanes)
