"""A function of C to its regions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from loopwright.diagnostics import Collector, Diagnostic
from loopwright.frontends.c.cursor import Environment, SyntaxFault
from loopwright.frontends.c.declaration_parser import FunctionHead
from loopwright.frontends.c.liveness import Surroundings, changed_names, is_mentioned
from loopwright.frontends.c.outline import Globals, Item
from loopwright.frontends.c.places import Places
from loopwright.frontends.c.preprocess import MAIN
from loopwright.frontends.c.statement_parser import StatementParser, pragma_word
from loopwright.frontends.c.syntax import Range, SyntaxStmt
from loopwright.frontends.c.text import PragmaLine, SourceText
from loopwright.frontends.c.tokens import Token, tokenize
from loopwright.frontends.c.types import Model

__all__ = ["ParsedRegion", "parse_regions"]

_MOST_REGION = 512 << 10
_MOST_FUNCTION = 4 << 20


@dataclass(frozen=True, slots=True)
class ParsedRegion:
    """The syntax of one region, and what stands around it."""

    head: FunctionHead
    body: tuple[SyntaxStmt, ...]
    first: PragmaLine
    last: PragmaLine
    around: Surroundings
    identifiers: frozenset[str]  # all names in the function
    changing: frozenset[str]  # those that some statement of it may change
    declared: frozenset[str]  # names of its own that are visible where the region begins


@dataclass(frozen=True, slots=True)
class _File:
    """What all functions of a file share."""

    source: SourceText
    text: str
    places: Places
    names: Globals
    model: Model
    faults: Collector


def parse_regions(
    source: SourceText,
    text: str,
    item: Item,
    places: Places,
    names: Globals,
    model: Model,
    faults: Collector,
) -> list[ParsedRegion]:
    """The regions of one function, in order; what is wrong with them goes to `faults`."""
    file = _File(source, text, places, names, model, faults)
    if _is_too_long(file, item):
        return []
    tokens = list(tokenize(text, item.start, item.end))
    environment = Environment(names.find)
    parser = StatementParser(text, tokens, environment, model, lambda fault: _report(file, fault))
    while parser.token.kind == "pragma":
        parser.advance()
    try:
        head = parser.function_head()
        while parser.token.start < item.body and parser.token.kind != "end":
            parser.advance()  # attributes
        return _Body(file, parser, tokens, head).regions()
    except SyntaxFault as fault:
        _report(file, fault)
        return []


def _is_too_long(file: _File, item: Item) -> bool:
    """Refuse text that would take minutes to read; nobody writes so much by hand."""
    marks = (*item.pragmas, item.end)
    longest = max(end - start for start, end in pairwise(marks))
    if longest <= _MOST_REGION and item.end - item.start <= _MOST_FUNCTION:
        return False
    what, most = (
        ("function", _MOST_FUNCTION) if longest <= _MOST_REGION else ("region", _MOST_REGION)
    )
    message = f"the {what} has more than {most >> 10} KiB of text, macros expanded"
    span = file.places.span((item.pragmas[0], item.pragmas[0] + 1))
    file.faults.add(Diagnostic(span, message, "LW130", hint="split it into several ones"))
    return True


def _report(file: _File, fault: SyntaxFault) -> None:
    span = file.places.span(fault.at)
    file.faults.add(Diagnostic(span, fault.message, "LW132", hint=fault.hint))


def _ends_region(token: Token) -> bool:
    return pragma_word(token) == "endscop"


class _Body:
    """Walks over the body of a function: declarations are read, other code is stepped over."""

    def __init__(
        self, file: _File, parser: StatementParser, tokens: list[Token], head: FunctionHead
    ) -> None:
        self._file = file
        self._parser = parser
        self._tokens = tokens
        self._head = head
        self._begin = parser.place
        self._identifiers = frozenset(token.text for token in tokens if token.kind == "name")
        self._changing = changed_names(tokens)

    def regions(self) -> list[ParsedRegion]:
        parser, found = self._parser, list[ParsedRegion]()
        is_start = True  # of a statement
        while parser.token.kind != "end":
            token = parser.token
            word = pragma_word(token)
            if word == "scop":
                region = self._region()
                if region is not None:
                    found.append(region)
            elif word == "endscop":
                self._complain(
                    parser.advance(), "'#pragma endscop' without '#pragma scop' before it"
                )
            elif token.text == "{":
                parser.names.open()
                parser.advance()
            elif token.text == "}":
                parser.names.close()
                parser.advance()
            elif token.text == "for" and parser.peek(1).text == "(":
                self._for()
            elif is_start and parser.is_type() and parser.peek(1).text != ":":
                self._declaration()
                is_start = True
                continue
            else:
                parser.advance()
            is_start = token.text in (";", "{", "}", ":", ")") or token.kind == "pragma"
        return found

    def _declaration(self) -> None:
        before = self._parser.place
        try:
            self._parser.declaration(lambda _: "local")
        except SyntaxFault:
            self._parser.place = before + 1  # exotic C; what it declares stays unknown

    def _for(self) -> None:
        """`for (int t = 0; ...) {` around a region: t is known in the block that follows."""
        parser = self._parser
        parser.advance()
        before = parser.place
        try:
            parser.skip_brackets()
        except SyntaxFault:
            parser.place = before + 1
            return
        after = parser.place
        parser.place = before + 1
        if not parser.is_type():
            parser.place = after
            return
        is_block = parser.peek(after - parser.place).text == "{"
        if is_block:
            parser.names.open()
        self._declaration()
        parser.place = after + 1 if is_block else after

    def _region(self) -> ParsedRegion | None:
        """The region whose first pragma is the next token."""
        parser, start = self._parser, self._parser.place
        opening = parser.advance()
        declared = parser.names.own()
        behind = self._behind(parser.place)
        body = parser.region(lambda name: is_mentioned(behind, name))
        stop = parser.place
        closing = parser.token
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
        parser.advance()
        first, last = self._pragma(opening), self._pragma(closing)
        if first is None or last is None:
            return None
        around = Surroundings(self._tokens[self._begin : start], self._tokens[stop + 1 :])
        return ParsedRegion(
            self._head, body, first, last, around, self._identifiers, self._changing, declared
        )

    def _behind(self, place: int) -> list[Token]:
        """The tokens from the end of the region that begins at `place`."""
        ends = (at for at in range(place, len(self._tokens)) if _ends_region(self._tokens[at]))
        return self._tokens[next(ends, len(self._tokens)) :]

    def _step_over(self, regions: int) -> None:
        """Go on behind what would end this many regions; a new one may begin when none is left."""
        parser = self._parser
        if pragma_word(parser.token) == "scop":
            parser.advance()
        while regions and parser.token.kind != "end":
            word = pragma_word(parser.token)
            if word == "scop" and regions == 1:
                return
            regions += (word == "scop") - (word == "endscop")
            if parser.token.text == "{":
                parser.names.open()
            elif parser.token.text == "}":
                parser.names.close()
            parser.advance()

    def _pragma(self, token: Token) -> PragmaLine | None:
        """The line of the source that a pragma stands on."""
        file, number = self._file.places.origin(token.start)
        lines = self._file.source.pragmas
        found = next((p for p in lines if p.line == number), None) if file == MAIN else None
        if found is None or found.word != pragma_word(token):
            hint = "write '#pragma scop' and '#pragma endscop' on lines of the file itself"
            self._complain(token, "the pragma comes from a macro or an included file", hint)
            return None
        return found

    def _complain(self, token: Token, message: str, hint: str = "") -> None:
        at: Range = (token.start, token.end)
        span = self._file.places.span(at)
        self._file.faults.add(Diagnostic(span, message, "LW130", hint=hint))
