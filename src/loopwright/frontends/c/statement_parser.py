"""Statements of C; a fault costs one statement, and reading goes on with the next."""

from __future__ import annotations

from collections.abc import Callable

from loopwright.frontends.c.counters import with_one_counter
from loopwright.frontends.c.cursor import Environment, SyntaxFault
from loopwright.frontends.c.declaration_parser import DeclarationParser
from loopwright.frontends.c.syntax import (
    BlockStmt,
    Declaration,
    DeclarationStmt,
    ExprStmt,
    ForStmt,
    IfStmt,
    RefusedStmt,
    ReturnStmt,
    SyntaxExpr,
    SyntaxStmt,
)
from loopwright.frontends.c.tokens import Token
from loopwright.frontends.c.types import Model

__all__ = ["StatementParser", "pragma_word"]

_JUMPS = ("goto", "break", "continue")
_ASSEMBLY = ("asm", "__asm__", "__asm")


def pragma_word(token: Token) -> str:
    """The first word of a pragma: "scop", "omp", ...; "" for any other token."""
    if token.kind != "pragma":
        return ""
    words = token.text.lstrip("#").split()
    return words[1] if len(words) > 1 and words[0] == "pragma" else "other"


class StatementParser(DeclarationParser):
    """Reads the statements of a region."""

    def __init__(
        self,
        text: str,
        tokens: list[Token],
        names: Environment,
        model: Model,
        report: Callable[[SyntaxFault], None],
    ) -> None:
        super().__init__(text, tokens, names, model)
        self._report = report
        self._is_lasting: Callable[[str], bool] = lambda name: False
        self._outermost = 0
        self._is_inlined = False

    def function_body(self) -> BlockStmt:
        """The block of a function whose calls are replaced by its value."""
        self._is_inlined = True
        self.check_character()
        if self.token.text != "{":
            raise self.fault("the body of the function is not understood")
        return self._block()

    def region(self, is_lasting: Callable[[str], bool]) -> tuple[SyntaxStmt, ...]:
        """Statements up to `#pragma endscop`, the end of the block or the end of the text.

        `is_lasting` tells of a variable declared in no inner block whether it is used afterwards.
        """
        found: list[SyntaxStmt] = []
        self._is_lasting, self._outermost = is_lasting, self.names.depth
        try:
            while not self._is_over():
                statement = self._recovering()
                if statement is not None:
                    found.append(statement)
        except SyntaxFault as fault:
            self._report(fault)
            while self.token.kind != "end" and pragma_word(self.token) not in ("scop", "endscop"):
                self.advance()
        return tuple(found)

    def _is_over(self) -> bool:
        token = self.token
        return token.kind == "end" or token.text == "}" or pragma_word(token) in ("scop", "endscop")

    def _recovering(self) -> SyntaxStmt | None:
        """A statement; None when it was refused, reported and stepped over."""
        before = self.place
        try:
            return self._statement()
        except SyntaxFault as fault:
            if fault.stops:
                raise
            self._report(fault)
        self._step_over(before)
        return None

    def _step_over(self, before: int) -> None:
        """Go on behind the statement that began at `before`: its semicolon or its block."""
        if self.place == before:
            self.advance()
        while not self._is_over():
            if self.token.text == "{":
                try:
                    self.skip_brackets()
                except SyntaxFault:
                    return  # the text ends inside the block; that is told elsewhere
                return
            if self.advance().text == ";":
                return

    def _statement(self) -> SyntaxStmt:
        while pragma_word(self.token) not in ("", "scop", "endscop"):
            self.advance()  # pragmas of others do not change what loops compute
        with self.nested():
            return self._plain()

    def _plain(self) -> SyntaxStmt:
        token = self.token
        if token.text == "{":
            return self._block()
        if token.text == ";":
            self.advance()
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
            if self.peek(1).text == ":" and self.peek(2).text != ":":
                self.advance()
                self.advance()
                body = () if self._is_over() else (self._statement(),)
                return RefusedStmt("label", body, (token.start, token.end))
            if self.is_type():
                return self._declaration()
        expr = self.expression()
        end = self.expect(";", "after the statement").end
        return ExprStmt(expr, (token.start, end))

    def _block(self) -> BlockStmt:
        start = self.advance().start
        found: list[SyntaxStmt] = []
        with self.names.block():
            while not self._is_over():
                statement = self._recovering()
                if statement is not None:
                    found.append(statement)
        end = self.expect("}", "at the end of the block").end
        return BlockStmt(tuple(found), (start, end))

    def _declaration(self) -> DeclarationStmt:
        start = self.token.start
        found = self.declaration(self._where)
        objects = tuple(item for item in found if isinstance(item, Declaration))
        return DeclarationStmt(objects, (start, self.peek(-1).end))

    def _where(self, name: str) -> str:
        if self._is_inlined:
            return "inlined"
        is_outermost = self.names.depth == self._outermost
        return "lasting" if is_outermost and self._is_lasting(name) else "region"

    def _for(self) -> SyntaxStmt:
        start = self.advance().start
        self.expect("(", "after 'for'")
        with self.names.block():
            init: DeclarationStmt | SyntaxExpr | None = None
            if self.is_type():
                init = self._declaration()
            else:
                init = None if self.token.text == ";" else self.expression()
                self.expect(";", "after the start of the loop")
            cond = None if self.token.text == ";" else self.expression()
            self.expect(";", "after the condition of the loop")
            step = None if self.token.text == ")" else self.expression()
            end = self.expect(")", "after the step of the loop").end
            body = self._body("for")
        return with_one_counter(ForStmt(init, cond, step, body, (start, body.at[1]), (start, end)))

    def _body(self, word: str) -> SyntaxStmt:
        if self._is_over():
            raise self.fault(f"the statement after '{word}' is missing")
        return self._statement()

    def _if(self) -> IfStmt:
        start = self.advance().start
        self.expect("(", "after 'if'")
        cond = self.expression()
        self.expect(")", "after the condition")
        body = self._body("if")
        orelse = self._body("else") if self.accept("else") else None
        end = body.at[1] if orelse is None else orelse.at[1]
        return IfStmt(cond, body, orelse, (start, end))

    def _return(self) -> ReturnStmt:
        word = self.advance()
        value = None if self.token.text == ";" else self.expression()
        self.expect(";", "after 'return'")
        return ReturnStmt(value, (word.start, word.end))

    def _refused(self, word: str) -> RefusedStmt:
        """A statement without meaning here; its parts are read for faults of their own."""
        start = self.advance()
        at = (start.start, start.end)
        match word:
            case "while" | "switch":
                self.expect("(", f"after '{word}'")
                cond = self.expression()
                self.expect(")", "after the condition")
                return RefusedStmt(word, (self._body(word),), at, (cond,))
            case "do":
                body = self._body("do")
                self.expect("while", "after the body of 'do'")
                self.expect("(", "after 'while'")
                cond = self.expression()
                self.expect(")", "after the condition")
                self.expect(";", "after 'do'")
                return RefusedStmt(word, (body,), at, (cond,))
            case "case" | "default":
                while self.token.text not in (":", ";", "}") and not self._is_over():
                    self.advance()
                self.accept(":")
                inner = () if self._is_over() else (self._statement(),)
                return RefusedStmt(word, inner, at)
            case _:
                while self.token.text not in (";", "}") and not self._is_over():
                    self.advance()
                self.accept(";")
                return RefusedStmt("asm" if word in _ASSEMBLY else word, (), at)
