"""The parser of C expressions, by precedence climbing."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from loopwright.frontends.c.lexer import CToken, TokenStream
from loopwright.frontends.c.syntax_tree import (
    AssignExpr,
    BinaryExpr,
    CallExpr,
    CastExpr,
    CharLiteral,
    Comma,
    IndexExpr,
    Name,
    NumberLiteral,
    StepExpr,
    SymbolTable,
    SyntaxExpr,
    TernaryExpr,
    Typedef,
    TypeName,
    UnaryExpr,
    UnsupportedExpr,
)

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


class TypeParser(Protocol):
    """The parser of types that expressions need for casts and sizeof."""

    def is_type(self, ahead: int = 0) -> bool:
        """Whether a type begins at a token."""

    def type_name(self) -> TypeName:
        """A type as in a cast."""


class ExpressionParser:
    """Parses the expressions of a stream of tokens by precedence climbing."""

    def __init__(self, tokens: TokenStream, symbols: SymbolTable, types: TypeParser) -> None:
        self._tokens = tokens
        self._symbols = symbols
        self._types = types

    def expression(self) -> SyntaxExpr:
        """An expression, comma operators included."""
        return self._climb(_COMMA)

    def assignment(self) -> SyntaxExpr:
        """An assignment expression: no comma operator outside parentheses."""
        return self._climb(_ASSIGN)

    def conditional(self) -> SyntaxExpr:
        """A conditional expression, as in an enum: no assignment outside parentheses."""
        return self._climb(_TERNARY)

    def _climb(self, least: int) -> SyntaxExpr:
        with self._tokens.nested():
            left = self._unary()
            while True:
                token = self._tokens.token
                if token.kind != "op":
                    return left
                precedence = _PRECEDENCE.get(token.text)
                if precedence is not None and precedence >= least:
                    self._tokens.advance()
                    right = self._climb(precedence + 1)
                    left = BinaryExpr(token.text, left, right, (left.at[0], right.at[1]))
                elif token.text == "?" and least <= _TERNARY:
                    left = self._ternary(left)
                elif token.text in _ASSIGNMENTS and least <= _ASSIGN:
                    self._tokens.advance()
                    right = self._climb(_ASSIGN)
                    left = AssignExpr(token.text, left, right, (left.at[0], right.at[1]))
                elif token.text == "," and least == _COMMA:
                    left = self._commas(left)
                else:
                    return left

    def _ternary(self, cond: SyntaxExpr) -> SyntaxExpr:
        self._tokens.advance()
        if self._tokens.accept(":"):
            y = self._climb(_TERNARY)
            return UnsupportedExpr(
                "a conditional expression without its middle", (cond.at[0], y.at[1])
            )
        x = self._climb(_COMMA)
        self._tokens.expect(":", "after '?'")
        y = self._climb(_TERNARY)
        return TernaryExpr(cond, x, y, (cond.at[0], y.at[1]))

    def _commas(self, first: SyntaxExpr) -> SyntaxExpr:
        parts = [first]
        while self._tokens.accept(","):
            parts.append(self._climb(_ASSIGN))
        return Comma(tuple(parts), (first.at[0], parts[-1].at[1]))

    def _unary(self) -> SyntaxExpr:
        prefix: list[CToken | tuple[CToken, TypeName]] = []
        while True:
            token = self._tokens.token
            if token.kind == "op" and token.text in _PREFIX:
                prefix.append(self._tokens.advance())
            elif token.text == "__extension__":
                self._tokens.advance()
            elif token.text == "(" and self._types.is_type(1):
                self._tokens.advance()
                kind = self._types.type_name()
                self._tokens.expect(")", "after the type of a cast")
                if self._tokens.token.text == "{":
                    literal = UnsupportedExpr(
                        "a compound literal", (token.start, self._tokens.skip_brackets().end)
                    )
                    return self._wrapped(prefix, self._postfix(literal))
                prefix.append((token, kind))
            else:
                break
        return self._wrapped(prefix, self._postfix(self._primary()))

    def _wrapped(
        self, prefix: list[CToken | tuple[CToken, TypeName]], expr: SyntaxExpr
    ) -> SyntaxExpr:
        if len(prefix) > 20:
            raise self._tokens.fault(
                "this is nested too deeply", "leave out some of the prefix operators"
            )
        for item in reversed(prefix):
            if not isinstance(item, CToken):
                token, kind = item
                expr = CastExpr(kind, expr, (token.start, expr.at[1]))
            elif item.text in ("++", "--"):
                expr = StepExpr(item.text, expr, (item.start, expr.at[1]))
            else:
                expr = UnaryExpr(item.text, expr, (item.start, expr.at[1]))
        return expr

    def _primary(self) -> SyntaxExpr:
        token = self._tokens.token
        at = (token.start, token.end)
        match token.kind:
            case "number":
                self._tokens.advance()
                return NumberLiteral(token.text, at)
            case "char":
                self._tokens.advance()
                return CharLiteral(token.text, at)
            case "string":
                while self._tokens.token.kind == "string":
                    at = (at[0], self._tokens.advance().end)
                return UnsupportedExpr("a string", at)
            case "name" if token.text in ("sizeof", "_Alignof", "__alignof__"):
                return self._size(self._tokens.advance())
            case "name" if not self._types.is_type():
                self._tokens.advance()
                meaning = self._symbols.find(token.text)
                return Name(token.text, None if isinstance(meaning, Typedef) else meaning, at)
            case "op" if token.text == "(":
                return self._parentheses()
        self._tokens.check_character()
        what = f"'{token.text}'" if token.text else "the end"
        raise self._tokens.fault(f"an expression is missing before {what}")

    def _parentheses(self) -> SyntaxExpr:
        start = self._tokens.token.start
        if self._tokens.peek(1).text == "{":
            return UnsupportedExpr("a block as a value", (start, self._tokens.skip_brackets().end))
        self._tokens.advance()
        inner = self._climb(_COMMA)
        end = self._tokens.expect(")", "after an expression in parentheses").end
        return replace(inner, at=(start, end))

    def _size(self, word: CToken) -> SyntaxExpr:
        if self._tokens.token.text == "(":
            is_type = self._types.is_type(1)
            before = self._tokens.position
            end = self._tokens.skip_brackets().end
            if is_type and word.text == "sizeof":
                after, self._tokens.position = self._tokens.position, before + 1
                kind = self._types.type_name()
                self._tokens.position = after
                if kind.element is not None and kind.is_scalar:
                    return NumberLiteral(f"{kind.element.dtype.bytes}ul", (word.start, end))
            return UnsupportedExpr(f"'{word.text}'", (word.start, end))
        operand = self._unary()
        return UnsupportedExpr(f"'{word.text}'", (word.start, operand.at[1]))

    def _postfix(self, expr: SyntaxExpr) -> SyntaxExpr:
        while True:
            token = self._tokens.token
            if token.kind != "op":
                return expr
            if token.text == "[":
                self._tokens.advance()
                index = self._climb(_COMMA)
                end = self._tokens.expect("]", "after a subscript").end
                expr = IndexExpr(expr, index, (expr.at[0], end))
            elif token.text == "(":
                self._tokens.advance()
                args = self._arguments()
                end = self._tokens.expect(")", "after the arguments").end
                expr = CallExpr(expr, args, (expr.at[0], end))
            elif token.text in ("++", "--"):
                self._tokens.advance()
                expr = StepExpr(token.text, expr, (expr.at[0], token.end))
            elif token.text in (".", "->"):
                self._tokens.advance()
                member = self._tokens.advance()
                if member.kind != "name":
                    raise self._tokens.fault(f"a name is missing after '{token.text}'")
                expr = UnsupportedExpr("a member of a structure", (expr.at[0], member.end))
            else:
                return expr

    def _arguments(self) -> tuple[SyntaxExpr, ...]:
        args: list[SyntaxExpr] = []
        if self._tokens.token.text != ")":
            args.append(self._climb(_ASSIGN))
            while self._tokens.accept(","):
                args.append(self._climb(_ASSIGN))
        return tuple(args)
