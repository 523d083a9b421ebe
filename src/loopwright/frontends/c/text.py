"""The bytes of a C file: their encoding, and the lines of our two pragmas among them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from loopwright.diagnostics import Diagnostic, SourceError, Span, UsageError

__all__ = ["PragmaLine", "SourceText", "read_text"]

_MOST_BYTES = 32 << 20
_BOM = b"\xef\xbb\xbf"
# Whether a line counts or stands inside a comment is told by the preprocessor's output. The rest of
# a pragma's line may hold comments, also one that ends on a later line, and continued lines.
_DIRECTIVE = re.compile(
    rb"""^[ \t]*\#[ \t]*(?:
        pragma[ \t]+(?P<word>scop|endscop)\b(?:/\*.*?(?:\*/|\Z)|//[^\n]*|\\\r?\n|[^\n])*
        |(?:line\b|[0-9])[^\n]*)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class PragmaLine:
    """A line `#pragma scop` or `#pragma endscop`; bytes [start, end) hold it with its line end."""

    word: str  # "scop" or "endscop"
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SourceText:
    """A C file as the user wrote it."""

    name: str  # as messages spell it
    folder: str  # where `#include "..."` begins to look
    raw: bytes
    encoding: str
    lines: tuple[str, ...]  # without line ends
    pragmas: tuple[PragmaLine, ...]  # also those in comments or left out by #if
    plain: bytes  # `raw` as preprocessors want it: no byte order mark, no #line

    def span(self, line: int, column: int = 1, end_column: int | None = None) -> Span:
        """A range of one line; without columns all of it."""
        text = self.lines[line - 1] if 1 <= line <= len(self.lines) else ""
        if end_column is None:
            margin = len(text) - len(text.lstrip())
            column, end_column = max(column, margin + 1), max(len(text.rstrip()) + 1, margin + 2)
        return Span(self.name, line, column, line, end_column, text)


def read_text(source: str | bytes | os.PathLike[str], filename: str | None) -> SourceText:
    """Read a file, or take the text given; see `read_c`."""
    if isinstance(source, str) and "\n" not in source:
        source = Path(source)
    if isinstance(source, str | bytes):
        name = filename or "<c>"
        folder = os.path.dirname(filename) if filename else ""
        raw = source.encode("utf-8", "surrogateescape") if isinstance(source, str) else source
    else:
        name = filename or os.fspath(source)
        folder = os.path.dirname(os.fspath(source))
        raw = _bytes_of(source)
    _refuse_oddities(name, raw)
    encoding = _encoding(raw)
    begin = len(_BOM) if raw.startswith(_BOM) else 0
    text = raw[begin:].decode(encoding)
    lines = tuple(line.rstrip("\r") for line in text.split("\n"))
    pragmas, plain = _scan(raw)
    return SourceText(name, folder or ".", raw, encoding, lines, pragmas, plain[begin:])


def _bytes_of(path: os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        hint = "give the path of a C file, or its text (several lines)"
        raise UsageError(f"cannot read '{os.fspath(path)}': {reason}", hint=hint) from None


def _refuse_oddities(name: str, raw: bytes) -> None:
    if len(raw) > _MOST_BYTES:
        message = f"the file is larger than {_MOST_BYTES >> 20} MiB"
        hint = "put the functions with regions in a file of their own"
        raise SourceError(Diagnostic(Span(name, 1, 1, 1, 2), message, "LW130", hint=hint))
    at = raw.find(b"\0")
    if at >= 0:
        line = raw.count(b"\n", 0, at) + 1
        span = Span(
            name, line, at - raw.rfind(b"\n", 0, at), line, at - raw.rfind(b"\n", 0, at) + 1
        )
        message, hint = "a zero byte is no C", "give a text file"
        raise SourceError(Diagnostic(span, message, "LW130", hint=hint))


def _encoding(raw: bytes) -> str:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"  # any byte has a meaning there, and one byte is one character
    return "utf-8"


def _scan(raw: bytes) -> tuple[tuple[PragmaLine, ...], bytes]:
    """The pragma lines, and the bytes with `#line` directives blanked: lines are ours."""
    pragmas: list[PragmaLine] = []
    plain: bytearray | None = None
    line, counted = 1, 0
    for match in _DIRECTIVE.finditer(raw):
        start, end = match.span()
        if match["word"]:
            line, counted = line + raw.count(b"\n", counted, start), start
            past = end + 1 if raw[end : end + 1] == b"\n" else end
            pragmas.append(PragmaLine(match["word"].decode(), line, start, past))
        else:
            plain = plain or bytearray(raw)
            plain[start:end] = b" " * (end - start)
    return tuple(pragmas), raw if plain is None else bytes(plain)
