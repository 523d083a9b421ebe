"""Linear forms and normal forms of index arithmetic, and that values stay the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Unary, Var
from loopwright.ir.interpret import evaluate
from loopwright.ir.text import expr_text
from loopwright.lower.linear_forms import add_constant, linear, nonnegative_form, normal
from programs import parse


def index(text: str) -> Expr:
    return parse(text, {}, INT64)


@pytest.mark.parametrize(
    ("cond", "form"),
    [("i < n", "n - i - 1"), ("i <= n", "n - i"), ("i > n", "i - n - 1"), ("i >= n", "i - n")],
)
def test_nonnegative_form(cond: str, form: str) -> None:
    found = nonnegative_form(index(cond))
    assert found is not None
    assert expr_text(found.expr) == form


NAMES = ("i", "j", "n")
leaves = st.one_of(st.integers(-5, 5).map(Const), st.sampled_from(NAMES).map(Var))


def grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    binary = st.builds(Binary, st.sampled_from(["add", "sub", "mul", "min", "max"]), inner, inner)
    divided = st.builds(
        Binary, st.sampled_from(["floordiv", "mod"]), inner, st.integers(1, 6).map(Const)
    )
    return st.one_of(binary, divided, st.builds(Unary, st.just("neg"), inner))


@given(
    st.recursive(leaves, grown, max_leaves=12),
    st.recursive(leaves, grown, max_leaves=6),
    st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]),
    st.dictionaries(st.sampled_from(NAMES), st.integers(-9, 9), min_size=3, max_size=3),
)
def test_normal_form_means_the_same(x: Expr, y: Expr, op: str, values: dict[str, int]) -> None:
    for expr in (x, y, Binary(op, x, y)):
        assert evaluate(normal(expr), values) == evaluate(expr, values)
    assert evaluate(add_constant(x, 3), values) == evaluate(x, values) + 3
    assert evaluate(linear(x).expr, values) == evaluate(x, values)
    assert normal(normal(x)) == normal(x)
