"""Expressions: folding keeps their values."""

from hypothesis import given
from hypothesis import strategies as st

from loopwright.ir.expr import Const, Var
from loopwright.ir.interpret import evaluate

x, y = Var("x"), Var("y")


@given(
    st.sampled_from(["__add__", "__sub__", "__mul__", "__floordiv__", "__mod__", "min", "max"]),
    st.integers(-9, 9),
    st.integers(-9, 9),
)
def test_folding_keeps_the_value(name: str, a: int, b: int) -> None:
    wanted = evaluate(getattr(x, name)(y), {"x": a, "y": b})
    for left, right in ((x, Const(b)), (Const(a), y), (Const(a), Const(b))):
        assert evaluate(getattr(left, name)(right), {"x": a, "y": b}) == wanted
