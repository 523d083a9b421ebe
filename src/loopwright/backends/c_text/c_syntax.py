"""C's syntax, without any header: identifiers, element types, literals, precedence, lines.

Names of the user's program are kept where they are free identifiers of C. Expressions are strings
that know how tightly their outermost operator binds, so that parentheses stand where C needs them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum

import numpy as np

from loopwright.ir.dtypes import BOOL, DType
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "DEVICE_WORDS",
    "INDENT",
    "INDEX",
    "CText",
    "IndentedText",
    "NamesInUse",
    "Width",
    "as_identifier",
    "c_type",
    "constant",
    "identifiers",
    "unsigned",
    "wrap_type",
]

# Types of loop variables, bounds and subscripts. Like the C front end this counts on a `long` of 64
# bits: headers, and with them int64_t, are not ours to include.
INDEX = "long"

_NAMES = {
    "bool": "_Bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long",
    "float16": "_Float16",
    "bfloat16": "unsigned short",
    "float32": "float",
    "float64": "double",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}


class Width(Enum):
    """The type in which C computes with an integer."""

    INT = "int"  # computes in int, which may be too narrow for an index
    LONG = "long"  # computes in long
    WRAPS = "unsigned"  # computes modulo a power of two


@dataclass(frozen=True, slots=True)
class CText:
    """Text of a C expression, how tightly its outermost operator binds, and its width."""

    text: str
    binding: int
    width: Width = Width.INT

    def within(self, binding: int) -> str:
        """The text, in parentheses where its operator binds less tightly than `binding`."""
        return self.text if self.binding >= binding else f"({self.text})"

    def __str__(self) -> str:
        return self.text


# How tightly C's operators bind; a higher number binds more.
ATOM, UNARY, PRODUCT, SUM, SHIFT, ORDER, EQUAL = 15, 14, 13, 12, 11, 10, 9
BIT_AND, BIT_XOR, BIT_OR, AND, OR, CHOICE = 8, 7, 6, 5, 4, 3


def c_type(dtype: DType) -> str:
    """The C type of an element."""
    return _NAMES[dtype.name]


def wrap_type(dtype: DType) -> str:
    """The unsigned type in which arithmetic of an integer dtype wraps around."""
    return "unsigned long" if dtype.bits == 64 else "unsigned"


def constant(value: complex, dtype: DType) -> CText:
    """A literal of type `dtype`; integers narrower than int are literals of int."""
    if dtype == BOOL:
        return CText("1" if value else "0", ATOM)
    if dtype.is_integer:
        assert isinstance(value, int)
        return _integer(int(value), dtype)  # identities of or_and are booleans
    if dtype.is_complex:
        parts = (_real(part, dtype.real).text for part in (value.real, value.imag))
        return CText(f"__builtin_complex({', '.join(parts)})", ATOM)
    return _real(value.real, dtype)


def unsigned(value: int, dtype: DType) -> CText:
    """A literal of the type `wrap_type(dtype)`."""
    suffix = "ul" if dtype.bits == 64 else "u"
    if value < 0:
        return CText(f"-{-value}{suffix}", UNARY, Width.WRAPS)
    return CText(f"{value}{suffix}", ATOM, Width.WRAPS)


def _integer(value: int, dtype: DType) -> CText:
    if dtype.kind == "u" and dtype.bits >= 32:
        return unsigned(value, dtype)
    suffix, width = ("L", Width.LONG) if dtype.bits == 64 else ("", Width.INT)
    if value == -(1 << (dtype.bits - 1)) and dtype.bits >= 32:
        # C has no negative literals, and the number without its sign is of no signed type.
        return CText(f"{value + 1}{suffix} - 1", SUM, width)
    return CText(f"{value}{suffix}", ATOM if value >= 0 else UNARY, width)


def _real(value: float, dtype: DType) -> CText:
    with np.errstate(over="ignore"):
        number = float(dtype.numpy.type(value))
    if math.isnan(number):
        text = '__builtin_nan("")' if dtype.bits == 64 else '__builtin_nanf("")'
    elif math.isinf(number):
        text = "__builtin_inf()" if dtype.bits == 64 else "__builtin_inff()"
        text = f"-{text}" if number < 0 else text
    else:
        text = _digits(number, dtype)
    if dtype.bits == 16:
        return CText(f"(_Float16){text}", UNARY)
    return CText(text, UNARY if text.startswith("-") else ATOM)


def _digits(number: float, dtype: DType) -> str:
    """The shortest decimal literal that reads back as `number`."""
    if dtype.bits == 64:
        return repr(number)
    # A half is a float, whose digits tell it apart from all other floats.
    text = str(np.float32(number))
    return text + ("f" if any(c in text for c in ".e") else ".0f")


# -- identifiers ----------------------------------------------------------------------------------

_RESERVED = """
auto break case char const continue default do double else enum extern float for goto if inline
int long register restrict return short signed sizeof static struct switch typedef union
unsigned void volatile while _Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary
_Noreturn _Static_assert _Thread_local asm typeof fortran linux unix i386 I NULL errno bool true
false complex imaginary main alignas alignof nullptr constexpr thread_local static_assert
"""
_RESERVED_WORDS = frozenset(_RESERVED.split())
# What C++, CUDA and OpenCL call otherwise: names that C leaves free.
_DEVICE = """
and and_eq bitand bitor catch class compl const_cast delete dynamic_cast explicit export friend
mutable namespace new not not_eq operator or or_eq private protected public reinterpret_cast
static_cast template this throw try typeid typename using virtual wchar_t xor xor_eq
kernel global local constant generic half uchar ushort uint ulong size_t ptrdiff_t event_t
dim3 threadIdx blockIdx blockDim gridDim warpSize
"""
DEVICE_WORDS = frozenset(_DEVICE.split())
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def identifiers(text: str) -> frozenset[str]:
    """All identifiers that occur in a text."""
    return frozenset(_IDENTIFIER.findall(text))


def as_identifier(name: str) -> str:
    """`name` as an identifier of C: other letters by code point, reserved words with a suffix."""
    plain = "".join(
        c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in name
    )
    if not plain or plain[0].isdigit():
        plain = f"v{plain}"
    return f"{plain}_" if plain in _RESERVED_WORDS or plain.startswith(("lw_", "__")) else plain


class NamesInUse:
    """The identifiers in use where text is added; inner blocks see those of outer ones."""

    def __init__(self, taken: Iterable[str] = (), foreign: frozenset[str] = frozenset()) -> None:
        self._scopes: list[set[str]] = [set(taken)]
        self._foreign = foreign  # words of the text around: a name that we make up is none of them

    def declare(self, wish: str, *, is_own: bool = True) -> str:
        """Declare an identifier in the innermost block: `wish` if it is free, else with a number.

        Names that we make up (`is_own`) also avoid the words of the text around, and have small
        letters: macros of headers, which we do not see, have capital ones.
        """
        plain = as_identifier(wish.lower() if is_own and wish.isupper() else wish)
        name, count = plain, 1
        while self._is_taken(name) or (is_own and name in self._foreign):
            count += 1
            name = f"{plain}_{count}"
            is_own = True
        self._scopes[-1].add(name)
        return name

    @contextmanager
    def block(self) -> Iterator[None]:
        """A block of its own: what it declares is free again behind it."""
        self._scopes.append(set())
        yield
        self._scopes.pop()

    def _is_taken(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)


# -- lines ----------------------------------------------------------------------------------------

INDENT = "    "
_MOST_COLUMNS = 100
_BREAKS = ",;?:=<>&|+-*/%^"
_LEAST_SHARE = 0.5  # of a line that must be used before it is broken


class IndentedText:
    """Text that grows line by line."""

    def __init__(self, margin: str = "") -> None:
        self._lines: list[str] = []
        self._margin = margin

    def add(self, text: str, comment: str = "") -> None:
        """One statement or head of a statement, over several lines if it is long.

        A comment stands behind it on the same line, or above it where the line is too short.
        """
        margin, rest = self._margin, text
        if comment:
            note = f"/* {comment} */"
            if len(margin) + len(text) + 1 + len(note) <= _MOST_COLUMNS:
                rest = f"{text} {note}"
            else:
                self._lines.append(margin + note)
        while len(margin) + len(rest) > _MOST_COLUMNS:
            at = _break(rest, _MOST_COLUMNS - len(margin))
            if at is None:
                break
            self._lines.append(margin + rest[:at].rstrip())
            rest = rest[at:].lstrip()
            margin = self._margin + INDENT
        self._lines.append(margin + rest)

    def directive(self, text: str) -> None:
        """A line of the preprocessor or a pragma: never broken."""
        self._lines.append(self._margin + text)

    def indent(self) -> None:
        self._margin += INDENT

    def dedent(self) -> None:
        self._margin = self._margin.removesuffix(INDENT)

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)


def _break(text: str, width: int) -> int | None:
    """Where to break a line: after an operator or comma inside few brackets, late on the line."""
    best: tuple[int, int] | None = None
    place: int | None = None
    depth = 0
    for at, letter in enumerate(text):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == " " and at and text[at - 1] in _BREAKS:
            if at > width and place is not None:
                break
            is_early = at < _LEAST_SHARE * width
            # Between the parts of a loop's head rather than inside one of them.
            level = 0 if text[at - 1] == ";" else 2 * depth + (text[at - 1] in "*/%")
            score = (level + (1000 if is_early else 0), -at)
            if best is None or score < best:
                best, place = score, at
    return place
