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
    |(?P<name>[^\W\d]\w*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
    |(?P<bad>/\*|.)""",
    re.DOTALL | re.VERBOSE,
)


def tokenize(text: str, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """Cut text[start:end] into tokens; comments and white space are left out."""
    stop = len(text) if end is None else end
    for match in _WORDS.finditer(text, start, stop):
        kind = match.lastgroup
        assert kind is not None
        if kind != "space":
            yield Token(kind, match[0], *match.span())
