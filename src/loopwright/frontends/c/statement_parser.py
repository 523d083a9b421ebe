"""The parser of C statements; after a syntax error it goes on with the next statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from loopwright.frontends.c.declaration_parser import DeclarationParser
from loopwright.frontends.c.lexer import CToken, SyntaxFault
from loopwright.frontends.c.syntax_tree import (
    AssignExpr,
    BlockStmt,
    Comma,
    Declaration,
    DeclarationStmt,
    ExprStmt,
    ForStmt,
    IfStmt,
    InitList,
    Name,
    ReturnStmt,
    StepExpr,
    SyntaxExpr,
    SyntaxStmt,
    UnsupportedStmt,
    declarations_in,
)

__all__ = ["StatementParser", "pragma_word", "with_one_counter"]

_JUMPS = ("goto", "break", "continue")
_ASSEMBLY = ("asm", "__asm__", "__asm")


def pragma_word(token: CToken) -> str:
    """The first word of a pragma: "scop", "omp", ...; "" for any other token."""
    if token.kind != "pragma":
        return ""
    words = token.text.lstrip("#").split()
    return words[1] if len(words) > 1 and words[0] == "pragma" else "other"


class StatementParser:
    """Parses the statements of a region or of a function's body.

    `report` is told each fault; parsing goes on with the next statement.
    """

    def __init__(
        self, declarations: DeclarationParser, report: Callable[[SyntaxFault], None]
    ) -> None:
        self.declarations = declarations
        self.tokens = declarations.tokens
        self.symbols = declarations.symbols
        self._expressions = declarations.expressions
        self._report = report
        self._is_lasting: Callable[[str], bool] = lambda name: False
        self._outermost = 0
        self._is_inlined = False

    def function_body(self) -> BlockStmt:
        """The body of a function that is inlined."""
        self._is_inlined = True
        self.tokens.check_character()
        if self.tokens.token.text != "{":
            raise self.tokens.fault("the body of the function is not understood")
        return self._block()

    def region(self, is_lasting: Callable[[str], bool]) -> tuple[SyntaxStmt, ...]:
        """Statements up to `#pragma endscop`, the end of the block or the end of the text.

        `is_lasting` tells whether a variable that no inner block declares is used afterwards.
        """
        found: list[SyntaxStmt] = []
        self._is_lasting, self._outermost = is_lasting, self.symbols.depth
        try:
            while not self._is_over():
                statement = self._recovering()
                if statement is not None:
                    found.append(statement)
        except SyntaxFault as fault:
            self._report(fault)
            while self.tokens.token.kind != "end" and pragma_word(self.tokens.token) not in (
                "scop",
                "endscop",
            ):
                self.tokens.advance()
        return tuple(found)

    def _is_over(self) -> bool:
        token = self.tokens.token
        return token.kind == "end" or token.text == "}" or pragma_word(token) in ("scop", "endscop")

    def _recovering(self) -> SyntaxStmt | None:
        """A statement; None when it had a syntax error, was reported and skipped."""
        before = self.tokens.position
        try:
            return self._statement()
        except SyntaxFault as fault:
            if fault.stops:
                raise
            self._report(fault)
        self._step_over(before)
        return None

    def _step_over(self, before: int) -> None:
        """Skip to the end of the statement that began at `before`: its semicolon or its block."""
        if self.tokens.position == before:
            self.tokens.advance()
        while not self._is_over():
            if self.tokens.token.text == "{":
                try:
                    self.tokens.skip_brackets()
                except SyntaxFault:
                    return  # the text ends inside the block, which is reported elsewhere
                return
            if self.tokens.advance().text == ";":
                return

    def _statement(self) -> SyntaxStmt:
        while pragma_word(self.tokens.token) not in ("", "scop", "endscop"):
            self.tokens.advance()  # other pragmas do not change what loops compute
        with self.tokens.nested():
            return self._plain()

    def _plain(self) -> SyntaxStmt:
        token = self.tokens.token
        if token.text == "{":
            return self._block()
        if token.text == ";":
            self.tokens.advance()
            return ExprStmt(None, (token.start, token.end))
        if token.kind == "name":
            if token.text == "for":
                return self._for()
            if token.text == "if":
                return self._if()
            if token.text == "return":
                return self._return()
            if token.text in ("while", "do", "switch", *_JUMPS, *_ASSEMBLY, "case", "default"):
                return self._refused(token.text)
            if self.tokens.peek(1).text == ":" and self.tokens.peek(2).text != ":":
                self.tokens.advance()
                self.tokens.advance()
                body = () if self._is_over() else (self._statement(),)
                return UnsupportedStmt("label", body, (token.start, token.end))
            if self.declarations.is_type():
                return self._declaration()
        expr = self._expressions.expression()
        end = self.tokens.expect(";", "after the statement").end
        return ExprStmt(expr, (token.start, end))

    def _block(self) -> BlockStmt:
        start = self.tokens.advance().start
        found: list[SyntaxStmt] = []
        with self.symbols.block():
            while not self._is_over():
                statement = self._recovering()
                if statement is not None:
                    found.append(statement)
        end = self.tokens.expect("}", "at the end of the block").end
        return BlockStmt(tuple(found), (start, end))

    def _declaration(self) -> DeclarationStmt:
        start = self.tokens.token.start
        found = self.declarations.declaration(self._where)
        objects = tuple(item for item in found if isinstance(item, Declaration))
        return DeclarationStmt(objects, (start, self.tokens.peek(-1).end))

    def _where(self, name: str) -> str:
        if self._is_inlined:
            return "inlined"
        is_outermost = self.symbols.depth == self._outermost
        return "lasting" if is_outermost and self._is_lasting(name) else "region"

    def _for(self) -> SyntaxStmt:
        start = self.tokens.advance().start
        self.tokens.expect("(", "after 'for'")
        with self.symbols.block():
            init: DeclarationStmt | SyntaxExpr | None = None
            if self.declarations.is_type():
                init = self._declaration()
            else:
                init = None if self.tokens.token.text == ";" else self._expressions.expression()
                self.tokens.expect(";", "after the start of the loop")
            cond = None if self.tokens.token.text == ";" else self._expressions.expression()
            self.tokens.expect(";", "after the condition of the loop")
            step = None if self.tokens.token.text == ")" else self._expressions.expression()
            end = self.tokens.expect(")", "after the step of the loop").end
            body = self._body("for")
        return with_one_counter(ForStmt(init, cond, step, body, (start, body.at[1]), (start, end)))

    def _body(self, word: str) -> SyntaxStmt:
        if self._is_over():
            raise self.tokens.fault(f"the statement after '{word}' is missing")
        return self._statement()

    def _if(self) -> IfStmt:
        start = self.tokens.advance().start
        self.tokens.expect("(", "after 'if'")
        cond = self._expressions.expression()
        self.tokens.expect(")", "after the condition")
        body = self._body("if")
        orelse = self._body("else") if self.tokens.accept("else") else None
        end = body.at[1] if orelse is None else orelse.at[1]
        return IfStmt(cond, body, orelse, (start, end))

    def _return(self) -> ReturnStmt:
        word = self.tokens.advance()
        value = None if self.tokens.token.text == ";" else self._expressions.expression()
        self.tokens.expect(";", "after 'return'")
        return ReturnStmt(value, (word.start, word.end))

    def _refused(self, word: str) -> UnsupportedStmt:
        """An unsupported statement; its parts are parsed for errors of their own."""
        start = self.tokens.advance()
        at = (start.start, start.end)
        match word:
            case "while" | "switch":
                self.tokens.expect("(", f"after '{word}'")
                cond = self._expressions.expression()
                self.tokens.expect(")", "after the condition")
                return UnsupportedStmt(word, (self._body(word),), at, (cond,))
            case "do":
                body = self._body("do")
                self.tokens.expect("while", "after the body of 'do'")
                self.tokens.expect("(", "after 'while'")
                cond = self._expressions.expression()
                self.tokens.expect(")", "after the condition")
                self.tokens.expect(";", "after 'do'")
                return UnsupportedStmt(word, (body,), at, (cond,))
            case "case" | "default":
                while self.tokens.token.text not in (":", ";", "}") and not self._is_over():
                    self.tokens.advance()
                self.tokens.accept(":")
                inner = () if self._is_over() else (self._statement(),)
                return UnsupportedStmt(word, inner, at)
            case _:
                while self.tokens.token.text not in (";", "}") and not self._is_over():
                    self.tokens.advance()
                self.tokens.accept(";")
                return UnsupportedStmt("asm" if word in _ASSEMBLY else word, (), at)


# -- loops that count several variables ------------------------------------------------------


def with_one_counter(loop: ForStmt) -> SyntaxStmt:
    """The loop with one variable in its head; the others become ordinary variables.

    rewrite:  for (i = 0, j = n; i < n; i++, j--) S
              ->  j = n; for (i = 0; i < n; i++) { S j--; }
    """
    starts, steps = _initial_values(loop), _comma_parts(loop.step)
    if starts is None or loop.cond is None or (len(starts) < 2 and len(steps) < 2):
        return loop
    tested = list(_mentioned(loop.cond))
    counter = next((d for d in tested if d in starts), None)
    own = [part for part in steps if _changed_variable(part) is counter]
    if counter is None or len(own) != 1:
        return loop
    others = [part for part in steps if part is not own[0]]
    first = [start for d, start in starts.items() if d is not counter]
    if any(counter in _uses(start) for start in first):
        return loop
    if any(counter in set(_mentioned(part)) for part in others):
        return loop
    body = loop.body
    if others:
        body = BlockStmt((body, *(ExprStmt(part, part.at) for part in others)), body.at)
    plain = ForStmt(_start_of(starts[counter]), loop.cond, own[0], body, loop.at, loop.head)
    return BlockStmt((*first, plain), loop.at)


def _initial_values(loop: ForStmt) -> dict[Declaration, SyntaxStmt] | None:
    """The statements that initialise the variables of a loop head."""
    match loop.init:
        case DeclarationStmt(declarations=declarations, at=at):
            return {d: DeclarationStmt((d,), at) for d in declarations}
        case AssignExpr() | Comma():
            found: dict[Declaration, SyntaxStmt] = {}
            for part in _comma_parts(loop.init):
                target = _changed_variable(part)
                if not isinstance(part, AssignExpr) or part.op != "=" or target is None:
                    return None
                if target in found:
                    return None
                found[target] = ExprStmt(part, part.at)
            return found
        case _:
            return None


def _start_of(start: SyntaxStmt) -> DeclarationStmt | SyntaxExpr | None:
    match start:
        case DeclarationStmt():
            return start
        case ExprStmt(expr=expr):
            return expr
    raise AssertionError(start)


def _comma_parts(expr: SyntaxExpr | None) -> tuple[SyntaxExpr, ...]:
    match expr:
        case None:
            return ()
        case Comma(parts=parts):
            return parts
        case _:
            return (expr,)


def _changed_variable(expr: SyntaxExpr) -> Declaration | None:
    match expr:
        case AssignExpr(target=Name(meaning=Declaration() as declaration)):
            return declaration
        case StepExpr(x=Name(meaning=Declaration() as declaration)):
            return declaration
        case _:
            return None


def _mentioned(expr: SyntaxExpr) -> Iterable[Declaration]:
    return declarations_in((ExprStmt(expr, expr.at),))


def _uses(start: SyntaxStmt) -> set[Declaration]:
    """The variables that an initial value is computed from."""
    match start:
        case DeclarationStmt(declarations=(Declaration(init=init),)):
            return set() if init is None or isinstance(init, InitList) else set(_mentioned(init))
        case ExprStmt(expr=AssignExpr(value=value)):
            return set(_mentioned(value))
        case _:
            return set()
