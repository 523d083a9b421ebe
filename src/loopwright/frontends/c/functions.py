"""Functions that the file defines, read when a region calls them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from loopwright.frontends.c.cursor import Environment, SyntaxFault
from loopwright.frontends.c.declaration_parser import FunctionHead
from loopwright.frontends.c.outline import Globals, Item
from loopwright.frontends.c.statement_parser import StatementParser
from loopwright.frontends.c.syntax import BlockStmt
from loopwright.frontends.c.tokens import Token, tokenize
from loopwright.frontends.c.types import Model

__all__ = ["DefinedFunction", "Functions"]

_MOST_TEXT = 64 << 10  # characters of a function whose calls are inlined


@dataclass(frozen=True, slots=True)
class DefinedFunction:
    """A function with its body."""

    head: FunctionHead
    body: BlockStmt


class Functions:
    """The functions of one file by name; each is parsed once."""

    def __init__(self, text: str, items: tuple[Item, ...], names: Globals, model: Model) -> None:
        self._text = text
        self._names = names
        self._model = model
        self._items = {_name(text, item): item for item in items if item.is_function}
        self._parsed: dict[str, DefinedFunction | SyntaxFault] = {}

    def defines(self, name: str) -> bool:
        """Whether the file has a function of that name with its body."""
        return name in self._items

    def find(self, name: str) -> DefinedFunction | SyntaxFault:
        """A function that the file defines, or why its text cannot be read."""
        if name not in self._parsed:
            self._parsed[name] = self._parse(self._items[name])
        return self._parsed[name]

    def identifiers(self, called: frozenset[str]) -> frozenset[str]:
        """`called` and all names in the functions that these names reach."""
        found: set[str] = set(called)
        waiting = [name for name in called if name in self._items]
        done: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in done:
                continue
            done.add(name)
            names = {token.text for token in self._tokens(self._items[name])}
            found |= names
            waiting += (name for name in names if name in self._items)
        return frozenset(found)

    def _tokens(self, item: Item) -> list[Token]:
        if item.end - item.start > _MOST_TEXT:
            return []
        return [t for t in tokenize(self._text, item.start, item.end) if t.kind != "pragma"]

    def _parse(self, item: Item) -> DefinedFunction | SyntaxFault:
        tokens = self._tokens(item)
        if not tokens:
            return SyntaxFault((item.start, item.body), f"it has more than {_MOST_TEXT >> 10} KiB")
        faults: list[SyntaxFault] = []
        names = Environment(self._names.find)
        parser = StatementParser(self._text, tokens, names, self._model, faults.append)
        try:
            head = parser.function_head()
            while parser.token.start < item.body and parser.token.kind != "end":
                parser.advance()  # attributes
            body = parser.function_body()
        except SyntaxFault as fault:
            return fault
        return faults[0] if faults else DefinedFunction(head, body)


def _name(text: str, item: Item) -> str:
    """The last name before parentheses in the head of a function, attributes aside."""
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", text[item.start : item.body], flags=re.S)
    depth = 0
    for match in reversed(list(re.finditer(r"[()]", head))):
        depth += 1 if match[0] == ")" else -1
        if depth == 0:
            before = re.search(r"(\w+)\s*\)?\s*\Z", head[: match.start()])
            return before[1] if before else ""
    return ""
