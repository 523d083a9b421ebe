"""Terms written as Python are the integers that `evaluate` gives."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.sparse.uf import Floor, Sym, Term, TupleVar, UFCall, evaluate
from loopwright.sparse.uf.evaluate_terms import python_expression, python_function

NAMES = ("x", "y", "N", "M")
leaves = st.one_of(
    st.integers(-6, 6).map(Term.of),
    st.sampled_from((TupleVar("x"), TupleVar("y"), Sym("N"), Sym("M"))).map(Term.of),
)
divisors = st.one_of(
    st.integers(1, 6).map(Term.of), st.sampled_from((Sym("N"), Sym("M"))).map(Term.of)
)
terms = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] - pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, divisors).map(lambda pair: pair[0].floor(pair[1])),
        st.tuples(inner, divisors).map(lambda pair: pair[0] % pair[1]),
    ),
    max_leaves=10,
)


def value_of(term: Term, values: dict[str, int]) -> Any:
    names: dict[str, Any] = {}
    text = python_expression(term, lambda name: f"at[{name!r}]", names)
    return python_function(("at",), [f"return {text}"], names)(values)


@settings(max_examples=some(300), deadline=None)
@given(terms, st.tuples(*[st.integers(-9, 9)] * 2, *[st.integers(1, 5)] * 2))
def test_the_same_integer(term: Term, numbers: tuple[int, ...]) -> None:
    values = dict(zip(NAMES, numbers, strict=True))
    assert value_of(term, values) == evaluate(term, values, {})


def test_divisors_are_looked_at_where_they_may_not_be_positive() -> None:
    term = Term.of(Floor(Term.of(Sym("N")) + 7, Term.of(Sym("M"))))
    assert value_of(term, {"N": 5, "M": 4}) == 3
    with pytest.raises(UsageError, match="divisor"):
        value_of(term, {"N": 5, "M": 0})
    with pytest.raises(UsageError, match="divisor"):
        value_of(Term.of(Floor(Term.of(Sym("N")), Term.of(-2))), {"N": 5})


def test_functions_have_no_value() -> None:
    with pytest.raises(UsageError, match="'f' has no value"):
        value_of(Term.of(UFCall("f", (Term.of(0),))), {})
