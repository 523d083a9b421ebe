"""Expressions of C, by precedence climbing."""

from __future__ import annotations

from dataclasses import replace

from loopwright.frontends.c.cursor import Cursor, Environment
from loopwright.frontends.c.syntax import (
    AssignExpr,
    BinaryExpr,
    CallExpr,
    CastExpr,
    CharLiteral,
    Comma,
    IndexExpr,
    Name,
    NumberLiteral,
    RefusedExpr,
    StepExpr,
    SyntaxExpr,
    TernaryExpr,
    Typedef,
    TypeName,
    UnaryExpr,
)
from loopwright.frontends.c.tokens import Token

__all__ = ["ExpressionParser"]

_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
# Comma 0, assignment 1, ?: 2; a binary operator binds its right operand one level tighter.
_PRECEDENCE = {op: 3 + level for level, ops in enumerate(_LEVELS) for op in ops}
_COMMA, _ASSIGN, _TERNARY = 0, 1, 2
_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_PREFIX = ("+", "-", "!", "~", "*", "&", "++", "--")


class ExpressionParser(Cursor):
    """Reads expressions; types are read by the declaration parser built on top of it."""

    def __init__(self, tokens: list[Token], names: Environment) -> None:
        super().__init__(tokens)
        self.names = names

    def is_type(self, ahead: int = 0) -> bool:
        """Whether a type begins at a token."""
        raise NotImplementedError

    def type_name(self) -> TypeName:
        """A type as in a cast."""
        raise NotImplementedError

    def expression(self) -> SyntaxExpr:
        """An expression with commas."""
        return self._climb(_COMMA)

    def assignment(self) -> SyntaxExpr:
        """An expression without commas of its own."""
        return self._climb(_ASSIGN)

    def conditional(self) -> SyntaxExpr:
        """An expression without assignments of its own: an extent, a value of an enum."""
        return self._climb(_TERNARY)

    def _climb(self, least: int) -> SyntaxExpr:
        with self.nested():
            left = self._unary()
            while True:
                token = self.token
                if token.kind != "op":
                    return left
                precedence = _PRECEDENCE.get(token.text)
                if precedence is not None and precedence >= least:
                    self.advance()
                    right = self._climb(precedence + 1)
                    left = BinaryExpr(token.text, left, right, (left.at[0], right.at[1]))
                elif token.text == "?" and least <= _TERNARY:
                    left = self._ternary(left)
                elif token.text in _ASSIGNMENTS and least <= _ASSIGN:
                    self.advance()
                    right = self._climb(_ASSIGN)
                    left = AssignExpr(token.text, left, right, (left.at[0], right.at[1]))
                elif token.text == "," and least == _COMMA:
                    left = self._commas(left)
                else:
                    return left

    def _ternary(self, cond: SyntaxExpr) -> SyntaxExpr:
        self.advance()
        if self.accept(":"):
            y = self._climb(_TERNARY)
            return RefusedExpr("a conditional expression without its middle", (cond.at[0], y.at[1]))
        x = self._climb(_COMMA)
        self.expect(":", "after '?'")
        y = self._climb(_TERNARY)
        return TernaryExpr(cond, x, y, (cond.at[0], y.at[1]))

    def _commas(self, first: SyntaxExpr) -> SyntaxExpr:
        parts = [first]
        while self.accept(","):
            parts.append(self._climb(_ASSIGN))
        return Comma(tuple(parts), (first.at[0], parts[-1].at[1]))

    def _unary(self) -> SyntaxExpr:
        prefix: list[Token | tuple[Token, TypeName]] = []
        while True:
            token = self.token
            if token.kind == "op" and token.text in _PREFIX:
                prefix.append(self.advance())
            elif token.text == "__extension__":
                self.advance()
            elif token.text == "(" and self.is_type(1):
                self.advance()
                kind = self.type_name()
                self.expect(")", "after the type of a cast")
                if self.token.text == "{":
                    literal = RefusedExpr(
                        "a compound literal", (token.start, self.skip_brackets().end)
                    )
                    return self._wrapped(prefix, self._postfix(literal))
                prefix.append((token, kind))
            else:
                break
        return self._wrapped(prefix, self._postfix(self._primary()))

    def _wrapped(
        self, prefix: list[Token | tuple[Token, TypeName]], expr: SyntaxExpr
    ) -> SyntaxExpr:
        if len(prefix) > 20:
            raise self.fault("this is nested too deeply", "leave out some of the prefix operators")
        for item in reversed(prefix):
            if not isinstance(item, Token):
                token, kind = item
                expr = CastExpr(kind, expr, (token.start, expr.at[1]))
            elif item.text in ("++", "--"):
                expr = StepExpr(item.text, expr, (item.start, expr.at[1]))
            else:
                expr = UnaryExpr(item.text, expr, (item.start, expr.at[1]))
        return expr

    def _primary(self) -> SyntaxExpr:
        token = self.token
        at = (token.start, token.end)
        match token.kind:
            case "number":
                self.advance()
                return NumberLiteral(token.text, at)
            case "char":
                self.advance()
                return CharLiteral(token.text, at)
            case "string":
                while self.token.kind == "string":
                    at = (at[0], self.advance().end)
                return RefusedExpr("a string", at)
            case "name" if token.text in ("sizeof", "_Alignof", "__alignof__"):
                return self._size(self.advance())
            case "name" if not self.is_type():
                self.advance()
                meaning = self.names.find(token.text)
                return Name(token.text, None if isinstance(meaning, Typedef) else meaning, at)
            case "op" if token.text == "(":
                return self._parentheses()
        self.check_character()
        what = f"'{token.text}'" if token.text else "the end"
        raise self.fault(f"an expression is missing before {what}")

    def _parentheses(self) -> SyntaxExpr:
        start = self.token.start
        if self.peek(1).text == "{":
            return RefusedExpr("a block as a value", (start, self.skip_brackets().end))
        self.advance()
        inner = self._climb(_COMMA)
        end = self.expect(")", "after an expression in parentheses").end
        return replace(inner, at=(start, end))

    def _size(self, word: Token) -> SyntaxExpr:
        if self.token.text == "(":
            is_type = self.is_type(1)
            before = self.place
            end = self.skip_brackets().end
            if is_type and word.text == "sizeof":
                after, self.place = self.place, before + 1
                kind = self.type_name()
                self.place = after
                if kind.element is not None and kind.is_scalar:
                    return NumberLiteral(f"{kind.element.dtype.bytes}ul", (word.start, end))
            return RefusedExpr(f"'{word.text}'", (word.start, end))
        operand = self._unary()
        return RefusedExpr(f"'{word.text}'", (word.start, operand.at[1]))

    def _postfix(self, expr: SyntaxExpr) -> SyntaxExpr:
        while True:
            token = self.token
            if token.kind != "op":
                return expr
            if token.text == "[":
                self.advance()
                index = self._climb(_COMMA)
                end = self.expect("]", "after a subscript").end
                expr = IndexExpr(expr, index, (expr.at[0], end))
            elif token.text == "(":
                self.advance()
                args = self._arguments()
                end = self.expect(")", "after the arguments").end
                expr = CallExpr(expr, args, (expr.at[0], end))
            elif token.text in ("++", "--"):
                self.advance()
                expr = StepExpr(token.text, expr, (expr.at[0], token.end))
            elif token.text in (".", "->"):
                self.advance()
                member = self.advance()
                if member.kind != "name":
                    raise self.fault(f"a name is missing after '{token.text}'")
                expr = RefusedExpr("a member of a structure", (expr.at[0], member.end))
            else:
                return expr

    def _arguments(self) -> tuple[SyntaxExpr, ...]:
        args: list[SyntaxExpr] = []
        if self.token.text != ")":
            args.append(self._climb(_ASSIGN))
            while self.accept(","):
                args.append(self._climb(_ASSIGN))
        return tuple(args)
