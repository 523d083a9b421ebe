"""The outermost level of a C file: where functions lie, and what is declared between them.

Functions without a region are stepped over as text, whatever they hold; a declaration is read only
when a region asks for its name.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from loopwright.frontends.c.cursor import Environment, Meaning, SyntaxFault
from loopwright.frontends.c.declaration_parser import DeclarationParser
from loopwright.frontends.c.syntax import Declaration, Dim
from loopwright.frontends.c.tokens import tokenize
from loopwright.frontends.c.types import Model

__all__ = ["Globals", "Item", "outline"]

_MARKS = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[{};]|^#[^\n]*', re.MULTILINE)
_REGION = re.compile(r"#\s*pragma\s+(?:scop|endscop)\b")
_LINKAGE = re.compile(r'extern\s*"[^"]*"\s*\Z')
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")


@dataclass(frozen=True, slots=True)
class Item:
    """One function or declaration at text[start:end]; its first brace, if any, is at `body`."""

    start: int
    end: int
    body: int  # the end when there is no brace
    is_function: bool
    pragmas: tuple[int, ...]  # offsets of the lines of our pragmas inside


def outline(text: str) -> tuple[tuple[Item, ...], tuple[int, ...]]:
    """The items of a file, and the offsets of our pragmas that stand outside all of them."""
    items: list[Item] = []
    stray: list[int] = []
    pragmas: list[int] = []
    start, depth, body = 0, 0, -1
    for match in _MARKS.finditer(text):
        mark, at = match[0], match.start()
        if mark[0] == "#":
            if _REGION.match(mark):
                (pragmas if depth else stray).append(at)
            elif not depth and not text[start:at].strip():
                start = match.end()
        elif mark == "{":
            if not depth and _LINKAGE.search(text, start, at):
                start = at + 1  # extern "C" { ... } holds items like any other place
                continue
            if not depth and body < 0:
                body = at
            depth += 1
        elif mark == "}":
            if not depth:
                start = at + 1
                continue
            depth -= 1
            if not depth and _is_function(text[start:body]):
                items.append(Item(start, at + 1, body, True, tuple(pragmas)))
                start, body, pragmas = at + 1, -1, []
        elif mark == ";" and not depth:
            items.append(Item(start, at + 1, body if body >= 0 else at + 1, False, tuple(pragmas)))
            start, body, pragmas = at + 1, -1, []
    if body >= 0:  # the text ends inside a block
        items.append(Item(start, len(text), body, _is_function(text[start:body]), tuple(pragmas)))
    return tuple(items), tuple(stray)


def _is_function(head: str) -> bool:
    """Whether what stands before a brace is the head of a function."""
    plain = _ATTRIBUTE.sub("", head).rstrip()
    return plain.endswith(")") and "=" not in plain


class Globals:
    """Names that are declared outside functions, found on demand."""

    def __init__(self, text: str, items: tuple[Item, ...], model: Model) -> None:
        self._text = text
        self._items = items
        self._starts = [item.start for item in items]
        self._model = model
        self._read: dict[int, list[Meaning]] = {}
        self._found: dict[str, Meaning | None] = {}

    def find(self, name: str) -> Meaning | None:
        """What the file's declarations say `name` is; of several, one that gives all extents."""
        if name in self._found:
            return self._found[name]
        self._found[name] = None  # a declaration that needs its own name finds nothing
        best: Meaning | None = None
        for match in re.finditer(rf"\b{re.escape(name)}\b", self._text):
            at = bisect_right(self._starts, match.start()) - 1
            if at < 0 or match.start() >= self._items[at].end or self._items[at].is_function:
                continue
            for meaning in self._declared(at):
                if meaning.name == name and (best is None or not _is_complete(best)):
                    best = meaning
            if best is not None and _is_complete(best):
                break
        self._found[name] = best
        return best

    def _declared(self, at: int) -> list[Meaning]:
        """The names that an item declares; none when it cannot be read."""
        if at not in self._read:
            self._read[at] = []
            item = self._items[at]
            names = _Recorder(self.find)
            tokens = [t for t in tokenize(self._text, item.start, item.end) if t.kind != "pragma"]
            parser = DeclarationParser(self._text, tokens, names, self._model)
            with suppress(SyntaxFault):  # exotic C outside the regions is no concern of ours
                parser.declaration(lambda _: "global")
            self._read[at] = names.declared
        return self._read[at]


class _Recorder(Environment):
    """Keeps what was declared, enumerators included."""

    def __init__(self, outer: Callable[[str], Meaning | None]) -> None:
        super().__init__(outer)
        self.declared: list[Meaning] = []

    def declare(self, meaning: Meaning) -> None:
        super().declare(meaning)
        self.declared.append(meaning)


def _is_complete(meaning: Meaning) -> bool:
    if not isinstance(meaning, Declaration):
        return True
    return all(d.extent is not None for d in meaning.type.derivations if isinstance(d, Dim))
