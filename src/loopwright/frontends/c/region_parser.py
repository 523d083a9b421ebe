"""The parser of a function with regions: declarations and regions, other code is skipped."""

from __future__ import annotations

from itertools import pairwise

from loopwright.diagnostics import Diagnostic
from loopwright.frontends.c.declaration_parser import DeclarationParser, FunctionHead
from loopwright.frontends.c.file_outline import TopLevelItem, TranslationUnit
from loopwright.frontends.c.lexer import CToken, Range, SyntaxFault, tokenize
from loopwright.frontends.c.liveness import RegionContext, changed_names, is_mentioned
from loopwright.frontends.c.source_map import MAIN, PragmaLine
from loopwright.frontends.c.statement_parser import StatementParser, pragma_word
from loopwright.frontends.c.syntax_tree import SymbolTable, SyntaxStmt
from loopwright.lazy_dataclass import dataclass

__all__ = ["ParsedRegion", "parse_regions"]

_MOST_REGION = 512 << 10
_MOST_FUNCTION = 4 << 20


@dataclass(frozen=True, slots=True)
class ParsedRegion:
    """The syntax of one region, and its context in the function."""

    head: FunctionHead
    body: tuple[SyntaxStmt, ...]
    first: PragmaLine
    last: PragmaLine
    around: RegionContext
    identifiers: frozenset[str]  # all names in the function
    changing: frozenset[str]  # those that some statement of it may change
    declared: frozenset[str]  # names of the function that are visible where the region begins


def parse_regions(unit: TranslationUnit, item: TopLevelItem) -> list[ParsedRegion]:
    """The regions of one function, in order; their syntax errors go to the faults of the unit."""
    if _is_too_long(unit, item):
        return []
    tokens = list(tokenize(unit.text, item.start, item.end))
    declarations = DeclarationParser(unit.text, tokens, SymbolTable(unit.symbols.find), unit.model)
    while declarations.tokens.token.kind == "pragma":
        declarations.tokens.advance()
    try:
        head = declarations.function_head(item.body)
        return _FunctionBody(unit, declarations, tokens, head).regions()
    except SyntaxFault as fault:
        _report(unit, fault)
        return []


def _is_too_long(unit: TranslationUnit, item: TopLevelItem) -> bool:
    """Refuse text that would take minutes to read, as only generators write it."""
    marks = (*item.pragmas, item.end)
    longest = max(end - start for start, end in pairwise(marks))
    if longest <= _MOST_REGION and item.end - item.start <= _MOST_FUNCTION:
        return False
    what, most = (
        ("function", _MOST_FUNCTION) if longest <= _MOST_REGION else ("region", _MOST_REGION)
    )
    message = f"the {what} has more than {most >> 10} KiB of text, macros expanded"
    span = unit.source_map.span((item.pragmas[0], item.pragmas[0] + 1))
    unit.faults.add(Diagnostic(span, message, "LW130", hint="split it into several ones"))
    return True


def _report(unit: TranslationUnit, fault: SyntaxFault) -> None:
    span = unit.source_map.span(fault.at)
    unit.faults.add(Diagnostic(span, fault.message, "LW132", hint=fault.hint))


def _ends_region(token: CToken) -> bool:
    return pragma_word(token) == "endscop"


class _FunctionBody:
    """Scans the body of a function: parses declarations and regions, skips other code."""

    def __init__(
        self,
        unit: TranslationUnit,
        declarations: DeclarationParser,
        tokens: list[CToken],
        head: FunctionHead,
    ) -> None:
        self._unit = unit
        self._declarations = declarations
        self._statements = StatementParser(declarations, lambda fault: _report(unit, fault))
        self._stream = declarations.tokens
        self._symbols = declarations.symbols
        self._tokens = tokens
        self._head = head
        self._begin = self._stream.position
        self._identifiers = frozenset(token.text for token in tokens if token.kind == "name")
        self._changing = changed_names(tokens)

    def regions(self) -> list[ParsedRegion]:
        stream, found = self._stream, list[ParsedRegion]()
        is_start = True  # whether a statement begins at the next token
        while stream.token.kind != "end":
            token = stream.token
            word = pragma_word(token)
            if word == "scop":
                region = self._region()
                if region is not None:
                    found.append(region)
            elif word == "endscop":
                self._complain(
                    stream.advance(), "'#pragma endscop' without '#pragma scop' before it"
                )
            elif token.text == "{":
                self._symbols.open()
                stream.advance()
            elif token.text == "}":
                self._symbols.close()
                stream.advance()
            elif token.text == "for" and stream.peek(1).text == "(":
                self._for()
            elif is_start and self._declarations.is_type() and stream.peek(1).text != ":":
                self._declaration()
                is_start = True
                continue
            else:
                stream.advance()
            is_start = token.text in (";", "{", "}", ":", ")") or token.kind == "pragma"
        return found

    def _declaration(self) -> None:
        before = self._stream.position
        try:
            self._declarations.declaration(lambda _: "local")
        except SyntaxFault:
            self._stream.position = before + 1  # unsupported C: what it declares stays unknown

    def _for(self) -> None:
        """Declare `t` of `for (int t = 0; ...) {` around a region in the block that follows."""
        stream = self._stream
        stream.advance()
        before = stream.position
        try:
            stream.skip_brackets()
        except SyntaxFault:
            stream.position = before + 1
            return
        after = stream.position
        stream.position = before + 1
        if not self._declarations.is_type():
            stream.position = after
            return
        is_block = stream.peek(after - stream.position).text == "{"
        if is_block:
            self._symbols.open()
        self._declaration()
        stream.position = after + 1 if is_block else after

    def _region(self) -> ParsedRegion | None:
        """The region whose first pragma is the next token."""
        stream, start = self._stream, self._stream.position
        opening = stream.advance()
        declared = self._symbols.own()
        behind = self._behind(stream.position)
        body = self._statements.region(lambda name: is_mentioned(behind, name))
        stop = stream.position
        closing = stream.token
        word = pragma_word(closing)
        if word != "endscop":
            hint = "write '#pragma endscop' in the block in which the region begins"
            if word == "scop":
                self._complain(
                    closing, "a region begins inside another", "end the first one before"
                )
                self._step_over(2)
            else:
                self._complain(opening, "'#pragma endscop' is missing", hint)
                self._step_over(1)
            return None
        stream.advance()
        first, last = self._pragma(opening), self._pragma(closing)
        if first is None or last is None:
            return None
        around = RegionContext(self._tokens[self._begin : start], self._tokens[stop + 1 :])
        return ParsedRegion(
            self._head, body, first, last, around, self._identifiers, self._changing, declared
        )

    def _behind(self, place: int) -> list[CToken]:
        """The tokens after the region that begins at `place`."""
        ends = (at for at in range(place, len(self._tokens)) if _ends_region(self._tokens[at]))
        return self._tokens[next(ends, len(self._tokens)) :]

    def _step_over(self, regions: int) -> None:
        """Skip to the end of this many regions, or to the start of a region when one is left."""
        stream = self._stream
        if pragma_word(stream.token) == "scop":
            stream.advance()
        while regions and stream.token.kind != "end":
            word = pragma_word(stream.token)
            if word == "scop" and regions == 1:
                return
            regions += (word == "scop") - (word == "endscop")
            if stream.token.text == "{":
                self._symbols.open()
            elif stream.token.text == "}":
                self._symbols.close()
            stream.advance()

    def _pragma(self, token: CToken) -> PragmaLine | None:
        """The source line of a pragma; None (reported) when it is not in the file itself."""
        file, number = self._unit.source_map.origin(token.start)
        lines = self._unit.source.pragmas
        found = next((p for p in lines if p.line == number), None) if file == MAIN else None
        if found is None or found.word != pragma_word(token):
            hint = "write '#pragma scop' and '#pragma endscop' on lines of the file itself"
            self._complain(token, "the pragma comes from a macro or an included file", hint)
            return None
        return found

    def _complain(self, token: CToken, message: str, hint: str = "") -> None:
        at: Range = (token.start, token.end)
        span = self._unit.source_map.span(at)
        self._unit.faults.add(Diagnostic(span, message, "LW130", hint=hint))
