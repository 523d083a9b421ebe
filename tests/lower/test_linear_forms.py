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
    ("given_text", "expected"),
    [
        ("n - 1 + 1", "n"),
        ("(i + j) - (j - 3)", "i + 3"),
        ("2 * (i - 4) + 3 * i", "i * 5 - 8"),
        ("-i", "0 - i"),
        ("1 - n", "1 - n"),
        ("i * j - j * i", "i * j - j * i"),
        ("min(n, n + 3)", "n"),
        ("min(min(n, m), n - 1)", "min(n - 1, m)"),
        ("max(1 + i, i)", "i + 1"),
        ("(32 * i + j) // 32", "i + j // 32"),
        ("(32 * i + 64) // 32", "i + 2"),
        ("(32 * i + j + 33) % 32", "(j + 1) % 32"),
        ("(64 + 4) % 32", "4"),
        ("i < i + 1", "True"),
        ("n <= n - 1", "False"),
        ("i == i + 1", "False"),
        ("i != i", "False"),
        ("(i < i + 1) & (j < n)", "j < n"),
        ("(i > i + 1) | (j < n)", "j < n"),
        ("(i > i + 1) & (j < n)", "False"),
        ("3 if i < i + 1 else 4", "3"),
        ("i // 0", "i // 0"),
    ],
)
def test_normal_form(given_text: str, expected: str) -> None:
    assert expr_text(normal(index(given_text))) == expected


def test_constants_are_added_inside_minima() -> None:
    assert expr_text(add_constant(index("min(n - 1, t + 31)"), 1)) == "min(n, t + 32)"
    assert expr_text(add_constant(index("n - 1 if n < m else max(m, 2)"), 1)) == (
        "n if n < m else max(m + 1, 3)"
    )


@pytest.mark.parametrize(
    ("cond", "form"),
    [("i < n", "n - i - 1"), ("i <= n", "n - i"), ("i > n", "i - n - 1"), ("i >= n", "i - n")],
)
def test_nonnegative_form(cond: str, form: str) -> None:
    found = nonnegative_form(index(cond))
    assert found is not None
    assert expr_text(found.expr) == form


def test_other_conditions_have_no_form() -> None:
    assert nonnegative_form(index("i == n")) is None
    assert nonnegative_form(Var("i")) is None


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
