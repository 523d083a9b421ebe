"""The lexer of C, and the stream of tokens that the parsers share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

__all__ = ["CToken", "Range", "SyntaxFault", "TokenStream", "tokenize"]


Range: TypeAlias = tuple[int, int]  # [start, end) of the text


class CToken(NamedTuple):
    """A token of C at [start, end) of the text."""

    kind: str  # name, number, char, string, op, pragma, bad (begins no token), end
    text: str
    start: int
    end: int


_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r\n\f\v]|\\\r?\n|//(?:[^\n\\]|\\\r?\n|\\)*|/\*.*?\*/)+)
    |(?P<pragma>\#[^\n]*)
    |(?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")
    |(?P<char>[uUL]?'(?:[^'\\\n]|\\.)+')
    |(?P<name>(?:[^\W\d]|\\[uU][\da-fA-F]{4})(?:\w|\\[uU][\da-fA-F]{4})*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
    |(?P<bad>/\*|.)""",
    re.DOTALL | re.VERBOSE,
)
# Universal character names: preprocessors write letters beyond ASCII so (C11 6.4.3).
_UNIVERSAL = re.compile(r"\\u([\da-fA-F]{4})|\\U([\da-fA-F]{8})")


def tokenize(text: str, start: int = 0, end: int | None = None) -> Iterator[CToken]:
    """The tokens of text[start:end], without comments and white space."""
    stop = len(text) if end is None else end
    for match in _TOKEN.finditer(text, start, stop):
        kind = match.lastgroup
        assert kind is not None
        if kind != "space":
            yield CToken(kind, _plain(match[0]) if kind == "name" else match[0], *match.span())


def _plain(name: str) -> str:
    """A name with its universal character names replaced by the letters that they denote."""

    def letter(match: re.Match[str]) -> str:
        code = int(match[1] or match[2], 16)
        found = chr(code) if code < 0x110000 else ""
        return found if found.isidentifier() or f"_{found}".isidentifier() else match[0]

    return _UNIVERSAL.sub(letter, name) if "\\" in name else name


_CLOSING = {"(": ")", "[": "]", "{": "}"}
_BORDER = re.compile(r"#\s*pragma\s+(?:end)?scop\b")
_UNENDED = {
    '"': "the string does not end",
    "'": "the character constant does not end",
    "/*": "the comment does not end",
}
_MOST_DEPTH = 110  # of nested brackets and statements; each takes several Python stack frames


class SyntaxFault(Exception):  # noqa: N818, not an error of ours: it becomes a Diagnostic
    """A syntax error, or syntax that is not supported; `stops` ends the parsing of the region."""

    def __init__(self, at: Range, message: str, hint: str = "", *, stops: bool = False) -> None:
        super().__init__(message)
        self.at = at
        self.message = message
        self.hint = hint
        self.stops = stops


class TokenStream:
    """A position in a list of tokens; past the last one every token is an `end` token."""

    def __init__(self, tokens: Sequence[CToken]) -> None:
        end = tokens[-1].end if tokens else 0
        self._tokens = tokens
        self._end = CToken("end", "", end, end)
        self._depth = 0
        self.position = 0

    @property
    def token(self) -> CToken:
        return self.peek(0)

    def peek(self, ahead: int) -> CToken:
        at = self.position + ahead
        return self._tokens[at] if 0 <= at < len(self._tokens) else self._end

    def advance(self) -> CToken:
        token = self.token
        self.position += 1
        return token

    def accept(self, *texts: str) -> CToken | None:
        """The next token, consumed, if it is one of the names or operators `texts`; else None."""
        token = self.token
        if token.text in texts and token.kind in ("op", "name"):
            self.position += 1
            return token
        return None

    def expect(self, text: str, after: str) -> CToken:
        found = self.accept(text)
        if found is None:
            self.check_character()
            raise self.fault(f"'{text}' is missing {after}")
        return found

    def check_character(self) -> None:
        """Refuse a character that begins no token of C."""
        token = self.token
        if token.kind == "bad":
            raise self.fault(_UNENDED.get(token.text, f"the character {token.text!r} is no C"))

    def fault(self, message: str, hint: str = "") -> SyntaxFault:
        token = self.token
        return SyntaxFault((token.start, max(token.end, token.start + 1)), message, hint)

    def skip_brackets(self) -> CToken:
        """Skip a bracket with its contents; the closing bracket is returned."""
        waiting: list[str] = []
        while True:
            # No bracket is closed beyond the pragmas of a region.
            is_border = self.token.kind == "pragma" and _BORDER.match(self.token.text)
            if self.token.kind == "end" or is_border:
                raise self.fault(f"'{waiting[-1]}' is missing")
            token = self.advance()
            if token.kind != "op":
                continue
            if token.text in _CLOSING:
                waiting.append(_CLOSING[token.text])
            elif waiting and token.text == waiting[-1]:
                waiting.pop()
                if not waiting:
                    return token
            elif token.text in (")", "]", "}"):
                raise SyntaxFault((token.start, token.end), f"'{token.text}' closes nothing")

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Count a level of nesting, and refuse a depth beyond Python's recursion limit."""
        self._depth += 1
        try:
            if self._depth > _MOST_DEPTH:
                at = (self.token.start, self.token.end)
                hint = "split it into several statements"
                raise SyntaxFault(at, "this is nested too deeply", hint, stops=True)
            yield
        finally:
            self._depth -= 1
