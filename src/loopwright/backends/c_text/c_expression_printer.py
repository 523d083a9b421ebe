"""Expressions in C, with the meaning of ir/evaluate and as few parentheses as that allows.

Two kinds of integers are distinguished. Bounds and subscripts never leave the range of int64: they
are plain sums of C. Data wraps around, which in C only unsigned types do: `(int)(x + 1u)`. Interval
arithmetic finds data that cannot wrap, for which plain C will do.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import assert_never

from loopwright.backends.c_text.c_choices import Choices, is_admission, no_choices
from loopwright.backends.c_text.c_dialect import C, Dialect
from loopwright.backends.c_text.c_elementary import elementary_helpers, far_helper
from loopwright.backends.c_text.c_operations import Helper, helper, math_call
from loopwright.backends.c_text.c_pairs import is_on_pairs, pair_text
from loopwright.backends.c_text.c_syntax import (
    AND,
    ATOM,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    CHOICE,
    EQUAL,
    OR,
    ORDER,
    PRODUCT,
    SHIFT,
    SUM,
    UNARY,
    CText,
    Width,
    c_type,
    constant,
    unsigned,
    wrap_type,
)
from loopwright.diagnostics import InternalError
from loopwright.ir.absolute_value import absolute_of
from loopwright.ir.dtypes import BOOL, FLOAT32, INT64, DType
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
from loopwright.ir.intervals import Interval, exact_interval, fits, interval
from loopwright.ir.truncated_division import truncated_division
from loopwright.ir.visit import expanded_dot, expanded_extreme, loads, walk
from loopwright.lazy_dataclass import dataclass

__all__ = ["CExpressions", "NamedBuffer", "operation", "width_of"]

_SUMS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
}

_SIGNS = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT)}
_BITS = {"and": ("&", BIT_AND), "xor": ("^", BIT_XOR), "or": ("|", BIT_OR)}
_EXTREMES = {"min": "least", "max": "most"}
_NUMBERS = {"min_number": "least_number", "max_number": "most_number"}
_NEGATED, _ANEW = "lw_negated", "lw_anew"
_ON_BOOLEANS = {"add": "or", "max": "or", "mul": "and", "min": "and"}


@dataclass(frozen=True, slots=True)
class NamedBuffer:
    """A buffer that the text can name."""

    name: str  # in C
    dtype: DType
    # None: an array of C with all its extents, or a variable. Otherwise a pointer to the element
    # with all subscripts zero, and the strides.
    strides: tuple[Expr, ...] | None
    is_unsigned: bool = False  # a signed variable that the text declares as an unsigned one

    def element(self, index: tuple[Expr, ...], write: Callable[[Expr], CText]) -> str:
        """The lvalue of one element; `write` gives the text of an index expression."""
        if self.strides is None:
            return self.name + "".join(f"[{write(entry)}]" for entry in index)
        offset: Expr = Const(0)
        for entry, stride in zip(index, self.strides, strict=True):
            offset = offset + entry * stride
        return f"{self.name}[{write(offset)}]"


class CExpressions:
    """Writes expressions over the variables and buffers in scope."""

    def __init__(self, dialect: Dialect = C, *, from_c: bool = False) -> None:
        self.dialect = dialect
        # Whether the source is C: what C leaves undefined was so there too. Integers on loop
        # variables do not overflow, and floats that are converted to integers fit.
        self.from_c = from_c
        self.spelling: dict[str, CText] = {}  # variables by name
        self.ranges: dict[str, Interval] = {}  # of integer variables, where they are known
        self.constants: dict[str, Const] = {}  # integer variables that are bound to a number
        self.buffers: dict[str, NamedBuffer] = {}  # by name
        self.helpers: dict[str, Helper] = {}  # in use, by name
        self.by_bits: Choices = no_choices  # in loops of vectors
        self.functions: Collection[tuple[str, DType]] = ()  # those that are code of ours
        self.is_near = False  # their arguments are near zero, or what is computed is not used

    def element(self, array: str, index: tuple[Expr, ...]) -> str:
        """The text of an array element, an lvalue; fewer subscripts name a row of vectors."""
        if array not in self.buffers:
            raise InternalError(f"buffer {array} does not exist here")
        return self.buffers[array].element(index, self.index)

    def variable(self, name: str) -> CText:
        """The text of a variable."""
        if name not in self.spelling:
            raise InternalError(f"variable {name} has no name in C")
        return self.spelling[name]

    def use(self, what: str, dtype: DType, *args: CText, source: DType | None = None) -> CText:
        """A call of a helper, which is noted as used."""
        found = helper(what, dtype, source)
        self.helpers[found.name] = found
        width = Width.INT
        if found.result == self.dialect.index or (
            not found.result and any(_is_long(arg) for arg in args)
        ):
            width = Width.LONG
        return CText(f"{found.name}({', '.join(map(str, args))})", ATOM, width)

    def anew(self, value: CText) -> CText:
        """The value, of which compilers do not know what it is; as it stands where none asks."""
        if _ANEW not in self.dialect.helpers:
            return value
        self.helpers[_ANEW] = Helper(_ANEW, "", ("",), (), "")
        return CText(f"{_ANEW}({value})", ATOM, value.width)

    # -- bounds and subscripts ------------------------------------------------------------------

    def index(self, expr: Expr) -> CText:
        """An int64 expression that does not leave its range."""
        match expr:
            case Const(value=int(value)):
                return CText(str(value), ATOM if value >= 0 else UNARY)
            case Var(name=name):
                known = self.constants.get(name)
                return self.variable(name) if known is None else self.index(known)
            case Unary(op="neg", x=x):
                inner = self._long(self.index(x))
                text = f"({inner})" if inner.text.startswith("-") else inner.within(UNARY)
                return CText(f"-{text}", UNARY, Width.LONG)
            case Binary(op="add" | "sub" | "mul"):
                return self._index_sum(self._resolved(expr))
            case Binary(op="min" | "max" as op, x=x, y=y):
                return self.use(op, INT64, *(self._compared(e, self.index) for e in (x, y)))
            case Binary(op="floordiv" | "mod" as op, x=x, y=Const(value=int(divisor))) if (
                divisor > 0
            ):
                return self._index_division(op, x, Const(divisor))
            case Binary(op="floordiv" | "mod" as op, x=x, y=y) if (
                self.dialect.is_device or interval(y, self.ranges)[0] > 0
            ):
                return self._index_division(op, x, y)  # on devices what divides is positive
            case Select(cond=cond, x=x, y=y):
                chosen = self.condition(cond, is_guard=True)
                return _choice(chosen, self.index(x), self.index(y))
            case Cast(x=x) if self.dialect.is_device and x.dtype.is_integer:
                return replace(self.value(x), width=Width.LONG)  # an offset from a table
            case _:
                return self.value(expr)

    def _compared(self, expr: Expr, text: Callable[[Expr], CText]) -> CText:
        """An operand of a minimum or maximum of integers.

        Where the dialect has a negation of its own it is used: compilers have lost the sign of such
        an operand.
        """
        match self._resolved(expr):
            case Unary(op="neg", x=x) | Binary(op="sub", x=Const(value=0), y=x) if (
                _NEGATED in self.dialect.helpers
            ):
                self.helpers[_NEGATED] = Helper(_NEGATED, "", ("",), (), "")
                return CText(f"{_NEGATED}({text(x)})", ATOM, Width.LONG)
        return text(expr)

    def _index_sum(self, expr: Expr) -> CText:
        """A sum or product whose variables that are bound to numbers are replaced already."""
        if not isinstance(expr, Binary) or expr.op not in _SUMS:
            return self.index(expr)
        op, x, y = expr.op, expr.x, expr.y
        match op, y:
            case "add", Const(value=int(value)) if value < 0:
                op, y = "sub", Const(-value)
            case "sub", Const(value=int(value)) if value < 0:
                op, y = "add", Const(-value)
        left, right = self._index_sum(x), self._index_sum(y)
        # In int a sum might overflow that does not in long.
        if not _is_long(left) and not _is_long(right):
            if isinstance(y, Const):
                right = replace(right, text=f"{right.text}{self.dialect.long_suffix}")
            elif isinstance(x, Const):
                left = replace(left, text=f"{left.text}{self.dialect.long_suffix}")
            else:
                left = self._long(left)
        return replace(operation(op, left, right), width=Width.LONG)

    def _long(self, code: CText) -> CText:
        if _is_long(code):
            return code
        return CText(f"({self.dialect.index}){code.within(UNARY)}", UNARY, Width.LONG)

    def _resolved(self, expr: Expr) -> Expr:
        """`expr` with variables that are bound to numbers replaced by these."""
        if isinstance(expr, Var):
            return self.constants.get(expr.name, expr)
        if isinstance(expr, Binary) and expr.op in ("add", "sub", "mul"):
            x, y = self._resolved(expr.x), self._resolved(expr.y)
            return _SUMS[expr.op](x, y)
        return expr

    def _index_division(self, op: str, x: Expr, divisor: Expr) -> CText:
        left, right = self.index(x), self.index(divisor)
        if interval(x, self.ranges)[0] >= 0:
            sign = "/" if op == "floordiv" else "%"
            text = f"{left.within(PRODUCT)} {sign} {right.within(UNARY)}"
            return CText(text, PRODUCT, left.width)
        return self.use("floord" if op == "floordiv" else "modulo", INT64, left, right)

    # -- conditions -----------------------------------------------------------------------------

    def condition(self, expr: Expr, *, is_guard: bool = False) -> CText:
        """A boolean expression, as C's 0 or 1; integers that a guard compares are indices."""
        if self.dialect.is_device and is_on_pairs(expr):
            return pair_text(expr, self)
        match expr:
            case Const(value=value):
                return CText("1" if value else "0", ATOM)
            case Var(name=name):
                return self.variable(name)
            case Load(array=array, index=index):
                return CText(self.element(array, index), ATOM)
            case Unary(op="not", x=x):
                return CText(f"!{self.condition(x, is_guard=is_guard).within(UNARY)}", UNARY)
            case Binary(op=op, x=x, y=y) if op in COMPARISONS:
                return self._comparison(op, x, y, is_guard or self.from_c)
            case Binary(op=op, x=x, y=y):
                left, right = (self.condition(e, is_guard=is_guard) for e in (x, y))
                is_by_bits = bool(loads(expr)) or self.by_bits(expr)
                return _connective(_ON_BOOLEANS.get(op, op), left, right, is_by_bits)
            case Select(cond=cond, x=x, y=y):
                if self.by_bits(expr) and y == Const(False, BOOL):
                    return _connective("and", self.condition(cond), self.condition(x), True)
                return _choice(self.condition(cond), self.condition(x), self.condition(y))
            case Cast(x=x):
                zero = constant(0, x.dtype.real)
                found = self.value(x)
                return CText(f"{found.within(EQUAL + 1)} != {zero.within(EQUAL + 1)}", EQUAL)
            case Unary() | Call():
                raise AssertionError(f"not a condition: {expr}")
            case _:
                assert_never(expr)

    def _comparison(self, op: str, x: Expr, y: Expr, is_index: bool) -> CText:
        binding = EQUAL if op in ("eq", "ne") else ORDER
        is_index = is_index and x.dtype == INT64 and not loads(Binary(op, x, y))
        left, right = (self.index(e) if is_index else self.value(e) for e in (x, y))
        # Comparisons in comparisons are legal, and read wrongly by everybody.
        return CText(f"{left.within(SUM)} {COMPARISONS[op]} {right.within(SUM)}", binding)

    # -- values ---------------------------------------------------------------------------------

    def value(self, expr: Expr) -> CText:
        """Any expression, with the exact meaning of ir/evaluate."""
        dtype = expr.dtype
        if dtype == BOOL:
            return self.condition(expr)
        if self.dialect.is_device and is_on_pairs(expr):
            return pair_text(expr, self)
        match expr:
            case Const(value=number):
                return constant(number, dtype)
            case Var(name=name):
                return self.variable(name)
            case Load(array=array, index=index):
                text = self.element(array, index)
                if self.buffers[array].is_unsigned:
                    return CText(f"({c_type(dtype)}){text}", UNARY, width_of(dtype))
                return CText(text, ATOM, width_of(dtype))
            case Cast(x=x):
                return self._cast(x, dtype)
            case Select(cond=cond, x=x, y=y):
                found = self._division_of_c(expr) or self._absolute(expr)
                if found is not None:
                    return found
                parts = self.condition(cond), self.value(x), self.value(y)
                if self.by_bits(expr):
                    name = "admit" if is_admission(expr) else "choose"
                    return replace(self.use(name, dtype, *parts), width=width_of(dtype))
                return _choice(*parts)
            case Unary(op=op, x=x):
                return self._unary(op, x, dtype)
            case Call(function="dot", args=(first, second, total)):
                return self.value(expanded_dot(first, second, total))
            case Call(function="min_number" | "max_number" as function, args=(x, y)):
                if dtype.bits >= 32 and not self.dialect.is_device:
                    return self.use(_NUMBERS[function], dtype, self.value(x), self.value(y))
                return self.value(expanded_extreme(function, x, y))
            case Call(function="fma", args=(x, y, z)) if not self.dialect.is_fused:
                # Compilers contract this where the machine has the instruction; elsewhere the
                # function of that name is slow.
                return self.value(Binary("add", Binary("mul", x, y), z))
            case Call(function="pow", args=(x, y)):
                return self.value(Binary("pow", x, y))
            case Call(function="add_sat", args=(x, y)):
                return self.use("add_sat", dtype, self.value(x), self.value(y))
            case Call(function=function, args=(x,)) if (function, dtype) in self.functions:
                return self._called(elementary_helpers(function, dtype, is_near=self.is_near), x)
            case Call(function=function, args=args):
                return math_call(function, dtype, args[0].dtype, *map(self.value, args))
            case Binary(op=op, x=x, y=y):
                return self._binary(expr, op, x, y)
            case _:
                assert_never(expr)

    def is_far(self, x: Expr) -> CText:
        """Whether a number is far from zero, as an unsigned integer of its bits."""
        return self._called((far_helper(x.dtype),), x)

    def _called(self, used: Sequence[Helper], x: Expr) -> CText:
        """A call of the last of some helpers, which calls the others."""
        self.helpers |= {one.name: one for one in used}
        return CText(f"{used[-1].name}({self.value(x)})", ATOM)

    def _binary(self, expr: Binary, op: str, x: Expr, y: Expr) -> CText:
        dtype = expr.dtype
        if dtype.is_integer:
            return self._integer(expr, op, x, y)
        left, right = self.value(x), self.value(y)
        if op in _EXTREMES:
            return self.use(_EXTREMES[op], dtype, left, right)
        if op == "pow" and dtype.is_float:
            return math_call("pow", dtype, dtype, left, right)
        if op not in _SIGNS or (dtype.is_complex and op in ("mul", "div")):
            return self.use(op, dtype, left, right)
        found = operation(op, left, right)
        # Without instructions for halves C would round only at the end of an expression.
        return self._as(found, dtype) if dtype.bits == 16 else found

    def _integer(self, expr: Binary, op: str, x: Expr, y: Expr) -> CText:
        dtype = expr.dtype
        if self._is_index(expr):
            return self.index(expr)
        if op in ("add", "sub", "mul"):
            if dtype.kind == "i" and fits(exact_interval(expr, self.ranges), dtype):
                return operation(op, self.value(x), self.value(y))
            return self._wrapped(expr)
        if op in ("shl", "shr"):
            return self._shift(op, x, y)
        if op in _BITS:
            sign, binding = _BITS[op]
            left, right = self.value(x), self.value(y)
            text = f"{left.within(UNARY)} {sign} {right.within(UNARY)}"
            return CText(text, binding, width_of(dtype))
        if op in _EXTREMES and isinstance(y, Binary):
            # Of a saturating sum, where the dialect has a function for both.
            name = f"lw_{_EXTREMES[op]}_{y.op}_{dtype}"
            if name in self.dialect.helpers:
                kind = c_type(dtype)
                self.helpers[name] = Helper(name, kind, (kind,) * 3, (), "")
                return CText(f"{name}({', '.join(map(str, map(self.value, (x, y.x, y.y))))})", ATOM)
        if op in _EXTREMES and dtype.kind == "i":
            return self.use(_EXTREMES[op], dtype, *(self._compared(e, self.value) for e in (x, y)))
        left, right = self.value(x), self.value(y)
        if op in _EXTREMES:
            return self.use(_EXTREMES[op], dtype, left, right)
        if op in ("floordiv", "mod"):
            return self._division(op, x, y, left, right)
        return self.use(op, dtype, left, right)

    def _shift(self, op: str, x: Expr, y: Expr) -> CText:
        """A shift, by the count modulo the bits of the type where it may lie beyond."""
        dtype = x.dtype
        left, right = self.value(x), self.value(y)
        is_plain = op == "shr" or (dtype.kind == "u" and dtype.bits >= 32)
        if not is_plain or not _is_count(interval(y, self.ranges), dtype):
            return self.use(op, dtype, left, right)
        sign = "<<" if op == "shl" else ">>"
        return CText(f"{left.within(UNARY)} {sign} {right.within(UNARY)}", SHIFT, width_of(dtype))

    def _is_index(self, expr: Expr) -> bool:
        """Whether an integer was an index in C: made of loop variables, sizes and constants."""
        return self.from_c and expr.dtype == INT64 and all(map(_is_index_node, walk(expr)))

    def _division(self, op: str, x: Expr, y: Expr, left: CText, right: CText) -> CText:
        dtype, sign = x.dtype, "/" if op == "floordiv" else "%"
        divisor = y.value if isinstance(y, Const) else 0
        assert isinstance(divisor, int)
        if divisor <= 0:
            return self.use(op, dtype, left, right)
        if interval(x, self.ranges)[0] >= 0:
            text = f"{left.within(PRODUCT)} {sign} {right.within(UNARY)}"
            return CText(text, PRODUCT, width_of(dtype))
        if divisor & (divisor - 1) == 0 and dtype.bits < 64:
            # Of two's complement shifts and masks round down by themselves.
            if op == "mod":
                return CText(f"{left.within(UNARY)} & {divisor - 1}", BIT_AND, width_of(dtype))
            text = f"{left.within(UNARY)} >> {divisor.bit_length() - 1}"
            return CText(text, SHIFT, width_of(dtype))
        return self.use(op, dtype, left, right)

    def _division_of_c(self, expr: Select) -> CText | None:
        """`x / y` or `x % y` where `expr` is the C front end's form of it, else None."""
        found = truncated_division(expr)
        if found is None:
            return None
        op, x, y = found
        divisor = y.value if isinstance(y, Const) else 0
        left, right = self.value(x), self.value(y)
        if divisor not in (0, -1):
            sign = "/" if op == "div" else "%"
            text = f"{left.within(PRODUCT)} {sign} {right.within(UNARY)}"
            return CText(text, PRODUCT, width_of(x.dtype))
        return self.use("quotient" if op == "div" else "remainder", x.dtype, left, right)

    def _absolute(self, expr: Expr) -> CText | None:
        """The absolute value of a signed integer by the compiler's own function, else None.

        Where the source was C, the least integer had none there either.
        """
        x = absolute_of(expr)
        if x is None or x.dtype.kind != "i" or not self.from_c or self.dialect.is_device:
            return None
        name = "__builtin_labs" if x.dtype.bits == 64 else "__builtin_abs"
        found = CText(f"{name}({self.value(x)})", ATOM, width_of(x.dtype))
        return self._as(found, x.dtype) if x.dtype.bits < 32 else found

    # -- integers that wrap around --------------------------------------------------------------

    def _wrapped(self, expr: Expr) -> CText:
        """An integer operation done in an unsigned type, converted back."""
        dtype = expr.dtype
        found = self._modular(expr, dtype)
        return found if dtype.kind == "u" and dtype.bits >= 32 else self._as(found, dtype)

    def _modular(self, expr: Expr, dtype: DType) -> CText:
        """`expr` modulo 2^bits; sums and products are of an unsigned type."""
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

    def _unsigned(self, code: CText, dtype: DType) -> CText:
        if code.width is Width.WRAPS:
            return code
        return CText(f"({wrap_type(dtype)}){code.within(UNARY)}", UNARY, Width.WRAPS)

    # -- one operand ----------------------------------------------------------------------------

    def _unary(self, op: str, x: Expr, dtype: DType) -> CText:
        if op == "abs":
            if x.dtype.kind == "u":
                return self.value(x)
            if x.dtype.kind == "i":
                own = self._absolute(Unary(op, x))
                return self.use("abs", dtype, self.value(x)) if own is None else own
            return math_call("abs", dtype, x.dtype, self.value(x))
        if dtype.is_integer and op == "neg":
            if self._is_index(x):
                return self.index(Unary("neg", x))
            plain = dtype.kind == "i" and fits(exact_interval(Unary(op, x), self.ranges), dtype)
            if not plain:
                return self._wrapped(Unary(op, x))
        result = _signed("-" if op == "neg" else "~", self.value(x))
        is_small = dtype.kind == "u" and dtype.bits < 32
        return self._as(result, dtype) if is_small or dtype.bits == 16 else result

    def _cast(self, x: Expr, dtype: DType) -> CText:
        source = x.dtype
        if source == dtype:
            return self.value(x)
        match x:
            case Const(value=int(number)) if not dtype.is_integer and abs(number) < 1 << 24:
                return constant(number, dtype)
        if source.is_stored_only:
            found = self.use("widened", source, self.value(x))
            return found if dtype == FLOAT32 else self._as(found, dtype)
        if dtype.is_stored_only:
            return self.use("narrowed", dtype, self._cast(x, FLOAT32))
        found = self.value(x)
        if source.is_complex and not dtype.is_complex:
            source, found = source.real, CText(f"__real__ {found.within(UNARY)}", UNARY)
        if source.is_float and dtype.is_integer and not self.from_c:
            return self.use("to", dtype, found, source=source)
        if dtype.bits == 16 and dtype.is_float and source.is_integer:
            found = CText(f"(float){found.within(UNARY)}", UNARY)
        return self._as(found, dtype)

    def _as(self, code: CText, dtype: DType) -> CText:
        return CText(f"({c_type(dtype)}){code.within(UNARY)}", UNARY, width_of(dtype))


def _is_count(found: Interval, dtype: DType) -> bool:
    """Whether all values of an interval are counts by which C shifts a type."""
    return found[0] >= 0 and found[1] < dtype.bits


def _choice(cond: CText, x: CText, y: CText) -> CText:
    """`cond ? x : y`."""
    width = x.width if x.width == y.width else Width.INT
    if Width.LONG in (x.width, y.width):
        width = Width.LONG
    return CText(f"{cond.within(OR)} ? {x.within(OR)} : {y.within(CHOICE)}", CHOICE, width)


def operation(op: str, x: CText, y: CText) -> CText:
    """`x op y`, grouped to the left."""
    sign, binding = _SIGNS[op]
    right = y.within(binding + 1)
    # `x - -1` must not become a decrement.
    right = f"({right})" if right.startswith(sign) else right
    return CText(f"{x.within(binding)} {sign} {right}", binding, x.width)


def _connective(op: str, left: CText, right: CText, is_by_bits: bool) -> CText:
    """`and`, `or` and `xor` of conditions."""
    if op == "xor":
        return CText(f"{left.within(SUM)} != {right.within(SUM)}", EQUAL)
    # Elements are compared without branches, which vectors of them could not follow.
    if is_by_bits:
        sign, binding = _BITS[op]
        return CText(f"{left.within(UNARY)} {sign} {right.within(UNARY)}", binding)
    sign, binding = ("&&", AND) if op == "and" else ("||", OR)
    # `a && b || c` is legal too, and warned of.
    parts = (c.text if c.binding == binding else c.within(EQUAL) for c in (left, right))
    return CText(f" {sign} ".join(parts), binding)


def _is_long(code: CText) -> bool:
    return code.width is Width.LONG


def width_of(dtype: DType) -> Width:
    """The width in which C computes with an integer type; INT for other types."""
    if not dtype.is_integer:
        return Width.INT
    if dtype.kind == "u" and dtype.bits >= 32:
        return Width.WRAPS
    return Width.LONG if dtype.bits == 64 else Width.INT


def _signed(sign: str, x: CText) -> CText:
    """`-x` or `~x`; a minus before another one would be a decrement."""
    text = f"({x})" if x.text.startswith(sign) else x.within(UNARY)
    return CText(f"{sign}{text}", UNARY, x.width)


def _is_index_node(expr: Expr) -> bool:
    match expr:
        case Const() | Var() | Unary(op="neg") | Binary(op="add" | "sub" | "mul" | "min" | "max"):
            return True
        case Binary(op="floordiv" | "mod", y=Const(value=int(divisor))):
            return divisor > 0
    return False
