"""C's operators on typed values: result types, and IR expressions with C's exact semantics."""

from __future__ import annotations

from collections.abc import Callable

from loopwright.frontends.affine_check import why_no_affine_condition, why_not_piecewise
from loopwright.frontends.affine_terms import extreme
from loopwright.frontends.c.arithmetic_types import (
    INT,
    CType,
    CValue,
    Prove,
    common_type,
    constant,
    convert,
    data,
    index,
    number_of,
    promote,
    truth,
)
from loopwright.frontends.constant_folding import folded_logical, negated, zero
from loopwright.frontends.near_division import near_division
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Select, Unary
from loopwright.ir.visit import loads, rewrite

__all__ = ["binary", "by_cases", "choose", "logical", "select", "unary"]

_COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_HOLDS: dict[str, Callable[[int, int], bool]] = {
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
    "==": int.__eq__,
    "!=": int.__ne__,
}
_LINEAR: dict[str, tuple[str, Callable[[Expr, Expr], Expr]]] = {
    "+": ("add", lambda x, y: x + y),
    "-": ("sub", lambda x, y: x - y),
    "*": ("mul", lambda x, y: x * y),
}
_BITS = {"&": "and", "|": "or", "^": "xor"}


def binary(op: str, x: CValue, y: CValue, prove: Prove) -> CValue:
    """`x op y` for an operator of C other than && and ||."""
    if op in ("<<", ">>"):
        return _shift(op, promote(x, prove), promote(y, prove), prove)
    if op in _BITS and x.is_truth and y.is_truth:
        return CValue(Binary(_BITS[op], x.expr, y.expr), INT)
    ctype = common_type(x.ctype, y.ctype)
    x, y = convert(x, ctype, prove), convert(y, ctype, prove)
    if op in _COMPARE:
        return _compare(op, x, y, prove)
    if op in _LINEAR:
        return _linear(op, x, y, ctype)
    if ctype.is_floating:
        if op == "/":
            return CValue(Binary("div", data(x), data(y)), ctype)
        raise Refusal("LW103", f"'{op}' is not defined for '{ctype}'", hint="only integers have it")
    if op in ("/", "%"):
        return _divide(op, x, y, ctype, prove)
    return _bits(op, x, y, ctype)


def _linear(op: str, x: CValue, y: CValue, ctype: CType) -> CValue:
    name, combine = _LINEAR[op]
    if x.is_index and y.is_index:
        return index(combine(x.expr, y.expr), ctype)
    return CValue(Binary(name, data(x), data(y)), ctype)


def _compare(op: str, x: CValue, y: CValue, prove: Prove) -> CValue:
    a, b = number_of(x), number_of(y)
    if a is not None and b is not None:
        return CValue(Const(_HOLDS[op](a, b), BOOL), INT)
    if x.is_index and y.is_index and _is_exact(x, prove) and _is_exact(y, prove):
        return CValue(Binary(_COMPARE[op], x.expr, y.expr), INT)
    return CValue(Binary(_COMPARE[op], data(x), data(y)), INT)


def _is_exact(value: CValue, prove: Prove) -> bool:
    """Whether an index equals the value in C, rather than only modulo 2^bits."""
    return not value.ctype.is_unsigned or prove(value.expr >= 0)


def _is_exact_place(value: CValue, prove: Prove) -> bool:
    """Whether a value is a piecewise affine index that equals the value in C."""
    is_place = value.is_index and why_not_piecewise(value.expr) is None
    return is_place and _is_exact(value, prove)


# -- division: C rounds towards zero, our // towards minus infinity -------------------------


def _divide(op: str, x: CValue, y: CValue, ctype: CType, prove: Prove) -> CValue:
    match y.expr:
        case Const(value=0):
            raise Refusal("LW104", "an integer is divided by the constant zero")
    if all(_is_exact_place(value, prove) for value in (x, y)):
        match y.expr:
            case Const(value=int() as divisor):
                return index(_affine_division(op, x.expr, divisor, prove), ctype)
        found = near_division(op, x.expr, y.expr, prove)
        if found is not None:
            return index(found, ctype)
    return CValue(_data_division(op, data(x), data(y)), ctype)


def by_cases(place: Expr, prove: Prove) -> Expr:
    """A subscript with its remainders by constants as case distinctions of at most two cases.

    Index-set splitting removes cases (`piecewise_subscripts`), it cannot remove remainders.
    """

    def change(node: Expr) -> Expr:
        match node:
            case Binary(op="mod", x=x, y=Const() as divisor):
                return near_division("%", x, divisor, prove) or node
            case _:
                return node

    return rewrite(place, change)


def _affine_division(op: str, x: Expr, divisor: int, prove: Prove) -> Expr:
    """`x / divisor` or `x % divisor` of an affine x.

    C rounds towards zero: down where x >= 0, up where x < 0. One of the summands is always zero:
    x / c = max(floor(x / c), 0) + min(ceil(x / c), 0).
    """
    size = abs(divisor)
    if prove(x >= 0):
        quotient = x // size
        remainder = x % size
    else:
        up = _minus((_minus(x)) // size)
        quotient = (x // size).max(0) + up.min(0)
        remainder = x - quotient * size
    if op == "%":
        return remainder
    return quotient if divisor > 0 else _minus(quotient)


def _minus(x: Expr) -> Expr:
    match x:
        case Const(value=int() as value):
            return Const(-value)
        case Unary(op="neg", x=inner):
            return inner
        case _:
            return Unary("neg", x)


def _data_division(op: str, x: Expr, y: Expr) -> Expr:
    """`x / y` or `x % y` of data: floored division, corrected where the signs differ."""
    down, rest = Binary("floordiv", x, y), Binary("mod", x, y)
    if x.dtype.kind == "u":
        return down if op == "/" else rest
    nothing = zero(x.dtype)
    is_negative: Expr = Binary("lt", x, nothing)
    match y:
        case Const(value=int() as divisor) if divisor > 0:
            pass
        case _:
            is_negative = Binary("xor", is_negative, Binary("lt", y, nothing))
    is_off = Binary("and", is_negative, Binary("ne", rest, nothing))
    if op == "/":
        return Select(is_off, Binary("add", down, Const(1, x.dtype)), down)
    return Select(is_off, Binary("sub", rest, y), rest)


# -- bits -----------------------------------------------------------------------------------


def _shift(op: str, x: CValue, y: CValue, prove: Prove) -> CValue:
    ctype = x.ctype
    if ctype.is_floating or y.ctype.is_floating:
        raise Refusal(
            "LW103", f"'{op}' is not defined for 'double'", hint="only integers have bits"
        )
    match y.expr:
        case Const(value=int() as count) if y.is_index and 0 <= count < ctype.dtype.bits:
            pass
        case Const(value=int() as wrong) if y.is_index:
            hint = f"a count from 0 to {ctype.dtype.bits - 1}"
            raise Refusal("LW103", f"'{op}' by {wrong} is not defined in C", hint=hint)
        case _:
            by = data(convert(y, ctype, prove))
            return CValue(Binary("shl" if op == "<<" else "shr", data(x), by), ctype)
    if op == "<<":
        return binary("*", x, constant(1 << count, ctype), prove)
    if x.is_index and _is_exact(x, prove):
        return index(x.expr // (1 << count), ctype)
    plain, dtype = data(x), ctype.dtype
    if dtype.kind == "i" and count == dtype.bits - 1:  # 2^count does not fit the type
        sign = Binary("lt", plain, zero(dtype))
        return CValue(Select(sign, Const(-1, dtype), zero(dtype)), ctype)
    return CValue(Binary("floordiv", plain, Const(1 << count, dtype)), ctype)


def _bits(op: str, x: CValue, y: CValue, ctype: CType) -> CValue:
    """`& | ^`; `i & 7` of an index is i modulo 8, also below zero."""
    if op == "&" and x.is_index and y.is_index:
        for mask, other in ((x.expr, y.expr), (y.expr, x.expr)):
            match mask:
                case Const(value=int() as ones) if ones >= 0 and (ones & (ones + 1)) == 0:
                    return index(other % (ones + 1), ctype)
    return CValue(Binary(_BITS[op], data(x), data(y)), ctype)


# -- one operand ----------------------------------------------------------------------------


def unary(op: str, x: CValue, prove: Prove) -> CValue:
    """`op x` for + - ~ !."""
    if op == "!":
        return CValue(negated(truth(x)), INT)
    x = promote(x, prove)
    if op == "+":
        return x
    if op == "~":
        if x.ctype.is_floating:
            hint = "only integers have bits"
            raise Refusal("LW103", f"'~' is not defined for '{x.ctype}'", hint=hint)
        if x.is_index:
            return index(_minus(x.expr) - 1, x.ctype)
        return CValue(Unary("not", data(x)), x.ctype)
    if x.is_index:
        return index(_minus(x.expr), x.ctype)
    match x.expr:
        case Const(value=float() as number, dtype=dtype):
            return CValue(Const(-number, dtype), x.ctype)
    return CValue(Unary("neg", data(x)), x.ctype)


# -- conditions -----------------------------------------------------------------------------


def logical(op: str, x: Expr, y: Expr) -> Expr:
    """`x && y` or `x || y` of conditions; y is evaluated only where x does not decide."""
    name = "and" if op == "&&" else "or"
    known = folded_logical(name, x, y)
    if known is not None:
        return known
    if any(load.index for load in loads(y)):  # x may guard the load of an element
        decided = Const(name == "or", BOOL)
        return Select(x, y, decided) if name == "and" else Select(x, decided, y)
    return Binary(name, x, y)


def choose(cond: Expr, x: CValue, y: CValue, prove: Prove) -> CValue:
    """`cond ? x : y`, as a minimum or maximum of indices where it is one.

    The affine parts of a condition come outermost: `i > 0 && A[i-1] > 0 ? A[i-1] : 0` reads no
    element outside A, because statements are split at affine conditions.
    """
    if not (x.is_truth and y.is_truth):
        ctype = common_type(x.ctype, y.ctype)
        x, y = convert(x, ctype, prove), convert(y, ctype, prove)
    return select(cond, x, y, prove)


def select(cond: Expr, x: CValue, y: CValue, prove: Prove) -> CValue:
    """`cond ? x : y` of two values of the result's type, without conversions."""
    match cond:
        case Const(value=known):
            return x if known else y
        case Unary(op="not", x=inner):
            return select(inner, y, x, prove)
        case Select(cond=first, x=second, y=Const(value=False)):
            return select(first, select(second, x, y, prove), y, prove)
        case Select(cond=first, x=Const(value=True), y=second):
            return select(first, x, select(second, x, y, prove), prove)
        case Binary(op="and" | "or" as op, x=first, y=second):
            if _is_affine(first) != _is_affine(second):
                outer, inner = (first, second) if _is_affine(first) else (second, first)
                rest = select(inner, x, y, prove)
                parts = (rest, y) if op == "and" else (x, rest)
                return select(outer, *parts, prove)
    if x.is_truth:
        return CValue(Select(cond, x.expr, y.expr), INT)
    if x.is_index and y.is_index and _is_affine(cond):
        if prove(cond):
            return x
        if prove(negated(cond)):
            return y
        is_sum = why_not_piecewise(x.expr) is None and why_not_piecewise(y.expr) is None
        found = _extreme(cond, x.expr, y.expr, prove) if is_sum else None
        return index(found or Select(cond, x.expr, y.expr), x.ctype)
    return CValue(Select(cond, data(x), data(y)), x.ctype)


def _extreme(cond: Expr, x: Expr, y: Expr, prove: Prove) -> Expr | None:
    """`cond ? x : y` as a minimum or maximum, if it provably is one."""
    found = extreme(cond, x, y)
    if found is not None:
        return found
    other = negated(cond)
    if prove(logical("||", other, x >= y)) and prove(logical("||", cond, y >= x)):
        return x.max(y)
    if prove(logical("||", other, y >= x)) and prove(logical("||", cond, x >= y)):
        return x.min(y)
    return None


def _is_affine(cond: Expr) -> bool:
    return why_no_affine_condition(cond) is None
