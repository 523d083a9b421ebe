"""The words of C: one regular expression cuts text into tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Token", "tokenize"]


class Token(NamedTuple):
    """A word of C text; it lies at [start, end) of the text it was cut from."""

    kind: str  # name, number, char, string, op, pragma, bad (cannot begin a word), end
    text: str
    start: int
    end: int


_WORDS = re.compile(
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
# Compilers write letters beyond ASCII so when they expand macros (C11 6.4.3).
_UNIVERSAL = re.compile(r"\\u([\da-fA-F]{4})|\\U([\da-fA-F]{8})")


def tokenize(text: str, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """Cut text[start:end] into tokens; comments and white space are left out."""
    stop = len(text) if end is None else end
    for match in _WORDS.finditer(text, start, stop):
        kind = match.lastgroup
        assert kind is not None
        if kind != "space":
            yield Token(kind, _plain(match[0]) if kind == "name" else match[0], *match.span())


def _plain(name: str) -> str:
    """A name with its universal characters as letters; one that is no letter stays as it is."""

    def letter(match: re.Match[str]) -> str:
        code = int(match[1] or match[2], 16)
        found = chr(code) if code < 0x110000 else ""
        return found if found.isidentifier() or f"_{found}".isidentifier() else match[0]

    return _UNIVERSAL.sub(letter, name) if "\\" in name else name
