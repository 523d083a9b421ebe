"""Numbers and characters as C writes them."""

from __future__ import annotations

import re

from loopwright.frontends.c.refusal import Refusal
from loopwright.frontends.c.types import DOUBLE, FLOAT, INT, CType, Model
from loopwright.frontends.c.values import Value, constant, float_constant
from loopwright.ir.dtypes import FLOAT64

__all__ = ["LONG_DOUBLE", "character", "number"]

# Headers write limits as long double constants and convert them at once: that much is understood.
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
_MOST_DIGITS = 400  # beyond this no number of C is meant, and Python would take long


def number(text: str, model: Model) -> Value:
    """The value of a numeric constant."""
    plain = text.replace("'", "")
    if len(plain) <= _MOST_DIGITS:
        match = _INTEGER.fullmatch(plain)
        if match is not None and match[2].lower() in _SUFFIXES:
            return _integer(match[1], match[2].lower(), model)
        for form, read in ((_DECIMAL, float), (_HEXADECIMAL, float.fromhex)):
            match = form.fullmatch(plain)
            if match is not None:
                return _floating(read(match[1]), match[2].lower())
    raise Refusal("LW132", "this number is not understood", hint="42, 0x2a, 1.5, 1.5f, 1e-3")


def _integer(digits: str, suffix: str, model: Model) -> Value:
    """The first type of C's list that holds the number; only decimals never become unsigned."""
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


def _floating(value: float, suffix: str) -> Value:
    ctype = {"f": FLOAT, "l": LONG_DOUBLE, "": DOUBLE}[suffix]
    return Value(float_constant(value, ctype.dtype), ctype)


def character(text: str, model: Model) -> Value:
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
