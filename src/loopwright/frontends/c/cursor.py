"""A place in a list of tokens, and the names that are declared there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from loopwright.frontends.c.syntax import Declaration, Enumerator, Range, Typedef
from loopwright.frontends.c.tokens import Token

__all__ = ["Cursor", "Environment", "Meaning", "SyntaxFault"]

Meaning: TypeAlias = Declaration | Enumerator | Typedef
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_BORDER = re.compile(r"#\s*pragma\s+(?:end)?scop\b")
_UNENDED = {
    '"': "the string does not end",
    "'": "the character constant does not end",
    "/*": "the comment does not end",
}
_MOST_DEPTH = 110  # nested brackets and statements; each takes some frames of Python's own stack


class SyntaxFault(Exception):  # noqa: N818, not an error of ours: it becomes a Diagnostic
    """Text that is not C, or not the C that is read here; some text is not worth going on with."""

    def __init__(self, at: Range, message: str, hint: str = "", *, stops: bool = False) -> None:
        super().__init__(message)
        self.at = at
        self.message = message
        self.hint = hint
        self.stops = stops


class Environment:
    """Names by block, innermost last; what no block declares is asked of `outer`."""

    def __init__(self, outer: Callable[[str], Meaning | None]) -> None:
        self._outer = outer
        self._blocks: list[dict[str, Meaning]] = [{}]

    @property
    def depth(self) -> int:
        return len(self._blocks)

    def find(self, name: str) -> Meaning | None:
        for block in reversed(self._blocks):
            if name in block:
                return block[name]
        return self._outer(name)

    def own(self) -> frozenset[str]:
        """The names that the open blocks declare."""
        return frozenset(name for block in self._blocks for name in block)

    def declare(self, meaning: Meaning) -> None:
        self._blocks[-1][meaning.name] = meaning

    def open(self) -> None:
        self._blocks.append({})

    def close(self) -> None:
        if len(self._blocks) > 1:  # a brace too many is told elsewhere
            self._blocks.pop()

    @contextmanager
    def block(self) -> Iterator[None]:
        depth = len(self._blocks)
        self.open()
        try:
            yield
        finally:
            del self._blocks[depth:]


class Cursor:
    """Steps through tokens; past the last one there is an `end` token for ever."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        end = tokens[-1].end if tokens else 0
        self._tokens = tokens
        self._end = Token("end", "", end, end)
        self._depth = 0
        self.place = 0

    @property
    def token(self) -> Token:
        return self.peek(0)

    def peek(self, ahead: int) -> Token:
        at = self.place + ahead
        return self._tokens[at] if 0 <= at < len(self._tokens) else self._end

    def advance(self) -> Token:
        token = self.token
        self.place += 1
        return token

    def accept(self, *texts: str) -> Token | None:
        """The next token if it is one of the words or operators `texts`."""
        token = self.token
        if token.text in texts and token.kind in ("op", "name"):
            self.place += 1
            return token
        return None

    def expect(self, text: str, after: str) -> Token:
        found = self.accept(text)
        if found is None:
            self.check_character()
            raise self.fault(f"'{text}' is missing {after}")
        return found

    def check_character(self) -> None:
        """Refuse a character that begins no word of C."""
        token = self.token
        if token.kind == "bad":
            raise self.fault(_UNENDED.get(token.text, f"the character {token.text!r} is no C"))

    def fault(self, message: str, hint: str = "") -> SyntaxFault:
        token = self.token
        return SyntaxFault((token.start, max(token.end, token.start + 1)), message, hint)

    def skip_brackets(self) -> Token:
        """Step over a bracket, all it holds and its partner, which is returned."""
        waiting: list[str] = []
        while True:
            # No bracket reaches over the borders of a region.
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
        """Inside brackets or a statement: refuses a depth that Python cannot follow."""
        self._depth += 1
        try:
            if self._depth > _MOST_DEPTH:
                at = (self.token.start, self.token.end)
                hint = "split it into several statements"
                raise SyntaxFault(at, "this is nested too deeply", hint, stops=True)
            yield
        finally:
            self._depth -= 1
