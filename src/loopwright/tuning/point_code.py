"""The LLVM code of what a nest does at a point: its value, and how that is accumulated."""

from __future__ import annotations

from loopwright.backends.llvm import llvm_arithmetic as arithmetic
from loopwright.backends.llvm import llvm_functions as functions
from loopwright.backends.llvm.llvm_builder import (
    FunctionBuilder,
    SSAValue,
    intrinsic_suffix,
    literal,
    type_name,
)
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Unary, Var
from loopwright.ir.machine import Machine
from loopwright.ir.visit import rewrite
from loopwright.tuning.loop_tree import TreeStatement

__all__ = ["PointCode"]


class PointCode:
    """Writes the value of a statement over operands that are given by their numbers."""

    def __init__(self, code: FunctionBuilder, machine: Machine, statement: TreeStatement) -> None:
        self.code, self.machine = code, machine
        self.dtype = statement.write.dtype
        self.operator = statement.plus or ""
        self.expr = _numbered(statement)
        self.fused: dict[int, tuple[str, str]] = {}  # lanes -> type and intrinsic

    @property
    def is_copy(self) -> bool:
        """Whether the value is its first operand as it is."""
        return not self.operator and self.expr == Var("0", self.dtype)

    def plus(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return arithmetic.binary(self.code, self.operator, x, y)

    def reduced(self, value: SSAValue) -> SSAValue:
        """All lanes of a vector in one, by halves."""
        while value.lanes > 1:
            half = value.lanes // 2
            parts = []
            for first in (0, half):
                mask = ", ".join(f"i32 {first + k}" for k in range(half))
                shuffled = self.code.emit(
                    f"shufflevector {value}, {value.type} poison, <{half} x i32> <{mask}>"
                )
                if half == 1:
                    shuffled = self.code.emit(f"extractelement {value}, i64 {first}")
                parts.append(SSAValue(shuffled, value.dtype, half))
            value = self.plus(parts[0], parts[1])
        return value

    def updated(self, element: SSAValue, values: list[SSAValue]) -> SSAValue:
        """`element plus value`; a sum of products of floats takes one rounding for both."""
        match self.expr:
            case Binary(op="mul", x=x, y=y) if self.operator == "add" and (self.dtype.is_float):
                factors = self.value(x, values), self.value(y, values)
                if self.dtype.bits == 16:
                    return functions.call(
                        self.code, "fma", (*factors, element), self.machine.features
                    )
                first, second = (
                    arithmetic.broadcast(self.code, factor, element.lanes) for factor in factors
                )
                text = self._fma(element.lanes, first.text, second.text, element.text)
                return SSAValue(text, self.dtype, element.lanes)
        found = arithmetic.broadcast(self.code, self.value(self.expr, values), element.lanes)
        return self.plus(element, found)

    def _fma(self, lanes: int, x: str, y: str, z: str) -> str:
        """x * y + z; types and names are written once, this is most of the code."""
        if lanes not in self.fused:
            vector = type_name(self.dtype, lanes)
            name = f"llvm.fma.{intrinsic_suffix(self.dtype, lanes)}"
            self.code.declarations[f"declare {vector} @{name}({vector}, {vector}, {vector})"] = None
            self.fused[lanes] = vector, name
        vector, name = self.fused[lanes]
        return self.code.emit(f"call {vector} @{name}({vector} {x}, {vector} {y}, {vector} {z})")

    def value(self, expr: Expr, values: list[SSAValue]) -> SSAValue:
        code = self.code
        match expr:
            case Var(name=number):
                return values[int(number)]
            case Const(value=value, dtype=dtype):
                return literal(dtype, value)
            case Binary(op="pow", x=x, y=y):
                return functions.power(code, self.value(x, values), self.value(y, values))
            case Binary(op=op, x=x, y=y):
                pair = arithmetic.same_lanes(code, self.value(x, values), self.value(y, values))
                return arithmetic.binary(code, op, *pair)
            case Unary(op=op, x=x):
                return arithmetic.unary(code, op, self.value(x, values))
            case Cast(x=x, dtype=dtype):
                return arithmetic.cast(code, self.value(x, values), dtype)
            case Call(function=function, args=args):
                arguments = tuple(self.value(a, values) for a in args)
                return functions.call(code, function, arguments, self.machine.features)
        raise AssertionError(expr)


def _numbered(statement: TreeStatement) -> Expr:
    """The value with operands as variables named by their numbers: quick to look up."""
    numbers = {load: str(k) for k, load in enumerate(statement.operands)}

    def change(expr: Expr) -> Expr:
        return Var(numbers[expr], expr.dtype) if isinstance(expr, Load) else expr

    return rewrite(statement.value, change)
