"""Constant initializers of C variables: `2 * 3`, `{4.0 / 9, 1.0 / 9}`."""

from __future__ import annotations

from typing import TypeAlias

from loopwright.frontends.c.arithmetic_types import (
    CValue,
    DataModel,
    character,
    convert,
    data,
    number,
    truth,
)
from loopwright.frontends.c.declaration_parser import DeclarationParser
from loopwright.frontends.c.lexer import SyntaxFault, tokenize
from loopwright.frontends.c.operators import binary, choose, unary
from loopwright.frontends.c.syntax_tree import (
    BinaryExpr,
    CastExpr,
    CharLiteral,
    NumberLiteral,
    SymbolTable,
    SyntaxExpr,
    TernaryExpr,
    UnaryExpr,
)
from loopwright.frontends.refusal import Refusal
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Const, Expr

__all__ = ["Constant", "constant_of"]

Constant: TypeAlias = "int | float | list[Constant]"


def constant_of(text: str, model: DataModel | None = None) -> Constant | None:
    """The number or the nested lists of numbers that a C text denotes; None for any other text.

    Arithmetic is C's: integer quotients are truncated, floating values are rounded to their type.
    """
    parser = DeclarationParser(text, list(tokenize(text)), SymbolTable(lambda _: None), DataModel())
    try:
        found = _item(parser, model or DataModel())
    except (SyntaxFault, Refusal):
        return None
    return found if parser.tokens.token.kind == "end" else None


def _item(parser: DeclarationParser, model: DataModel) -> Constant:
    if not parser.tokens.accept("{"):
        return _number(parser.expressions.conditional(), model)
    found: list[Constant] = []
    while not parser.tokens.accept("}"):
        with parser.tokens.nested():
            found.append(_item(parser, model))
        if not parser.tokens.accept(",") and parser.tokens.token.text != "}":
            raise parser.tokens.fault("',' is missing")
    return found


def _number(node: SyntaxExpr, model: DataModel) -> int | float:
    result: int | float = evaluate(data(_value(node, model)), {}).item()
    return result


def _value(node: SyntaxExpr, model: DataModel) -> CValue:
    match node:
        case NumberLiteral(text=text):
            return number(text, model)
        case CharLiteral(text=text):
            return character(text, model)
        case UnaryExpr(op="+" | "-" | "~" | "!" as op, x=x):
            return unary(op, _value(x, model), _prove)
        case BinaryExpr(op=op, x=x, y=y) if op not in ("&&", "||"):
            return binary(op, _value(x, model), _value(y, model), _prove)
        case TernaryExpr(cond=cond, x=x, y=y):
            return choose(truth(_value(cond, model)), _value(x, model), _value(y, model), _prove)
        case CastExpr(type=kind, x=x) if kind.element is not None and not kind.derivations:
            return convert(_value(x, model), kind.element, _prove)
    raise Refusal("LW151", "this is no constant")


def _prove(wanted: Expr) -> bool:
    """Whether a condition on constants holds."""
    return isinstance(wanted, Const) and bool(wanted.value)
