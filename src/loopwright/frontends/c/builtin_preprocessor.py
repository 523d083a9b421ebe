"""A small preprocessor: #include, #define, #if, for machines without a C compiler.

System headers that are not found are left out; the constants of a few of them are known here.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from loopwright.diagnostics import Diagnostic, SourceError, Span
from loopwright.frontends.c.arithmetic_types import DataModel
from loopwright.frontends.c.declaration_parser import DeclarationParser
from loopwright.frontends.c.lexer import SyntaxFault, tokenize
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

__all__ = ["Macro", "MacroFault", "MacroToken", "Macros", "expand", "macro_text", "macro_tokens"]

_MOST_DEPTH = 40  # headers inside headers; fifty times as many in all
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
    """Something that stops preprocessing."""


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
        conditions: list[tuple[bool, bool]] = []  # whether this part counts, whether one has
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
        """Follow #if and its kin; False for any other directive."""
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
    """Lines with their numbers, last first: continued ones joined, comments a space each."""
    lines: list[tuple[int, str]] = []
    number = start = 1
    parts: list[str] = []
    at = 0
    # A continued line counts as lines further down: its text goes on, its number stays.
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
    """A line with every `_Pragma("...")` in it made a line of its own."""
    pieces = _OPERATOR.split(text)
    yield pieces[0]
    for pragma, rest in zip(pieces[1::2], pieces[2::2], strict=True):
        yield marker
        yield "#pragma " + re.sub(r"\\(.)", r"\1", pragma)
        yield marker
        yield rest


def _next_line(lines: list[tuple[int, str]]) -> list[MacroToken] | None:
    """The words of the next line, for a call of a macro that goes on there."""
    if not lines or lines[-1][1].lstrip().startswith("#"):
        return None
    return macro_tokens("\n" + lines.pop()[1])


def _options(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their values, joined to them or following."""
    waiting = iter(args)
    for arg in waiting:
        option = next((o for o in _VALUED if arg.startswith(o)), None)
        if option is not None:
            yield option, arg[len(option) :] or next(waiting, "")


def _folders(args: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Folders for quoted names only, folders for all, files to include first."""
    given = list(_options(args))
    quoted = [os.fspath(value) for option, value in given if option == "-iquote"]
    angled = [value for option, value in given if option in ("-I", "-isystem")]
    return quoted, angled, [value for option, value in given if option == "-include"]


def _condition_value(expr: SyntaxExpr) -> int:
    """The value of a condition of #if; raises ValueError for what has none."""
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


# -- macro expansion (C11 6.10.3) ------------------------------------------------------------


_MOST_WORDS = 200_000  # made by macros of one file: some double their text at every level
_MOST_CALLS = 60  # calls of macros inside the arguments of others

_MACRO_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f\v]+)|(?P<name>[^\W\d]\w*)|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|[uUL]?'(?:[^'\\\n]|\\.)+')
    |(?P<op>\#\#|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.DOTALL | re.VERBOSE,
)


class MacroFault(Exception):  # noqa: N818, not an error of ours: it becomes a Diagnostic
    """A macro that cannot be expanded."""


class MacroToken(NamedTuple):
    """A token before and during expansion."""

    kind: str
    text: str
    is_apart: bool = False  # white space stands before it
    hidden: frozenset[str] = frozenset()  # macros that made it and do not expand again in it


@dataclass(frozen=True, slots=True)
class Macro:
    """`#define name body` or `#define name(params) body`."""

    name: str
    params: tuple[str, ...] | None
    body: tuple[MacroToken, ...]
    is_variadic: bool = False


def macro_tokens(text: str) -> list[MacroToken]:
    """Cut text without comments into words."""
    found: list[MacroToken] = []
    is_apart = False
    for match in _MACRO_TOKEN.finditer(text):
        kind = match.lastgroup or "op"
        if kind != "space":
            found.append(MacroToken(kind, match[0], is_apart))
        is_apart = kind == "space"
    return found


def macro_text(tokens: Sequence[MacroToken]) -> str:
    """The text of words, apart where they were or where they would run together."""
    parts: list[str] = []
    last = ""
    for word in tokens:
        if last and (word.is_apart or _runs_together(last, word.text)):
            parts.append(" ")
        parts.append(word.text)
        last = word.text
    return "".join(parts)


def _runs_together(x: str, y: str) -> bool:
    def is_word(character: str) -> bool:
        return character.isalnum() or character in "_.\"'"

    if is_word(x[-1]) or is_word(y[0]):
        return is_word(x[-1]) and is_word(y[0])
    return x[-1] not in "()[]{};,?~" and y[0] not in "()[]{};,?~"


class Macros:
    """The macros defined at a place of the text."""

    def __init__(self) -> None:
        self._defined: dict[str, Macro] = {}
        self._spent = 0

    def define(self, text: str) -> None:
        """What stands after `#define`, or NAME and a body."""
        match = re.match(r"\s*([^\W\d]\w*)(\(([^)]*)\))?", text)
        if match is None:
            raise MacroFault("a name is missing after #define")
        body = tuple(macro_tokens(text[match.end() :]))
        params, is_variadic = None, False
        if match[2] is not None:
            names = [part.strip() for part in match[3].split(",")] if match[3].strip() else []
            is_variadic = bool(names) and names[-1].endswith("...")
            if is_variadic:
                names[-1] = names[-1].removesuffix("...").strip() or "__VA_ARGS__"
            params = tuple(names)
        self._defined[match[1]] = Macro(match[1], params, body, is_variadic)

    def undefine(self, name: str) -> None:
        self._defined.pop(name, None)

    def __contains__(self, name: str) -> bool:
        return name in self._defined

    def expand(
        self,
        tokens: Sequence[MacroToken],
        more: Callable[[], Sequence[MacroToken] | None] = lambda: None,
        depth: int = 0,
    ) -> list[MacroToken]:
        """Replace every macro; `more` gives the words of the next line to calls that need them."""
        if depth > _MOST_CALLS:
            raise MacroFault("calls of macros are nested too deeply")
        done: list[MacroToken] = []
        waiting = list(reversed(tokens))
        while waiting:
            word = waiting.pop()
            macro = self._defined.get(word.text) if word.kind == "name" else None
            if macro is None or word.text in word.hidden:
                done.append(word)
                continue
            args: list[list[MacroToken]] = []
            if macro.params is not None:
                found = self._arguments(waiting, more, macro)
                if found is None:
                    done.append(word)
                    continue
                args = found
            made = self._substitute(macro, args, depth)
            self._spent += len(made) + 1
            if self._spent > _MOST_WORDS:
                raise MacroFault(f"macros of the file make more than {_MOST_WORDS} words")
            hidden = word.hidden | {macro.name}
            new = [w._replace(hidden=w.hidden | hidden) for w in made]
            if new:
                new[0] = new[0]._replace(is_apart=word.is_apart)
            waiting += reversed(new)
        return done

    def _arguments(
        self,
        waiting: list[MacroToken],
        more: Callable[[], Sequence[MacroToken] | None],
        macro: Macro,
    ) -> list[list[MacroToken]] | None:
        """The arguments of a call, taken off `waiting`; None when no call stands there."""
        while not waiting:
            line = more()
            if line is None:
                return None
            waiting += reversed(line)
        if waiting[-1].text != "(":
            return None
        waiting.pop()
        args: list[list[MacroToken]] = [[]]
        depth = 0
        params = macro.params or ()
        while True:
            while not waiting:
                line = more()
                if line is None:
                    raise MacroFault(f"')' is missing in the call of the macro '{macro.name}'")
                waiting += reversed(line)
            word = waiting.pop()
            if word.text == ")" and depth == 0:
                break
            depth += (word.text in "([{") - (word.text in ")]}")
            is_rest = macro.is_variadic and len(args) == len(params)
            if word.text == "," and depth == 0 and not is_rest:
                args.append([])
            else:
                args[-1].append(word)
        if not params and args == [[]]:
            args = []
        if macro.is_variadic and len(args) == len(params) - 1:
            args.append([])
        if len(args) != len(params):
            message = (
                f"the macro '{macro.name}' takes {len(params)} arguments, {len(args)} are given"
            )
            raise MacroFault(message)
        return args

    def _substitute(
        self, macro: Macro, args: list[list[MacroToken]], depth: int
    ) -> list[MacroToken]:
        """The body of a macro with its arguments put in, # and ## done."""
        raw = dict(zip(macro.params or (), args, strict=True))
        expanded: dict[str, list[MacroToken]] = {}
        made: list[MacroToken] = []
        body = macro.body
        at = 0
        is_pasting = False
        while at < len(body):
            word = body[at]
            if word.text == "##" and at > 0:
                is_pasting = True
                at += 1
                continue
            follows = body[at + 1].text if at + 1 < len(body) else ""
            if word.text == "#" and macro.params is not None and follows in raw:
                piece = [_stringified(raw[follows])]
                at += 1
            elif word.text in raw and word.kind == "name":
                if is_pasting or follows == "##":
                    piece = raw[word.text]
                else:
                    if word.text not in expanded:
                        expanded[word.text] = self.expand(raw[word.text], depth=depth + 1)
                    piece = expanded[word.text]
                piece = [piece[0]._replace(is_apart=word.is_apart), *piece[1:]] if piece else []
            else:
                piece = [word]
            if is_pasting and made and piece:
                glued = macro_tokens(made.pop().text + piece[0].text)
                piece = [*glued, *piece[1:]]
            made += piece
            is_pasting = False
            at += 1
        return made


def _stringified(arg: Sequence[MacroToken]) -> MacroToken:
    escaped = [
        w._replace(text=re.sub(r'(["\\])', r"\\\1", w.text)) if w.kind == "string" else w
        for w in arg
    ]
    return MacroToken("string", f'"{macro_text(escaped)}"')
