"""The words of the syntax of sets and relations, and faults shown under the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from loopwright.diagnostics import UsageError

__all__ = ["KEYWORDS", "Token", "Tokens"]

KEYWORDS = frozenset(
    {"and", "ceil", "exists", "false", "floor", "forall", "mod", "or", "true", "union"}
)
_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_']*)|(?P<number>\d+)"
    r"|(?P<mark>->|=>|&&|\|\||<=|>=|==|!=|[-+*/%=<>()\[\]{},:])|(?P<wrong>\S)|$)"
)
_SPELLED = {"&&": "and", "||": "or", "==": "=", "%": "mod"}


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a text; `kind` is name, number, end, or the mark or keyword itself."""

    kind: str
    text: str
    start: int
    end: int


class Tokens:
    """A text read word by word."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._all = tuple(self._read())

    def _read(self) -> list[Token]:
        found: list[Token] = []
        place = 0
        while match := _TOKEN.match(self.text, place):
            kind = match.lastgroup
            if kind is None:
                break
            word, (start, place) = match[kind], match.span(kind)
            if kind == "wrong":
                self.fail(
                    Token(kind, word, start, place),
                    "a character that has no meaning here",
                    "write names, numbers, + - * ( ) [ ] { } , : and comparisons",
                )
            if kind == "mark" or word in KEYWORDS:
                kind = _SPELLED.get(word, word)
            found.append(Token(kind, word, start, place))
        found.append(Token("end", "", len(self.text.rstrip()), len(self.text.rstrip())))
        return found

    @property
    def next(self) -> Token:
        return self._all[self.at]

    def ahead(self, count: int) -> Token:
        return self._all[min(self.at + count, len(self._all) - 1)]

    def take(self, *kinds: str) -> Token | None:
        """The next word if it is of one of these kinds."""
        token = self.next
        if token.kind not in kinds:
            return None
        self.at += 1
        return token

    def expect(self, kind: str, what: str) -> Token:
        """The next word, which must be of this kind."""
        return self.take(kind) or self.fail(self.next, f"expected {what}")

    def fail(self, token: Token, message: str, hint: str = "") -> NoReturn:
        """Refuse the text, with carets under a word."""
        before = self.text[: token.start]
        line = self.text.split("\n")[before.count("\n")]
        column = len(before) - (before.rfind("\n") + 1)
        carets = " " * column + "^" * max(1, token.end - token.start)
        found = f"'{token.text}'" if token.text else "the end of the text"
        raise UsageError(f"{message}\n    {line}\n    {carets}", found, hint)
