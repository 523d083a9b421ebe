"""Bounds, subscripts and conditions in C: integers that stay in the range of long."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from loopwright.backends.c_operations import Helper, helper
from loopwright.backends.c_ranges import Interval, interval
from loopwright.backends.c_types import (
    AND,
    ATOM,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    CHOICE,
    EQUAL,
    INDEX,
    OR,
    ORDER,
    PRODUCT,
    SUM,
    UNARY,
    Code,
    Width,
    constant,
)
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
)
from loopwright.ir.visit import loads

__all__ = ["BITS", "IndexExpressions", "choice", "operation", "width_of"]

_SIGNS = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT)}
BITS = {"and": ("&", BIT_AND), "xor": ("^", BIT_XOR), "or": ("|", BIT_OR)}
_ON_BOOLEANS = {"add": "or", "max": "or", "mul": "and", "min": "and"}


class IndexExpressions:
    """Writes integers and conditions; subclasses know other values and the memory they read."""

    def __init__(self, *, from_c: bool) -> None:
        # What C leaves undefined was so in the source too: integers on loop variables do not
        # overflow, and floats that are converted to integers fit.
        self.from_c = from_c
        self.spelling: dict[str, Code] = {}  # variables by name
        self.ranges: dict[str, Interval] = {}  # of integer variables, where they are known
        self.constants: dict[str, Const] = {}  # integer variables that are bound to a number
        self.helpers: dict[str, Helper] = {}  # in use, by name

    def element(self, array: str, index: tuple[Expr, ...]) -> str:
        """The text of an array element, an lvalue."""
        raise NotImplementedError

    def variable(self, name: str) -> Code:
        """The text of a variable."""
        if name not in self.spelling:
            raise InternalError(f"variable {name} has no name in C")
        return self.spelling[name]

    def use(self, what: str, dtype: DType, *args: Code, source: DType | None = None) -> Code:
        """A call of a helper."""
        found = helper(what, dtype, source)
        self.helpers[found.name] = found
        width = Width.INT
        if found.result == INDEX or (not found.result and any(_is_long(arg) for arg in args)):
            width = Width.LONG
        return Code(f"{found.name}({', '.join(map(str, args))})", ATOM, width)

    def value(self, expr: Expr) -> Code:
        """Any expression, exactly."""
        raise NotImplementedError

    # -- bounds and subscripts ------------------------------------------------------------------

    def index(self, expr: Expr) -> Code:
        """An int64 expression that does not leave its range."""
        match expr:
            case Const(value=int(value)):
                return Code(str(value), ATOM if value >= 0 else UNARY)
            case Var(name=name):
                known = self.constants.get(name)
                return self.variable(name) if known is None else self.index(known)
            case Unary(op="neg", x=x):
                inner = _long(self.index(x))
                text = f"({inner})" if inner.text.startswith("-") else inner.within(UNARY)
                return Code(f"-{text}", UNARY, Width.LONG)
            case Binary(op="add" | "sub" | "mul" as op, x=x, y=y):
                return self._index_sum(op, x, y)
            case Binary(op="min" | "max" as op, x=x, y=y):
                return self.use(op, INT64, self.index(x), self.index(y))
            case Binary(op="floordiv" | "mod" as op, x=x, y=Const(value=int(divisor))) if (
                divisor > 0
            ):
                return self._index_division(op, x, divisor)
            case Select(cond=cond, x=x, y=y):
                chosen = self.condition(cond, is_guard=True)
                return choice(chosen, self.index(x), self.index(y))
            case _:
                return self.value(expr)

    def _index_sum(self, op: str, x: Expr, y: Expr) -> Code:
        x, y = self._resolved(x), self._resolved(y)
        folded = {"add": x + y, "sub": x - y, "mul": x * y}[op]
        if folded != Binary(op, x, y):
            return self.index(folded)
        match op, y:
            case "add", Const(value=int(value)) if value < 0:
                op, y = "sub", Const(-value)
            case "sub", Const(value=int(value)) if value < 0:
                op, y = "add", Const(-value)
        left, right = self.index(x), self.index(y)
        # In int a sum might overflow that does not in long.
        if not _is_long(left) and not _is_long(right):
            if isinstance(y, Const):
                right = replace(right, text=f"{right.text}L")
            elif isinstance(x, Const):
                left = replace(left, text=f"{left.text}L")
            else:
                left = _long(left)
        return replace(operation(op, left, right), width=Width.LONG)

    def _resolved(self, expr: Expr) -> Expr:
        """A variable that is bound to a number as the number."""
        if isinstance(expr, Var):
            return self.constants.get(expr.name, expr)
        if isinstance(expr, Binary) and expr.op in ("add", "sub", "mul"):
            x, y = self._resolved(expr.x), self._resolved(expr.y)
            return {"add": x + y, "sub": x - y, "mul": x * y}[expr.op]
        return expr

    def _index_division(self, op: str, x: Expr, divisor: int) -> Code:
        left, right = self.index(x), Code(str(divisor), ATOM)
        if interval(x, self.ranges)[0] >= 0:
            sign = "/" if op == "floordiv" else "%"
            return Code(f"{left.within(PRODUCT)} {sign} {divisor}", PRODUCT, left.width)
        return self.use("floord" if op == "floordiv" else "modulo", INT64, left, right)

    # -- conditions -----------------------------------------------------------------------------

    def condition(self, expr: Expr, *, is_guard: bool = False) -> Code:
        """A boolean expression, as C's 0 or 1; integers that a guard compares are indices."""
        match expr:
            case Const(value=value):
                return Code("1" if value else "0", ATOM)
            case Var(name=name):
                return self.variable(name)
            case Load(array=array, index=index):
                return Code(self.element(array, index), ATOM)
            case Unary(op="not", x=x):
                return Code(f"!{self.condition(x, is_guard=is_guard).within(UNARY)}", UNARY)
            case Binary(op=op, x=x, y=y) if op in COMPARISONS:
                return self._comparison(op, x, y, is_guard or self.from_c)
            case Binary(op=op, x=x, y=y):
                left, right = (self.condition(e, is_guard=is_guard) for e in (x, y))
                return _connective(_ON_BOOLEANS.get(op, op), left, right, bool(loads(expr)))
            case Select(cond=cond, x=x, y=y):
                return choice(self.condition(cond), self.condition(x), self.condition(y))
            case Cast(x=x):
                zero = constant(0, x.dtype.real)
                found = self.value(x)
                return Code(f"{found.within(EQUAL + 1)} != {zero.within(EQUAL + 1)}", EQUAL)
            case Unary() | Call():
                raise AssertionError(f"not a condition: {expr}")
            case _:
                assert_never(expr)

    def _comparison(self, op: str, x: Expr, y: Expr, is_plain: bool) -> Code:
        binding = EQUAL if op in ("eq", "ne") else ORDER
        is_plain = is_plain and x.dtype == INT64 and not loads(Binary(op, x, y))
        left, right = (self.index(e) if is_plain else self.value(e) for e in (x, y))
        # Comparisons in comparisons are legal, and read wrongly by everybody.
        return Code(f"{left.within(SUM)} {COMPARISONS[op]} {right.within(SUM)}", binding)


def choice(cond: Code, x: Code, y: Code) -> Code:
    """`cond ? x : y`."""
    width = x.width if x.width == y.width else Width.INT
    if Width.LONG in (x.width, y.width):
        width = Width.LONG
    return Code(f"{cond.within(OR)} ? {x.within(OR)} : {y.within(CHOICE)}", CHOICE, width)


def operation(op: str, x: Code, y: Code) -> Code:
    """`x op y`, grouped to the left."""
    sign, binding = _SIGNS[op]
    right = y.within(binding + 1)
    # `x - -1` must not become a decrement.
    right = f"({right})" if right.startswith(sign) else right
    return Code(f"{x.within(binding)} {sign} {right}", binding, x.width)


def _connective(op: str, left: Code, right: Code, has_loads: bool) -> Code:
    """`and`, `or` and `xor` of conditions."""
    if op == "xor":
        return Code(f"{left.within(SUM)} != {right.within(SUM)}", EQUAL)
    # Elements are compared without branches, which vectors of them could not follow.
    if has_loads:
        sign, binding = BITS[op]
        return Code(f"{left.within(UNARY)} {sign} {right.within(UNARY)}", binding)
    sign, binding = ("&&", AND) if op == "and" else ("||", OR)
    # `a && b || c` is legal too, and warned of.
    parts = (c.text if c.binding == binding else c.within(EQUAL) for c in (left, right))
    return Code(f" {sign} ".join(parts), binding)


def _is_long(code: Code) -> bool:
    return code.width is Width.LONG


def _long(code: Code) -> Code:
    if _is_long(code):
        return code
    return Code(f"({INDEX}){code.within(UNARY)}", UNARY, Width.LONG)


def width_of(dtype: DType) -> Width:
    """What C does with an integer of a type; of no meaning for others."""
    if not dtype.is_integer:
        return Width.INT
    if dtype.kind == "u" and dtype.bits >= 32:
        return Width.WRAPS
    return Width.LONG if dtype.bits == 64 else Width.INT
