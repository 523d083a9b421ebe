"""Constant expressions and lists of them, as variables are declared with: `{4.0 / 9, 1.0 / 9}`."""

from __future__ import annotations

from typing import TypeAlias

from loopwright.frontends.c.cursor import Environment, SyntaxFault
from loopwright.frontends.c.declaration_parser import DeclarationParser
from loopwright.frontends.c.literals import character, number
from loopwright.frontends.c.operators import binary, choose, unary
from loopwright.frontends.c.refusal import Refusal
from loopwright.frontends.c.syntax import (
    BinaryExpr,
    CastExpr,
    CharLiteral,
    NumberLiteral,
    SyntaxExpr,
    TernaryExpr,
    UnaryExpr,
)
from loopwright.frontends.c.tokens import tokenize
from loopwright.frontends.c.types import Model
from loopwright.frontends.c.values import Value, convert, data, truth
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Const, Expr

__all__ = ["Constant", "constant_of"]

Constant: TypeAlias = "int | float | list[Constant]"


def constant_of(text: str, model: Model | None = None) -> Constant | None:
    """The number, or the nested lists of numbers, that C text stands for; None for any other text.

    Arithmetic is C's: quotients of integers are cut off, floating numbers are rounded by type.
    """
    parser = DeclarationParser(text, list(tokenize(text)), Environment(lambda _: None), Model())
    try:
        found = _item(parser, model or Model())
    except (SyntaxFault, Refusal):
        return None
    return found if parser.token.kind == "end" else None


def _item(parser: DeclarationParser, model: Model) -> Constant:
    if not parser.accept("{"):
        return _number(parser.conditional(), model)
    found: list[Constant] = []
    while not parser.accept("}"):
        with parser.nested():
            found.append(_item(parser, model))
        if not parser.accept(",") and parser.token.text != "}":
            raise parser.fault("',' is missing")
    return found


def _number(node: SyntaxExpr, model: Model) -> int | float:
    result: int | float = evaluate(data(_value(node, model)), {}).item()
    return result


def _value(node: SyntaxExpr, model: Model) -> Value:
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
