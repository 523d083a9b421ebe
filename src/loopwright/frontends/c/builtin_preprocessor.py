"""The built-in preprocessor (#include, #define, #if), for machines without a C compiler.

System headers that are not found are left out; the constants of a few of them are built in.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from loopwright.diagnostics import Diagnostic, SourceError, Span
from loopwright.frontends.c.arithmetic_types import DataModel
from loopwright.frontends.c.declaration_parser import DeclarationParser
from loopwright.frontends.c.lexer import SyntaxFault, tokenize
from loopwright.frontends.c.macro_expansion import (
    MacroFault,
    Macros,
    MacroToken,
    macro_text,
    macro_tokens,
)
from loopwright.frontends.c.source_map import SourceText
from loopwright.frontends.c.syntax_tree import (
    BinaryExpr,
    CharLiteral,
    NumberLiteral,
    SymbolTable,
    SyntaxExpr,
    TernaryExpr,
    UnaryExpr,
)

__all__ = ["expand"]

_MOST_DEPTH = 40  # of nested headers; fifty times as many in all
_MOST_BYTES = 32 << 20
_COMMENTS = re.compile(
    r"""/\*.*?\*/|(?P<open>/\*)|//[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\n""", re.DOTALL
)
_NAME = re.compile(r"[^\W\d]\w*")
_CONTINUED = re.compile(r"\\\r?\n")
_OPERATOR = re.compile(r'\b_Pragma\s*\(\s*"((?:[^"\\]|\\.)*)"\s*\)')
_DIRECTIVE = re.compile(r"\s*#\s*([a-z_]*)\s*(.*)", re.DOTALL)
_PREDEFINED = (
    "__STDC__ 1",
    "__STDC_VERSION__ 199901L",
    "__SIZEOF_LONG__ 8",
    "__LINE__ 0",
    '__FILE__ ""',
)
_HEADERS = {
    "math.h": (
        "M_PI 3.14159265358979323846", "M_PI_2 1.57079632679489661923",
        "M_PI_4 0.78539816339744830962", "M_E 2.7182818284590452354",
        "M_SQRT2 1.41421356237309504880", "M_SQRT1_2 0.70710678118654752440",
        "M_LN2 0.69314718055994530942", "M_LN10 2.30258509299404568402",
        "INFINITY (__builtin_inff())", "HUGE_VAL (__builtin_inf())", 'NAN (__builtin_nanf(""))',
    ),
    "limits.h": (
        "CHAR_BIT 8", "SCHAR_MIN (-128)", "SCHAR_MAX 127", "UCHAR_MAX 255", "SHRT_MIN (-32768)",
        "SHRT_MAX 32767", "USHRT_MAX 65535", "INT_MAX 2147483647", "INT_MIN (-INT_MAX - 1)",
        "UINT_MAX 4294967295U", "LONG_MAX 9223372036854775807L", "LONG_MIN (-LONG_MAX - 1L)",
        "ULONG_MAX 18446744073709551615UL", "LLONG_MAX 9223372036854775807LL",
    ),
    "float.h": (
        "FLT_MAX 3.40282346638528859812e+38F", "FLT_MIN 1.17549435082228750797e-38F",
        "FLT_EPSILON 1.19209289550781250000e-7F", "DBL_MAX 1.79769313486231570815e+308",
        "DBL_MIN 2.22507385850720138309e-308", "DBL_EPSILON 2.22044604925031308085e-16",
    ),
    "stdint.h": (
        "INT8_MAX 127", "INT16_MAX 32767", "INT32_MAX 2147483647", "UINT8_MAX 255",
        "UINT16_MAX 65535", "UINT32_MAX 4294967295U", "INT64_MAX 9223372036854775807L",
        "INT32_MIN (-INT32_MAX - 1)", "INT64_MIN (-INT64_MAX - 1L)",
    ),
    "stdbool.h": ("bool _Bool", "true 1", "false 0"),
}  # fmt: skip


def expand(source: SourceText, main: str, args: Sequence[str]) -> str:
    """The text of a file with its macros expanded, with line markers as compilers write them."""
    found = _Preprocessor(source, main, args)
    return "\n".join(found.run())


class _Fault(Exception):  # noqa: N818, becomes a SourceError with its place
    """An error that stops preprocessing."""


class _Unended(Exception):  # noqa: N818, as above
    """A comment without an end: file, line and message."""


class _Preprocessor:
    def __init__(self, source: SourceText, main: str, args: Sequence[str]) -> None:
        self._source = source
        self._main = main
        self._macros = Macros()
        self._once: set[str] = set()
        self._files = self._depth = 0
        self._bytes = 0
        self._quoted, self._angled, self._first = _folders(args)
        self._place = (main, 1)
        for text in _PREDEFINED:
            self._macros.define(text)
        for option, value in _options(args):
            if option == "-D":
                name, given, body = value.partition("=")
                self._macros.define(f"{name} {body if given else '1'}")
            elif option == "-U":
                self._macros.undefine(value)

    def run(self) -> list[str]:
        try:
            lines: list[str] = []
            for path in self._first:
                lines += self._include(path, self._source.folder, is_quoted=True)
            lines += self._file(self._main, self._source.folder, self._source.plain)
            return lines
        except (_Fault, MacroFault, _Unended) as fault:
            file, line = self._place
            message = str(fault)
            if isinstance(fault, _Unended):
                file, line, message = fault.args
            span = Span(file, line, 1, line, 2)
            if file == self._main:
                span = self._source.span(line)
            raise SourceError(Diagnostic(span, message, "LW131")) from None

    def _file(self, name: str, folder: str, raw: bytes) -> Iterator[str]:
        yield f'# 1 "{name}" 1'
        lines = _logical_lines(_decoded(raw), name)
        conditions: list[tuple[bool, bool]] = []  # of each open #if: is this branch taken, was any
        expected = 1
        while lines:
            number, text = lines.pop()
            self._place = (name, number)
            match = _DIRECTIVE.match(text)
            if match is not None and text.lstrip().startswith("#"):
                if self._conditional(match[1], match[2], conditions):
                    continue
                if all(counts for counts, _ in conditions):
                    yield from self._directive(match[1], match[2], name, number, folder)
                    expected = -1
                continue
            if not text.strip() or not all(counts for counts, _ in conditions):
                continue
            if number != expected:
                yield f'# {number} "{name}"'
            if any(word in self._macros for word in _NAME.findall(text)):
                expanded = self._macros.expand(macro_tokens(text), lambda: _next_line(lines))
                text = macro_text(expanded)
            yield from _pragma_operators(text, f'# {number} "{name}"')
            expected = number + 1 if lines and lines[-1][0] == number + 1 else -1
        if conditions:
            raise _Fault("#endif is missing")

    def _conditional(self, word: str, rest: str, stack: list[tuple[bool, bool]]) -> bool:
        """Process #if, #elif, #else and #endif; False for any other directive."""
        outer = all(counts for counts, _ in stack)
        if word in ("if", "ifdef", "ifndef"):
            holds = outer and self._holds(word, rest)
            stack.append((holds, holds))
            return True
        if word not in ("elif", "else", "endif"):
            return False
        if not stack:
            raise _Fault(f"#{word} without #if")
        _, had = stack.pop()
        if word == "endif":
            return True
        outer = all(counts for counts, _ in stack)
        holds = outer and not had and (word == "else" or self._holds("if", rest))
        stack.append((holds, had or holds))
        return True

    def _holds(self, word: str, rest: str) -> bool:
        if word != "if":
            name = rest.split()[:1]
            if not name:
                raise _Fault(f"a name is missing after #{word}")
            return (name[0] in self._macros) == (word == "ifdef")
        text = re.sub(
            r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))",
            lambda m: str(int((m[1] or m[2]) in self._macros)),
            rest,
        )
        text = re.sub(r"\b__has_\w+\s*\([^)]*\)", "0", text)
        plain = macro_text([
            MacroToken("number", "0", w.is_apart) if w.kind == "name" else w
            for w in self._macros.expand(macro_tokens(text))
        ])  # fmt: skip
        tokens = list(tokenize(plain))
        try:
            parser = DeclarationParser(plain, tokens, SymbolTable(lambda _: None), DataModel())
            found = parser.expressions.conditional()
            if parser.tokens.token.kind != "end":
                raise _Fault(f"the condition of #if is not understood: {rest.strip()}")
            return _condition_value(found) != 0
        except (SyntaxFault, ValueError, ZeroDivisionError):
            raise _Fault(f"the condition of #if is not understood: {rest.strip()}") from None

    def _directive(
        self, word: str, rest: str, name: str, number: int, folder: str
    ) -> Iterator[str]:
        match word:
            case "define":
                self._macros.define(rest)
            case "undef":
                self._macros.undefine(rest.strip())
            case "include":
                yield from self._include_line(rest, folder)
                yield f'# {number + 1} "{name}" 2'
            case "pragma":
                if rest.split()[:1] == ["once"]:
                    self._once.add(name)
                else:
                    yield f'# {number} "{name}"'
                    yield f"#pragma {rest.strip()}"
            case "error":
                raise _Fault(f"the preprocessor says: #error {rest.strip()}")

    def _include_line(self, rest: str, folder: str) -> Iterator[str]:
        target = rest.strip()
        if target[:1] not in ('"', "<"):
            target = macro_text(self._macros.expand(macro_tokens(target)))
        match = re.match(r'"([^"]+)"|<\s*([^>]+?)\s*>', target)
        if match is None:
            raise _Fault(f"#include is not understood: {rest.strip()}")
        yield from self._include(match[1] or match[2], folder, is_quoted=match[1] is not None)

    def _include(self, path: str, folder: str, *, is_quoted: bool) -> Iterator[str]:
        folders = [
            *([folder] if is_quoted else []),
            *(self._quoted if is_quoted else []),
            *self._angled,
        ]
        found = next((p for p in (Path(f, path) for f in folders) if p.is_file()), None)
        if found is None:
            if is_quoted:
                raise _Fault(f"the header '{path}' is not found; give its folder with -I")
            for text in _HEADERS.get(path, ()):
                self._macros.define(text)
            return
        self._files += 1
        self._bytes += found.stat().st_size
        if max(self._files / 50, self._depth) > _MOST_DEPTH or self._bytes > _MOST_BYTES:
            raise _Fault("the file includes too much")
        if str(found) not in self._once:
            before = self._place
            self._depth += 1
            yield from self._file(str(found), str(found.parent), found.read_bytes())
            self._depth -= 1
            self._place = before


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _logical_lines(text: str, name: str) -> list[tuple[int, str]]:
    """Logical lines with their numbers, last first: continued lines joined, comments blanked."""
    lines: list[tuple[int, str]] = []
    number = start = 1
    parts: list[str] = []
    at = 0
    # A continued line keeps its number; the lines that continue it count for those after it.
    spliced = _CONTINUED.sub("\x00", text)
    for match in _COMMENTS.finditer(spliced):
        parts.append(spliced[at : match.start()])
        at = match.end()
        if match["open"]:
            lost = "".join(parts).count("\x00")
            raise _Unended(name, number + lost, "the comment does not end")
        if match[0] == "\n":
            line = "".join(parts)
            lines.append((start, line.replace("\x00", "")))
            number += 1 + line.count("\x00")
            start, parts = number, []
        elif match[0][0] == "/":
            number += match[0].count("\n") + match[0].count("\x00")
            parts.append(" ")
        else:
            parts.append(match[0])
    lines.append((start, ("".join(parts) + spliced[at:]).replace("\x00", "")))
    lines.reverse()
    return lines


def _pragma_operators(text: str, marker: str) -> Iterator[str]:
    """A line with each `_Pragma("...")` in it moved to a line of its own."""
    pieces = _OPERATOR.split(text)
    yield pieces[0]
    for pragma, rest in zip(pieces[1::2], pieces[2::2], strict=True):
        yield marker
        yield "#pragma " + re.sub(r"\\(.)", r"\1", pragma)
        yield marker
        yield rest


def _next_line(lines: list[tuple[int, str]]) -> list[MacroToken] | None:
    """The tokens of the next line, for a macro call that continues there."""
    if not lines or lines[-1][1].lstrip().startswith("#"):
        return None
    return macro_tokens("\n" + lines.pop()[1])


def _options(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their values, which are attached or the next argument."""
    waiting = iter(args)
    for arg in waiting:
        option = next((o for o in _VALUED if arg.startswith(o)), None)
        if option is not None:
            yield option, arg[len(option) :] or next(waiting, "")


def _folders(args: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Folders for quoted includes only, folders for all includes, files to include first."""
    given = list(_options(args))
    quoted = [os.fspath(value) for option, value in given if option == "-iquote"]
    angled = [value for option, value in given if option in ("-I", "-isystem")]
    return quoted, angled, [value for option, value in given if option == "-include"]


def _condition_value(expr: SyntaxExpr) -> int:
    """The value of the condition of an #if; raises ValueError for anything else."""
    match expr:
        case NumberLiteral(text=text):
            digits = text.rstrip("uUlL")
            is_octal = digits.isdigit() and digits.startswith("0")
            return int(digits, 8 if is_octal else 0)
        case CharLiteral(text=text) if len(text) == 3:
            return ord(text[1])
        case UnaryExpr(op=op, x=x) if op in _PREFIX:
            return int(_PREFIX[op](_condition_value(x)))
        case TernaryExpr(cond=cond, x=x, y=y):
            return _condition_value(x) if _condition_value(cond) else _condition_value(y)
        case BinaryExpr(op="&&", x=x, y=y):
            return int(_condition_value(x) != 0 and _condition_value(y) != 0)
        case BinaryExpr(op="||", x=x, y=y):
            return int(_condition_value(x) != 0 or _condition_value(y) != 0)
        case BinaryExpr(op="/" | "%" as op, x=x, y=y):
            left, right = _condition_value(x), _condition_value(y)
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return quotient if op == "/" else left - quotient * right
        case BinaryExpr(op="<<" | ">>" as op, x=x, y=y):
            left, right = _condition_value(x), _condition_value(y)
            if not 0 <= right < 64:
                raise ValueError(op)
            return left << right if op == "<<" else left >> right
        case BinaryExpr(op=op, x=x, y=y) if op in _INFIX:
            return int(_INFIX[op](_condition_value(x), _condition_value(y)))
    raise ValueError("no integer")


_VALUED = ("-iquote", "-isystem", "-include", "-D", "-U", "-I")
_PREFIX: dict[str, Callable[[int], int]] = {
    "+": operator.pos,
    "-": operator.neg,
    "~": operator.invert,
    "!": operator.not_,
}
_INFIX: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
