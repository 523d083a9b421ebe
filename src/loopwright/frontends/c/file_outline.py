"""The top level of a C file: where its functions are, and what is declared between them.

Functions without a region are skipped as text, so that they may hold any C; a declaration is parsed
only when a region uses its name.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from contextlib import suppress

from loopwright.diagnostics import Collector
from loopwright.frontends.c.arithmetic_types import DataModel
from loopwright.frontends.c.declaration_parser import DeclarationParser, FunctionHead
from loopwright.frontends.c.lexer import CToken, SyntaxFault, tokenize
from loopwright.frontends.c.source_map import SourceMap, SourceText
from loopwright.frontends.c.statement_parser import StatementParser
from loopwright.frontends.c.syntax_tree import ArrayDim, BlockStmt, Declaration, Symbol, SymbolTable
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "DefinedFunction",
    "FunctionTable",
    "GlobalSymbols",
    "TopLevelItem",
    "TranslationUnit",
    "outline",
]

_MARKS = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[{};]|^#[^\n]*', re.MULTILINE)
_REGION = re.compile(r"#\s*pragma\s+(?:scop|endscop)\b")
_LINKAGE = re.compile(r'extern\s*"[^"]*"\s*\Z')
_OLD_HEAD = re.compile(r"\w\s*\(\s*\w+(?:\s*,\s*\w+)*\s*\)\s*[A-Za-z_]\w*[\s*][^()=]*;")
_MOST_DECLARED = 64  # declarations of parameters behind the parentheses
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")


@dataclass(frozen=True, slots=True)
class TopLevelItem:
    """One function or declaration at text[start:end]; its first brace, if any, is at `body`."""

    start: int
    end: int
    body: int  # the end when there is no brace
    is_function: bool
    pragmas: tuple[int, ...]  # offsets of its lines `#pragma scop` and `#pragma endscop`
    is_old: bool = False  # a function that declares its parameters behind the parentheses


def outline(text: str) -> tuple[tuple[TopLevelItem, ...], tuple[int, ...]]:
    """The items of a file, and the offsets of scop pragmas outside all of them."""
    items: list[TopLevelItem] = []
    stray: list[int] = []
    pragmas: list[int] = []
    start, depth, body = 0, 0, -1
    is_old = False
    for match in _MARKS.finditer(text):
        mark, at = match[0], match.start()
        if mark[0] == "#":
            if _REGION.match(mark):
                (pragmas if depth else stray).append(at)
            elif not depth and not text[start:at].strip():
                start = match.end()
        elif mark == "{":
            if not depth and _LINKAGE.search(text, start, at):
                start = at + 1  # extern "C" { ... } contains top-level items
                continue
            if not depth and body < 0:
                body = at
                if not text[start:at].strip() and (first := _old_head(text, items)) is not None:
                    start, is_old = items[first].start, True
                    del items[first:]
            depth += 1
        elif mark == "}":
            if not depth:
                start = at + 1
                continue
            depth -= 1
            if not depth and (is_old or _is_function_head(text[start:body])):
                items.append(TopLevelItem(start, at + 1, body, True, tuple(pragmas), is_old))
                start, body, pragmas, is_old = at + 1, -1, [], False
        elif mark == ";" and not depth:
            items.append(
                TopLevelItem(start, at + 1, body if body >= 0 else at + 1, False, tuple(pragmas))
            )
            start, body, pragmas = at + 1, -1, []
    if body >= 0:  # the text ends inside a block
        is_function = is_old or _is_function_head(text[start:body])
        items.append(TopLevelItem(start, len(text), body, is_function, tuple(pragmas), is_old))
    return tuple(items), tuple(stray)


def _old_head(text: str, items: list[TopLevelItem]) -> int | None:
    """Of declarations before a block, the first one if it is the head of an old-style function.

    `int f(n, a) int n; double a[];` are two, of which the first holds the head.
    """
    for at in reversed(range(max(0, len(items) - _MOST_DECLARED), len(items))):
        item = items[at]
        if item.is_function or item.body < item.end:
            break
        if _OLD_HEAD.search(text, item.start, item.end):
            return at
    return None


def _is_function_head(head: str) -> bool:
    """Whether the text before a brace is the head of a function."""
    plain = _ATTRIBUTE.sub("", head).rstrip()
    return plain.endswith(")") and "=" not in plain


class GlobalSymbols:
    """The symbols declared at file scope, parsed on demand."""

    def __init__(self, text: str, items: tuple[TopLevelItem, ...], model: DataModel) -> None:
        self._text = text
        self._items = items
        self._starts = [item.start for item in items]
        self._model = model
        self._read: dict[int, list[Symbol]] = {}
        self._found: dict[str, Symbol | None] = {}

    def find(self, name: str) -> Symbol | None:
        """The symbol of a name; of several declarations, one with all extents if there is one."""
        if name in self._found:
            return self._found[name]
        self._found[name] = None  # a declaration that refers to itself finds nothing
        best: Symbol | None = None
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

    def _declared(self, at: int) -> list[Symbol]:
        """The symbols that an item declares; none when it cannot be parsed."""
        if at not in self._read:
            self._read[at] = []
            item = self._items[at]
            symbols = SymbolTable(self.find)
            tokens = [t for t in tokenize(self._text, item.start, item.end) if t.kind != "pragma"]
            parser = DeclarationParser(self._text, tokens, symbols, self._model)
            with suppress(SyntaxFault):  # outside the regions any C is allowed
                parser.declaration(lambda _: "global")
            self._read[at] = symbols.declared
        return self._read[at]


def _is_complete(meaning: Symbol) -> bool:
    if not isinstance(meaning, Declaration):
        return True
    return all(d.extent is not None for d in meaning.type.derivations if isinstance(d, ArrayDim))


# -- functions that the file defines ---------------------------------------------------------


_MOST_TEXT = 64 << 10  # characters of a function whose calls are inlined


@dataclass(frozen=True, slots=True)
class DefinedFunction:
    """A function with its body."""

    head: FunctionHead
    body: BlockStmt


class FunctionTable:
    """The functions of one file by name; each is parsed once."""

    def __init__(
        self, text: str, items: tuple[TopLevelItem, ...], symbols: GlobalSymbols, model: DataModel
    ) -> None:
        self._text = text
        self._globals = symbols
        self._model = model
        self._items = {_function_name(text, item): item for item in items if item.is_function}
        self._parsed: dict[str, DefinedFunction | SyntaxFault] = {}

    def defines(self, name: str) -> bool:
        """Whether the file has a function of that name with its body."""
        return name in self._items

    def find(self, name: str) -> DefinedFunction | SyntaxFault:
        """A function that the file defines, or why its text cannot be parsed."""
        if name not in self._parsed:
            self._parsed[name] = self._parse(self._items[name])
        return self._parsed[name]

    def identifiers(self, called: frozenset[str]) -> frozenset[str]:
        """`called` and all identifiers of the functions that they call, transitively."""
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

    def _tokens(self, item: TopLevelItem) -> list[CToken]:
        if item.end - item.start > _MOST_TEXT:
            return []
        return [t for t in tokenize(self._text, item.start, item.end) if t.kind != "pragma"]

    def _parse(self, item: TopLevelItem) -> DefinedFunction | SyntaxFault:
        tokens = self._tokens(item)
        if not tokens:
            return SyntaxFault((item.start, item.body), f"it has more than {_MOST_TEXT >> 10} KiB")
        faults: list[SyntaxFault] = []
        symbols = SymbolTable(self._globals.find)
        declarations = DeclarationParser(self._text, tokens, symbols, self._model)
        try:
            head = declarations.function_head(item.body)
            body = StatementParser(declarations, faults.append).function_body()
        except SyntaxFault as fault:
            return fault
        return faults[0] if faults else DefinedFunction(head, body)


def _function_name(text: str, item: TopLevelItem) -> str:
    """The name of a function: the last one before parentheses in its head, attributes removed."""
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", text[item.start : item.body], flags=re.S)
    depth = 0
    for match in reversed(list(re.finditer(r"[()]", head))):
        depth += 1 if match[0] == ")" else -1
        if depth == 0:
            before = re.search(r"(\w+)\s*\)?\s*\Z", head[: match.start()])
            return before[1] if before else ""
    return ""


# -- the whole file -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TranslationUnit:
    """A preprocessed C file: what the regions of all its functions share."""

    source: SourceText
    text: str  # preprocessed, system headers left out
    source_map: SourceMap
    model: DataModel
    symbols: GlobalSymbols
    functions: FunctionTable
    faults: Collector
