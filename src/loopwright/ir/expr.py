"""Scalar expressions: the right-hand sides of statements and the subscripts of loop nests.

Every expression is typed and immutable. Operands of a binary operator have the same dtype:
front ends write conversions as explicit `Cast`s, so that no backend has conversion rules of its
own. Integer expressions of dtype int64 also serve as bounds and subscripts. `//` and `%` round
towards minus infinity, as in Python. What every operator does is told in ir/evaluate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from loopwright.ir.dtypes import BOOL, INT64, DType
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "BINARY_OPS",
    "COMPARISONS",
    "FUNCTIONS",
    "REAL_INSTRUCTIONS",
    "REAL_ONLY",
    "REAL_PAIRS",
    "SATURATING",
    "UNARY_OPS",
    "Binary",
    "Call",
    "Cast",
    "Const",
    "Expr",
    "Load",
    "Select",
    "Unary",
    "Var",
    "as_expr",
    "cast",
]

# Operator name -> how it is printed. Names are the vocabulary of semirings and backends too.
COMPARISONS: dict[str, str] = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
BINARY_OPS: dict[str, str] = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",  # true division, floating and complex types only
    "floordiv": "//",
    "mod": "%",
    "min": "min",
    "max": "max",
    "and": "&",
    "or": "|",
    "xor": "^",
    "pow": "**",
    "shl": "<<",  # of integers, by a count modulo the bits of the type
    "shr": ">>",  # likewise; signed numbers round towards minus infinity
    # Saturating arithmetic on integers, of semirings only: languages that users write in wrap.
    "add_top": "add_top",  # the greatest value of the type absorbs, as +infinity does
    "add_bottom": "add_bottom",  # the least value of the type absorbs, as -infinity does
    "mul_sat": "mul_sat",
    **COMPARISONS,
}
SATURATING = frozenset({"add_top", "add_bottom", "mul_sat"})
UNARY_OPS: dict[str, str] = {"neg": "-", "not": "~", "abs": "abs"}
# Functions of C's <math.h> of real numbers, by C's names: of one, and of two. `round` takes halves
# away from zero, `rint` to even; `remainder` rounds the quotient to the nearest, `fmod` to zero.
REAL_ONLY = (
    "cbrt", "log1p", "expm1", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
    "erf", "erfc", "tgamma", "trunc", "round", "rint",
)  # fmt: skip
REAL_PAIRS = ("hypot", "atan2", "fmod", "remainder", "copysign")
# Of both, those that are single instructions on most machines.
REAL_INSTRUCTIONS = frozenset({"trunc", "round", "rint", "copysign"})
# Pure functions, most of them of floating arguments: name -> number of arguments.
FUNCTIONS: dict[str, int] = {
    "sqrt": 1,
    "exp": 1,
    "exp2": 1,
    "log": 1,
    "log2": 1,
    "log10": 1,
    "sin": 1,
    "cos": 1,
    "tan": 1,
    "tanh": 1,
    **dict.fromkeys(REAL_ONLY, 1),
    **dict.fromkeys(REAL_PAIRS, 2),
    "floor": 1,
    "ceil": 1,
    "conj": 1,
    "real": 1,
    "imag": 1,
    "pow": 2,
    "min_number": 2,  # as min and max, but of a NaN and a number the number
    "max_number": 2,
    "add_sat": 2,  # the sum of signed integers, or the end of the type nearest to it
    "fma": 3,  # fma(x, y, z) = x*y + z, rounded once where the machine can
    # dot(x, y, z) = z + x[0]*y[0] + ... + x[n-1]*y[n-1], converted to the type of z first, for n =
    # bits of z / bits of x. x and y are loads; [q] stands for q further along their last subscript.
    "dot": 3,
}


@dataclass(frozen=True, slots=True)
class _Node:
    """Operators shared by all expressions; integer constants fold so that bounds stay readable."""

    def __add__(self, other: Expr | int) -> Expr:
        return _fold("add", _self(self), as_expr(other))

    def __radd__(self, other: int) -> Expr:
        return _fold("add", as_expr(other), _self(self))

    def __sub__(self, other: Expr | int) -> Expr:
        return _fold("sub", _self(self), as_expr(other))

    def __rsub__(self, other: int) -> Expr:
        return _fold("sub", as_expr(other), _self(self))

    def __mul__(self, other: Expr | int) -> Expr:
        return _fold("mul", _self(self), as_expr(other))

    def __rmul__(self, other: int) -> Expr:
        return _fold("mul", as_expr(other), _self(self))

    def __floordiv__(self, other: Expr | int) -> Expr:
        return _fold("floordiv", _self(self), as_expr(other))

    def __mod__(self, other: Expr | int) -> Expr:
        return _fold("mod", _self(self), as_expr(other))

    def __lt__(self, other: Expr | int) -> Expr:
        return Binary("lt", _self(self), as_expr(other))

    def __le__(self, other: Expr | int) -> Expr:
        return Binary("le", _self(self), as_expr(other))

    def __gt__(self, other: Expr | int) -> Expr:
        return Binary("gt", _self(self), as_expr(other))

    def __ge__(self, other: Expr | int) -> Expr:
        return Binary("ge", _self(self), as_expr(other))

    def equals(self, other: Expr | int) -> Expr:
        """The comparison `self == other` as an expression (`==` itself compares structure)."""
        return Binary("eq", _self(self), as_expr(other))

    def min(self, other: Expr | int) -> Expr:
        return _fold("min", _self(self), as_expr(other))

    def max(self, other: Expr | int) -> Expr:
        return _fold("max", _self(self), as_expr(other))


@dataclass(frozen=True, slots=True)
class Const(_Node):
    """A literal."""

    value: bool | int | float | complex
    dtype: DType = INT64


@dataclass(frozen=True, slots=True)
class Var(_Node):
    """A loop variable, a run-time integer (parameter) or a let-bound scalar."""

    name: str
    dtype: DType = INT64


@dataclass(frozen=True, slots=True)
class Load(_Node):
    """The element `array[index]`; index entries are int64 expressions, one per dimension."""

    array: str
    index: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Unary(_Node):
    """`op x` for an operator of UNARY_OPS."""

    op: str
    x: Expr

    @property
    def dtype(self) -> DType:
        return self.x.dtype.real if self.op == "abs" else self.x.dtype


@dataclass(frozen=True, slots=True)
class Binary(_Node):
    """`x op y` for an operator of BINARY_OPS; both operands have one dtype."""

    op: str
    x: Expr
    y: Expr

    @property
    def dtype(self) -> DType:
        return BOOL if self.op in COMPARISONS else self.x.dtype


@dataclass(frozen=True, slots=True)
class Select(_Node):
    """`x if cond else y`; neither branch has effects, so both may be evaluated."""

    cond: Expr
    x: Expr
    y: Expr

    @property
    def dtype(self) -> DType:
        return self.x.dtype


@dataclass(frozen=True, slots=True)
class Cast(_Node):
    """Conversion to another dtype by NumPy's `astype` rules."""

    x: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Call(_Node):
    """A pure function of FUNCTIONS; its dtype is that of the last argument, or its real part."""

    function: str
    args: tuple[Expr, ...]

    @property
    def dtype(self) -> DType:
        last = self.args[-1].dtype
        return last.real if self.function in ("real", "imag") else last


Expr: TypeAlias = Const | Var | Load | Unary | Binary | Select | Cast | Call


def as_expr(value: Expr | int) -> Expr:
    """An int becomes an int64 constant; an expression stays itself."""
    return Const(value) if isinstance(value, int) else value


def _self(node: _Node) -> Expr:
    assert isinstance(node, Expr)
    return node


_EXACT_INT: dict[str, Callable[[Any, Any], int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "min": min,
    "max": max,
}
# (operator, side of the neutral constant) -> the constant that leaves the other operand as it is.
_NEUTRAL = {("add", 0): 0, ("add", 1): 0, ("sub", 1): 0, ("mul", 0): 1, ("mul", 1): 1}


def _fold(op: str, x: Expr, y: Expr) -> Expr:
    """`x op y`, folded where int64 constants make the result plain."""
    if type(x) is not Const and type(y) is not Const:
        return Binary(op, x, y)
    if x.dtype != INT64 or y.dtype != INT64:
        return Binary(op, x, y)
    if isinstance(x, Const) and isinstance(y, Const):
        if op in ("floordiv", "mod") and y.value == 0:
            return Binary(op, x, y)
        return Const(_EXACT_INT[op](x.value, y.value))
    for side, (constant, other) in enumerate(((x, y), (y, x))):
        if not isinstance(constant, Const):
            continue
        if op == "mul" and constant.value == 0:
            return Const(0)
        if _NEUTRAL.get((op, side)) == constant.value:
            return other
    if op == "floordiv" and y == Const(1):
        return x
    return Binary(op, x, y)


def cast(value: Expr, dtype: DType) -> Expr:
    """`value` as another type; itself where it has that type."""
    return value if value.dtype == dtype else Cast(value, dtype)
