"""Absolute values of integers in C: by the compiler's function where the source was C."""

from __future__ import annotations

import pytest

from loopwright.backends.c_text.c_expression_printer import CExpressions
from loopwright.backends.c_text.c_syntax import ATOM, CText
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Binary, Const, Expr, Select, Unary, Var


def forms(kind: str) -> list[Expr]:
    x = Var("x", DTYPES[kind])
    zero, negated = Const(0, x.dtype), Unary("neg", x)
    return [
        Select(Binary("lt", x, zero), negated, x),
        Select(Binary("ge", x, zero), x, negated),
        Unary("abs", x),
    ]


def text(expr: Expr, *, from_c: bool) -> str:
    printer = CExpressions(from_c=from_c)
    printer.spelling["x"] = CText("x", ATOM)
    return str(printer.value(expr))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("int16", "(short)__builtin_abs(x)"),
        ("int32", "__builtin_abs(x)"),
        ("int64", "__builtin_labs(x)"),
    ],
)
def test_by_the_function_of_the_compiler(kind: str, expected: str) -> None:
    assert {text(form, from_c=True) for form in forms(kind)} == {expected}
