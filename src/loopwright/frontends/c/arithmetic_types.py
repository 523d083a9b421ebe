"""C's arithmetic types, typed values, literals, and the conversions between them (C11 6.3.1).

A value made only of loop variables, integer parameters and integer constants is an *index*: its
expression is int64 whatever its C type, so that bounds and subscripts can use it. Signed arithmetic
must not overflow in C, so int64 is exact for it. Unsigned arithmetic wraps around: an index of
unsigned type is right modulo 2^bits, and operations that depend on more (comparison, division,
widening) use int64 only where the value is proven not to be negative. Indices are assumed to stay
below 2^bits, as all index arithmetic here is.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeAlias

import numpy as np

from loopwright.frontends.constant_folding import rounded_constant, zero
from loopwright.frontends.refusal import Refusal
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "LONG_DOUBLE",
    "CType",
    "CValue",
    "DataModel",
    "Prove",
    "character",
    "common_type",
    "constant",
    "convert",
    "data",
    "index",
    "number",
    "number_of",
    "promote",
    "promoted",
    "truth",
]


@dataclass(frozen=True, slots=True)
class CType:
    """An arithmetic type; several may have one dtype, as long and long long do."""

    name: str = field(compare=False)  # C's shortest spelling, or the typedef's of a system header
    dtype: DType
    rank: int  # conversion rank: integers by width, then floating types

    @property
    def is_floating(self) -> bool:
        return self.dtype.is_float

    @property
    def is_unsigned(self) -> bool:
        return self.dtype.kind == "u"

    def __str__(self) -> str:
        return self.name


BOOLEAN = CType("_Bool", DTYPES["bool"], 0)
INT = CType("int", DTYPES["int32"], 3)
LONG_LONG = CType("long long", DTYPES["int64"], 5)
FLOAT = CType("float", DTYPES["float32"], 6)
DOUBLE = CType("double", DTYPES["float64"], 7)
_SIZES = {"char": (8, 1), "short": (16, 2), "int": (32, 3), "long long": (64, 5)}
# Names of types in system headers, which are not read: name -> signed, bits.
_FIXED = {
    **{f"int{bits}_t": (True, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": (False, bits) for bits in (8, 16, 32, 64)},
    **{f"int_least{bits}_t": (True, bits) for bits in (8, 16, 32, 64)},
    **{f"uint_least{bits}_t": (False, bits) for bits in (8, 16, 32, 64)},
    "intmax_t": (True, 64),
    "uintmax_t": (False, 64),
    "size_t": (False, 64),
    "ssize_t": (True, 64),
    "ptrdiff_t": (True, 64),
    "intptr_t": (True, 64),
    "uintptr_t": (False, 64),
    "off_t": (True, 64),
    "u_char": (False, 8),
    "uchar": (False, 8),
    "uint": (False, 32),
    "ushort": (False, 16),
}
_BY_BITS = {8: ("char", 1), 16: ("short", 2), 32: ("int", 3), 64: ("long", 4)}


@dataclass(frozen=True, slots=True)
class DataModel:
    """What the C standard leaves to the implementation: signedness of char, width of long."""

    is_char_signed: bool = True
    long_bits: int = 64

    def named(self, name: str) -> CType | None:
        """The type that a system header defines as `name`."""
        if name == "bool":
            return BOOLEAN
        if name not in _FIXED:
            return None
        signed, bits = _FIXED[name]
        _, rank = _BY_BITS[bits]
        return CType(name, DTYPES[f"{'int' if signed else 'uint'}{bits}"], rank)

    def spelled(self, words: Sequence[str]) -> CType | None:
        """The type of specifiers in any order: `long unsigned int`; None when there is none."""
        count = Counter(words)
        sign = {"signed", "unsigned"} & count.keys()
        base = count - Counter({"signed": 1, "unsigned": 1})
        if len(sign) == 2 or base["signed"] or base["unsigned"]:
            return None
        long = base.pop("long", 0)
        rest = sorted(base.elements())
        if rest in (["float"], ["double"], ["_Bool"]):
            floats = {"float": FLOAT, "double": DOUBLE, "_Bool": BOOLEAN}
            return None if sign or long else floats[rest[0]]
        if rest == ["char"] and not long:
            signed = "signed" in sign or (not sign and self.is_char_signed)
            text = f"{next(iter(sign))} char" if sign else "char"
            return CType(text, DTYPES["int8" if signed else "uint8"], 1)
        if "short" in rest and rest in (["short"], ["int", "short"]) and not long:
            return self._integer("short", sign)
        if rest not in ([], ["int"]) or long > 2 or not (long or rest or sign):
            return None
        return self._integer(("int", "long", "long long")[long], sign)

    def _integer(self, name: str, sign: set[str]) -> CType:
        bits, rank = _SIZES.get(name, (self.long_bits, 4))
        if "unsigned" in sign:
            return CType(f"unsigned {name}", DTYPES[f"uint{bits}"], rank)
        return CType(name, DTYPES[f"int{bits}"], rank)


def promoted(ctype: CType) -> CType:
    """The type of `+x`: integers below int become int, which holds all their values."""
    return INT if ctype.rank < INT.rank else ctype


def common_type(x: CType, y: CType) -> CType:
    """The type of `x + y` by the usual arithmetic conversions."""
    x, y = promoted(x), promoted(y)
    if x.is_floating or y.is_floating:
        return max((x, y), key=lambda t: t.rank)
    if x.is_unsigned == y.is_unsigned:
        return max((x, y), key=lambda t: t.rank)
    signed, unsigned = (y, x) if x.is_unsigned else (x, y)
    if unsigned.rank >= signed.rank:
        return unsigned
    if signed.dtype.bits > unsigned.dtype.bits:
        return signed
    return CType(f"unsigned {signed.name}", DTYPES[f"uint{signed.dtype.bits}"], signed.rank)


# -- values and their conversions -----------------------------------------------------------


# Whether an affine condition holds whenever the expression being read is evaluated.
Prove: TypeAlias = Callable[[Expr], bool]


@dataclass(frozen=True, slots=True)
class CValue:
    """A typed expression.

    Its dtype is that of the C type, but int64 for an index, and bool for the result of a
    comparison, whose C type is int.
    """

    expr: Expr
    ctype: CType
    is_index: bool = False

    @property
    def is_truth(self) -> bool:
        return self.expr.dtype == BOOL and self.ctype == INT


def constant(value: int, ctype: CType = INT) -> CValue:
    """An integer constant, wrapped to its type; in int64, so 2^64 - 1 becomes -1."""
    return CValue(Const(_wrapped(_wrapped(value, ctype.dtype), INT64)), ctype, is_index=True)


def number_of(value: CValue) -> int | None:
    """The integer value of a constant index; None for any other value."""
    match value.expr:
        case Const(value=int() as number) if value.is_index:
            return _wrapped(number, value.ctype.dtype)
        case _:
            return None


def index(expr: Expr, ctype: CType) -> CValue:
    """A value made of loop variables, parameters and constants."""
    if isinstance(expr, Const):
        assert isinstance(expr.value, int)
        return constant(expr.value, ctype)
    return CValue(expr, ctype, is_index=True)


def _wrapped(value: int, dtype: DType) -> int:
    if dtype == BOOL:
        return int(bool(value))
    limit = 1 << dtype.bits
    value %= limit
    return value - limit if dtype.kind == "i" and value >= limit // 2 else value


def data(value: CValue) -> Expr:
    """The value as an expression of its own type's dtype."""
    dtype = value.ctype.dtype
    match value.expr:
        case Const(value=bool() | int() as number) if value.is_index:
            plain = _wrapped(int(number), dtype)
            return Const(bool(plain) if dtype == BOOL else plain, dtype)
        case expr if expr.dtype == dtype:
            return expr
        case expr:
            return Cast(expr, dtype)


def convert(value: CValue, ctype: CType, prove: Prove) -> CValue:
    """The value as another type, by C's rules; constants are converted here."""
    if value.ctype == ctype and not (value.is_truth and ctype == INT):
        return value
    if ctype == BOOLEAN:
        return CValue(truth(value), BOOLEAN)
    if value.is_truth:
        match value.expr:
            case Const(value=known):
                return convert(constant(int(bool(known))), ctype, prove)
        return CValue(Cast(value.expr, ctype.dtype), ctype)
    if ctype.is_floating:
        return CValue(_floating(value, ctype.dtype, prove), ctype)
    match value.expr:
        case Const(value=float() as number):
            return _truncated(number, ctype)
    if value.is_index and (ctype.rank >= INT.rank or isinstance(value.expr, Const)):
        return _as_integer(value, ctype, prove)
    return CValue(Cast(data(value), ctype.dtype), ctype)


def _floating(value: CValue, dtype: DType, prove: Prove) -> Expr:
    match value.expr:
        case Const(value=float() as number):
            return rounded_constant(number, dtype)
    known = number_of(value)
    if known is not None:
        return rounded_constant(float(known), dtype)
    if value.is_index:
        return Cast(_exact(value, prove), dtype)
    return Cast(value.expr, dtype)


def _exact(value: CValue, prove: Prove) -> Expr:
    """The value that an index has in C: an unsigned one that may be negative wraps around."""
    if value.ctype.is_unsigned and not prove(value.expr >= 0):
        return Cast(value.expr, value.ctype.dtype)
    return value.expr


def _as_integer(value: CValue, ctype: CType, prove: Prove) -> CValue:
    if isinstance(value.expr, Const):
        assert isinstance(value.expr.value, int)
        return constant(value.expr.value, ctype)
    is_widened = ctype.dtype.bits > value.ctype.dtype.bits
    if is_widened and value.ctype.is_unsigned:
        exact = _exact(value, prove)
        if exact is not value.expr:
            return CValue(Cast(exact, ctype.dtype), ctype)
    return CValue(value.expr, ctype, is_index=True)


def _truncated(number: float, ctype: CType) -> CValue:
    """A floating constant as an integer, truncated towards zero."""
    limits = np.iinfo(ctype.dtype.name)
    whole = int(number) if abs(number) < float("inf") else limits.max + 1
    if not limits.min <= whole <= limits.max:
        raise Refusal("LW104", f"the constant {number} does not fit '{ctype}'")
    return constant(whole, ctype)


def truth(value: CValue) -> Expr:
    """`value != 0` as a boolean expression."""
    match value.expr:
        case Const(value=known):
            return Const(bool(known), BOOL)
        case expr if expr.dtype == BOOL:
            return expr
        case expr if value.is_index:
            return Binary("ne", expr, Const(0))
        case _:
            plain = data(value)
            return Binary("ne", plain, zero(plain.dtype))


def promote(value: CValue, prove: Prove) -> CValue:
    """The value after integer promotion, as `+x` gives it."""
    return convert(value, promoted(value.ctype) if not value.is_truth else INT, prove)


# -- literals --------------------------------------------------------------------------------


# Headers write limits as long double constants that are converted at once, which is accepted.
LONG_DOUBLE = CType("long double", FLOAT64, 8)
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)([uUlL]*)")
_DECIMAL = re.compile(
    r"((?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)([fFlL]?)"
)
_HEXADECIMAL = re.compile(
    r"(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)([fFlL]?)"
)
_SUFFIXES = ("", "u", "l", "ul", "lu", "ll", "ull", "llu")
_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11, "e": 27}
_BASES = {"x": 16, "b": 2}
_MOST_DIGITS = 400  # longer literals fit no type of C, and take Python long to convert


def number(text: str, model: DataModel) -> CValue:
    """The value of a numeric constant."""
    plain = text.replace("'", "")
    if len(plain) <= _MOST_DIGITS:
        match = _INTEGER.fullmatch(plain)
        if match is not None and match[2].lower() in _SUFFIXES:
            return _integer_literal(match[1], match[2].lower(), model)
        for form, read in ((_DECIMAL, float), (_HEXADECIMAL, _from_hexadecimal)):
            match = form.fullmatch(plain)
            if match is not None:
                return _floating_literal(read(match[1]), match[2].lower())
    raise Refusal("LW132", "this number is not understood", hint="42, 0x2a, 1.5, 1.5f, 1e-3")


def _from_hexadecimal(text: str) -> float:
    """The value of a hexadecimal floating constant; infinity beyond all, as of a decimal one."""
    try:
        return float.fromhex(text)
    except OverflowError:
        return math.inf


def _integer_literal(digits: str, suffix: str, model: DataModel) -> CValue:
    """An integer of the first type that holds it (C11 6.4.4.1); decimals never become unsigned."""
    prefix = digits[1:2].lower()
    is_decimal = digits[0] != "0"
    if prefix in _BASES:
        value = int(digits[2:], _BASES[prefix])
    else:
        value = int(digits, 10 if is_decimal else 8)
    longs = suffix.count("l")
    for long in range(longs, 3):
        for sign in ("signed", "unsigned"):
            if (sign == "signed") if "u" in suffix else (sign == "unsigned" and is_decimal):
                continue
            ctype = model.spelled(["long"] * long + ["int", sign])
            assert ctype is not None
            bits = ctype.dtype.bits - (sign == "signed")
            if value < 1 << bits:
                return constant(value, INT if ctype == model.spelled(["int"]) else ctype)
    raise Refusal("LW104", f"the constant {digits} does not fit an integer type")


def _floating_literal(value: float, suffix: str) -> CValue:
    ctype = {"f": FLOAT, "l": LONG_DOUBLE, "": DOUBLE}[suffix]
    return CValue(rounded_constant(value, ctype.dtype), ctype)


def character(text: str, model: DataModel) -> CValue:
    """The value of a character constant: an int."""
    inner = text[text.index("'") + 1 : -1]
    code: int | None = None
    if inner.startswith("\\"):
        code = _escaped(inner[1:])
    elif len(inner) == 1:
        code = ord(inner)
    is_plain = text[0] == "'"
    if code is None or not 0 <= code < 256 or not is_plain or (code > 127 and inner[0] != "\\"):
        raise Refusal("LW132", "this character is not understood", hint="'a', '\\n', '\\x41'")
    if code > 127 and model.is_char_signed:
        code -= 256
    return constant(code)


def _escaped(rest: str) -> int | None:
    if re.fullmatch("x[0-9a-fA-F]{1,2}", rest):
        return int(rest[1:], 16)
    if re.fullmatch("[0-7]{1,3}", rest):
        return int(rest, 8)
    if rest in ("\\", "'", '"', "?"):
        return ord(rest)
    return _ESCAPES.get(rest)
