"""The C file as bytes, its preprocessed text, and the way back from that to the file.

Errors are found in preprocessed text and reported at spans of the file the user wrote.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from difflib import SequenceMatcher
from pathlib import Path

from loopwright.diagnostics import Diagnostic, SourceError, Span, UsageError
from loopwright.frontends.c.lexer import CToken, Range, tokenize
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "MAIN",
    "PragmaLine",
    "PreprocessedText",
    "SourceMap",
    "SourceText",
    "read_text",
    "split_lines",
]

MAIN = "<region source>"  # the main file's name in line markers, which is no file name
_MOST_BYTES = 32 << 20
_BOM = b"\xef\xbb\xbf"
# The preprocessor's output tells whether a pragma is active or inside a comment. The rest of its
# line may hold comments, also one that ends on a later line, and line continuations.
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

    name: str  # as shown in messages
    folder: str  # searched first by `#include "..."`
    raw: bytes
    encoding: str
    lines: tuple[str, ...]  # without line ends
    pragmas: tuple[PragmaLine, ...]  # also those in comments or left out by #if
    plain: bytes  # `raw` for the preprocessor: without byte order mark and #line

    def span(self, line: int, column: int = 1, end_column: int | None = None) -> Span:
        """The span of a range of one line, or of the whole line without its margin."""
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
        return "latin-1"  # accepts any byte, one character each
    return "utf-8"


def _scan(raw: bytes) -> tuple[tuple[PragmaLine, ...], bytes]:
    """The pragma lines, and the bytes with `#line` blanked, which would renumber lines."""
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


# -- preprocessed text -----------------------------------------------------------------------


_MARKER = re.compile(r'#(?:line)? *(\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)\s*')


@dataclass(frozen=True, slots=True)
class PreprocessedText:
    """The preprocessed text of the user's files, with the file and line number of each line."""

    text: str
    starts: tuple[int, ...]  # offset of each line in `text`
    origins: tuple[tuple[str, int], ...]  # file and line number of each line

    def row(self, offset: int) -> int:
        """The number (from 0) of the line that holds `offset`."""
        return max(bisect_right(self.starts, offset) - 1, 0)

    def line_text(self, row: int) -> str:
        end = self.starts[row + 1] - 1 if row + 1 < len(self.starts) else len(self.text)
        return self.text[self.starts[row] : end]


def split_lines(preprocessed: str) -> PreprocessedText:
    """The preprocessed text without system headers, located by its line markers.

    A header is a system header if it was *entered* as one: compilers also set that flag on lines of
    the user's file that use macros of system headers.
    """
    system: set[str] = set()
    kept: list[str] = []
    origins: list[tuple[str, int]] = []
    file, number, is_ours = "", 1, False
    for line in preprocessed.split("\n"):
        if line.startswith("#"):
            match = _MARKER.fullmatch(line)
            if match is not None:
                file, number = _unescaped(match[2]), int(match[1])
                flags = match[3].split()
                if "1" in flags and "3" in flags:
                    system.add(file)
                is_ours = file not in system and file not in ("<built-in>", "<command-line>")
                continue
        if is_ours and line and not line.isspace():
            kept.append(line)
            origins.append((file, number))
        number += 1
    starts: list[int] = []
    at = 0
    for line in kept:
        starts.append(at)
        at += len(line) + 1
    return PreprocessedText("\n".join(kept), tuple(starts), tuple(origins))


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


# -- from preprocessed text back to the file -------------------------------------------------


_MOST_LINES = 12  # source lines of one preprocessed line: a macro call may span several
_MOST_TOKENS = 1500  # of a line that is aligned token by token


class SourceMap:
    """Maps ranges of preprocessed text to spans of the user's file.

    Lines are exact, from the line markers. Within a line the tokens before and after macro
    expansion are aligned: a token the user wrote maps to itself, one from a macro to the macro's
    use.
    """

    def __init__(self, source: SourceText, lines: PreprocessedText) -> None:
        self._source = source
        self._lines = lines
        self._aligned: dict[int, list[tuple[CToken, Span]]] = {}

    def span(self, at: Range) -> Span:
        """The span of text[at[0]:at[1]]."""
        first, last = self._word(at[0]), self._word(max(at[1] - 1, at[0]))
        if first.file != last.file or (last.line, last.end_column) < (first.line, first.column):
            last = first
        return Span(
            first.file, first.line, first.column, last.end_line, last.end_column, first.text
        )

    def origin(self, offset: int) -> tuple[str, int]:
        """The file (MAIN for the main file) and line number of an offset."""
        return self._lines.origins[self._lines.row(offset)]

    def _word(self, offset: int) -> Span:
        row = self._lines.row(offset)
        if not self._lines.origins:
            return self._source.span(1)
        file, number = self._lines.origins[row]
        if file != MAIN:
            column = offset - self._lines.starts[row] + 1
            return Span(file, number, column, number, column + 1, self._lines.line_text(row))
        if row not in self._aligned:
            self._aligned[row] = self._align(row, number)
        spans = [span for token, span in self._aligned[row] if token.start <= offset < token.end]
        return spans[0] if spans else self._source.span(number)

    def _align(self, row: int, number: int) -> list[tuple[CToken, Span]]:
        """The tokens of a preprocessed line with their spans in the source."""
        start = self._lines.starts[row]
        after = list(tokenize(self._lines.text, start, start + len(self._lines.line_text(row))))
        before = self._written(row, number) if len(after) <= _MOST_TOKENS else []
        if len(before) > _MOST_TOKENS or not before:
            whole = self._source.span(number)
            return [(token, whole) for token in after]
        matcher = SequenceMatcher(
            None, [text for text, _ in before], [token.text for token in after], autojunk=False
        )
        found: list[tuple[CToken, Span]] = []
        for tag, i, j, first, last in matcher.get_opcodes():
            if tag == "equal":
                found += [(after[k], before[i + k - first][1]) for k in range(first, last)]
            else:
                # Tokens from a macro get the span of the tokens they replaced.
                used = before[i:j] or before[max(i - 1, 0) : i] or before[:1]
                span = _joined_span(used[0][1], used[-1][1])
                found += [(after[k], span) for k in range(first, last)]
        return found

    def _written(self, row: int, number: int) -> list[tuple[str, Span]]:
        """The source tokens that a preprocessed line was made from, with their spans."""
        origins = self._lines.origins
        is_last = row + 1 >= len(origins) or origins[row + 1][0] != MAIN
        following = number + 1 if is_last else max(origins[row + 1][1], number + 1)
        stop = min(following, number + _MOST_LINES, len(self._source.lines) + 1)
        words: list[tuple[str, Span]] = []
        for line in range(number, stop):
            text = self._source.lines[line - 1]
            for token in tokenize(text):
                if token.kind not in ("pragma", "bad") or line == number:
                    span = self._source.span(line, token.start + 1, token.end + 1)
                    words.append((token.text, span))
        return words


def _joined_span(first: Span, last: Span) -> Span:
    end_line, end = (last.line, last.end_column) if last.line == first.line else (first.line, 0)
    end = end or max(len(first.text.rstrip()) + 1, first.column + 1)
    return Span(first.file, first.line, first.column, end_line, end, first.text)
