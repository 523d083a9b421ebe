"""Expressions in C, with the meaning of ir/evaluate and as few parentheses as that allows.

Two kinds of integers are told apart. Bounds and subscripts never leave the range of int64: they are
plain sums. Data wraps around, which in C only unsigned types do: `(int)(x + 1u)`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from loopwright.backends.c_index import BITS, IndexExpressions, choice, operation, width_of
from loopwright.backends.c_math import call_text
from loopwright.backends.c_ranges import fits, interval, raw_interval
from loopwright.backends.c_types import (
    ATOM,
    PRODUCT,
    UNARY,
    Code,
    Width,
    c_type,
    constant,
    unsigned,
    wrap_type,
)
from loopwright.ir.dtypes import BOOL, INT64, DType
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.walk import expanded_dot, expanded_extreme, walk

__all__ = ["Expressions"]

_SIGNS = ("add", "sub", "mul", "div")
_EXTREMES = {"min": "least", "max": "most"}


class Expressions(IndexExpressions):
    """Writes expressions of every type."""

    # -- values ---------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Code:
        """Any expression, exactly."""
        dtype = expr.dtype
        if dtype == BOOL:
            return self.condition(expr)
        match expr:
            case Const(value=number):
                return constant(number, dtype)
            case Var(name=name):
                return self.variable(name)
            case Load(array=array, index=index):
                return Code(self.element(array, index), ATOM, width_of(dtype))
            case Cast(x=x):
                return self._cast(x, dtype)
            case Select(cond=cond, x=x, y=y):
                division = self._division_of_c(expr)
                if division is not None:
                    return division
                return choice(self.condition(cond), self.value(x), self.value(y))
            case Unary(op=op, x=x):
                return self._unary(op, x, dtype)
            case Call(function="dot", args=(first, second, total)):
                return self.value(expanded_dot(first, second, total))
            case Call(function="min_number" | "max_number" as function, args=(x, y)):
                return self.value(expanded_extreme(function, x, y))
            case Call(function="fma", args=(x, y, z)):
                # Compilers contract this where the machine has the instruction; elsewhere the
                # function of that name is slow.
                return self.value(Binary("add", Binary("mul", x, y), z))
            case Call(function="pow", args=(x, y)):
                return self.value(Binary("pow", x, y))
            case Call(function="add_sat", args=(x, y)):
                return self.use("add_sat", dtype, self.value(x), self.value(y))
            case Call(function=function, args=args):
                return call_text(function, dtype, args[0].dtype, *map(self.value, args))
            case Binary(op=op, x=x, y=y):
                return self._binary(expr, op, x, y)
            case _:
                assert_never(expr)

    def _binary(self, expr: Binary, op: str, x: Expr, y: Expr) -> Code:
        dtype = expr.dtype
        if dtype.is_integer:
            return self._integer(expr, op, x, y)
        left, right = self.value(x), self.value(y)
        if op in _EXTREMES:
            return self.use(_EXTREMES[op], dtype, left, right)
        if op == "pow" and dtype.is_float:
            return call_text("pow", dtype, dtype, left, right)
        if op not in _SIGNS or (dtype.is_complex and op in ("mul", "div")):
            return self.use(op, dtype, left, right)
        found = operation(op, left, right)
        # Without instructions for halves C would round only at the end of an expression.
        return self._as(found, dtype) if dtype.bits == 16 else found

    def _integer(self, expr: Binary, op: str, x: Expr, y: Expr) -> Code:
        dtype = expr.dtype
        if self._is_index(expr):
            return self.index(expr)
        if op in ("add", "sub", "mul"):
            if dtype.kind == "i" and fits(raw_interval(expr, self.ranges), dtype):
                return operation(op, self.value(x), self.value(y))
            return self._wrapped(expr)
        if op in BITS:
            sign, binding = BITS[op]
            left, right = self.value(x), self.value(y)
            text = f"{left.within(UNARY)} {sign} {right.within(UNARY)}"
            return Code(text, binding, width_of(dtype))
        left, right = self.value(x), self.value(y)
        if op in _EXTREMES:
            return self.use(_EXTREMES[op], dtype, left, right)
        if op in ("floordiv", "mod"):
            return self._division(op, x, y, left, right)
        return self.use(op, dtype, left, right)

    def _is_index(self, expr: Expr) -> bool:
        """Whether an integer was an index in C: what it is made of are loops, sizes and numbers."""
        return self.from_c and expr.dtype == INT64 and all(map(_is_index_node, walk(expr)))

    def _division(self, op: str, x: Expr, y: Expr, left: Code, right: Code) -> Code:
        dtype, sign = x.dtype, "/" if op == "floordiv" else "%"
        divisor = y.value if isinstance(y, Const) else 0
        assert isinstance(divisor, int)
        if divisor <= 0:
            return self.use(op, dtype, left, right)
        if interval(x, self.ranges)[0] >= 0:
            text = f"{left.within(PRODUCT)} {sign} {right.within(UNARY)}"
            return Code(text, PRODUCT, width_of(dtype))
        return self.use(op, dtype, left, right)

    def _division_of_c(self, expr: Select) -> Code | None:
        """`x / y` or `x % y`, if that is what the C front end wrote this for."""
        match expr:
            case Select(
                cond=Binary(op="and", x=sign, y=Binary(op="ne", x=Binary(op="mod", x=x, y=y))),
                x=Binary(op="add", x=Binary(op="floordiv") as down, y=Const(value=1)),
                y=other,
            ) if other == down == Binary("floordiv", x, y):
                op, helper_name = "/", "quotient"
            case Select(
                cond=Binary(op="and", x=sign, y=Binary(op="ne", x=Binary(op="mod") as rest)),
                x=Binary(op="sub", x=first, y=last),
                y=other,
            ) if other == rest == first and last == rest.y:
                x, y, op, helper_name = rest.x, rest.y, "%", "remainder"
            case _:
                return None
        zero = Const(0, x.dtype)
        is_negative = Binary("lt", x, zero)
        divisor = y.value if isinstance(y, Const) else 0
        mixed = Binary("xor", is_negative, Binary("lt", y, zero))
        if sign != (is_negative if isinstance(divisor, int) and divisor > 0 else mixed):
            return None
        left, right = self.value(x), self.value(y)
        if divisor not in (0, -1):
            text = f"{left.within(PRODUCT)} {op} {right.within(UNARY)}"
            return Code(text, PRODUCT, width_of(x.dtype))
        return self.use(helper_name, x.dtype, left, right)

    # -- integers that wrap around --------------------------------------------------------------

    def _wrapped(self, expr: Expr) -> Code:
        """An integer operation done in an unsigned type, converted back."""
        dtype = expr.dtype
        found = self._modular(expr, dtype)
        return found if dtype.kind == "u" and dtype.bits >= 32 else self._as(found, dtype)

    def _modular(self, expr: Expr, dtype: DType) -> Code:
        """`expr` up to a multiple of 2^bits; sums and products are of an unsigned type."""
        match expr:
            case Const(value=int(value)):
                return unsigned(value, dtype)
            case Unary(op="neg", x=x):
                return _signed("-", self._unsigned(self._modular(x, dtype), dtype))
            case Binary(op="add" | "sub" | "mul" as op, x=x, y=y):
                match op, y:
                    case "add", Const(value=int(value)) if value < 0:
                        op, y = "sub", Const(-value, dtype)
                left, right = self._modular(x, dtype), self._modular(y, dtype)
                if Width.WRAPS not in (left.width, right.width):
                    left = self._unsigned(left, dtype)
                return replace(operation(op, left, right), width=Width.WRAPS)
            case _:
                return self.value(expr)

    def _unsigned(self, code: Code, dtype: DType) -> Code:
        if code.width is Width.WRAPS:
            return code
        return Code(f"({wrap_type(dtype)}){code.within(UNARY)}", UNARY, Width.WRAPS)

    # -- one operand ----------------------------------------------------------------------------

    def _unary(self, op: str, x: Expr, dtype: DType) -> Code:
        if op == "abs":
            if x.dtype.kind == "u":
                return self.value(x)
            if x.dtype.kind == "i":
                return self.use("abs", dtype, self.value(x))
            return call_text("abs", dtype, x.dtype, self.value(x))
        if dtype.is_integer and op == "neg":
            if self._is_index(x):
                return self.index(Unary("neg", x))
            plain = dtype.kind == "i" and fits(raw_interval(Unary(op, x), self.ranges), dtype)
            if not plain:
                return self._wrapped(Unary(op, x))
        result = _signed("-" if op == "neg" else "~", self.value(x))
        is_small = dtype.kind == "u" and dtype.bits < 32
        return self._as(result, dtype) if is_small or dtype.bits == 16 else result

    def _cast(self, x: Expr, dtype: DType) -> Code:
        source = x.dtype
        if source == dtype:
            return self.value(x)
        match x:
            case Const(value=int(number)) if not dtype.is_integer and abs(number) < 1 << 24:
                return constant(number, dtype)
        found = self.value(x)
        if source.is_complex and not dtype.is_complex:
            source, found = source.real, Code(f"__real__ {found.within(UNARY)}", UNARY)
        if source.is_float and dtype.is_integer and not self.from_c:
            return self.use("to", dtype, found, source=source)
        if dtype.bits == 16 and dtype.is_float and source.is_integer:
            found = Code(f"(float){found.within(UNARY)}", UNARY)
        return self._as(found, dtype)

    def _as(self, code: Code, dtype: DType) -> Code:
        return Code(f"({c_type(dtype)}){code.within(UNARY)}", UNARY, width_of(dtype))


def _signed(sign: str, x: Code) -> Code:
    """`-x` or `~x`; a minus before another one would be a decrement."""
    text = f"({x})" if x.text.startswith(sign) else x.within(UNARY)
    return Code(f"{sign}{text}", UNARY, x.width)


def _is_index_node(expr: Expr) -> bool:
    match expr:
        case Const() | Var() | Unary(op="neg") | Binary(op="add" | "sub" | "mul" | "min" | "max"):
            return True
        case Binary(op="floordiv" | "mod", y=Const(value=int(divisor))):
            return divisor > 0
    return False
