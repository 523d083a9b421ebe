"""Expressions: their types, and the folding that keeps bounds readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Binary, Const, Expr, Var, as_expr
from loopwright.ir.interpret import evaluate

x, y = Var("x"), Var("y")
u = Var("u", FLOAT64)


@pytest.mark.parametrize(
    ("expr", "plain"),
    [
        (x + 0, x),
        (0 + x, x),
        (x - 0, x),
        (0 - x, Binary("sub", Const(0), x)),
        (x * 1, x),
        (1 * x, x),
        (x * 0, Const(0)),
        (x // 1, x),
        (x // 0, Binary("floordiv", x, Const(0))),
        (Const(7) // 0, Binary("floordiv", Const(7), Const(0))),
        (Const(7) % 4 + 2 * Const(3), Const(9)),
        (Const(-7) // 2, Const(-4)),
        (Const(3).min(5), Const(3)),
        (Const(3).max(5), Const(5)),
        (10 - Const(4), Const(6)),
        (u + u, Binary("add", u, u)),
        (u * Const(0.0, FLOAT64), Binary("mul", u, Const(0.0, FLOAT64))),
    ],
)
def test_folding(expr: Expr, plain: Expr) -> None:
    assert expr == plain


@given(
    st.sampled_from(["__add__", "__sub__", "__mul__", "__floordiv__", "__mod__", "min", "max"]),
    st.integers(-9, 9),
    st.integers(-9, 9),
)
def test_folding_keeps_the_value(name: str, a: int, b: int) -> None:
    wanted = evaluate(getattr(x, name)(y), {"x": a, "y": b})
    for left, right in ((x, Const(b)), (Const(a), y), (Const(a), Const(b))):
        assert evaluate(getattr(left, name)(right), {"x": a, "y": b}) == wanted


def test_equality_is_that_of_structure() -> None:
    assert x + y == Binary("add", x, y)
    assert x + y != y + x
    assert len({x, Var("x"), Var("x", FLOAT64)}) == 2
    assert as_expr(3) == Const(3)
    assert as_expr(u) is u
