"""Terms: every law of the canonical form agrees with integer arithmetic, as does their Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.sparse.uf import (
    Floor,
    Sym,
    Term,
    TupleVar,
    UFCall,
    evaluate,
    parse_linear,
    substitute,
)
from loopwright.sparse.uf.evaluate_terms import python_expression, python_function

X, Y, N, M = (Term.of(a) for a in (TupleVar("x"), TupleVar("y"), Sym("N"), Sym("M")))
FUNCTIONS = {"f": lambda a: a * a - 3, "g": lambda a, b: (a - 2 * b, 7 * a)}

# An expression is a nested tuple; `build` makes the term, `value` computes with Python's integers.
leaves = st.one_of(
    st.integers(-6, 6), st.sampled_from(["x", "y", "N", "M"]).map(lambda name: (name,))
)
divisors = st.one_of(st.integers(1, 6), st.sampled_from([("N",), ("M",), ("*", ("N",), 2)]))
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*"), inner, inner),
        st.tuples(st.sampled_from(["floor", "mod"]), inner, divisors),
        st.tuples(
            st.just("floor"), inner, st.tuples(st.just("+"), st.just(("N",)), st.just(("M",)))
        ),
        st.tuples(st.just("f"), inner),
        st.tuples(st.sampled_from(["g0", "g1"]), inner, inner),
    ),
    max_leaves=8,
)
points = st.fixed_dictionaries(
    {
        "x": st.integers(-9, 9),
        "y": st.integers(-9, 9),
        "N": st.integers(1, 5),
        "M": st.integers(1, 5),
    }
)


def build(e: Any) -> Term:
    match e:
        case int():
            return Term.of(e)
        case (name,):
            return {"x": X, "y": Y, "N": N, "M": M}[name]
        case ("+", a, b):
            return build(a) + build(b)
        case ("-", a, b):
            return build(a) - build(b)
        case ("*", a, b):
            return build(a) * build(b)
        case ("floor", a, b):
            return build(a).floor(build(b))
        case ("mod", a, b):
            return build(a) % build(b)
        case ("f", a):
            return Term.of(UFCall("f", (build(a),)))
        case (("g0" | "g1") as g, a, b):
            return Term.of(UFCall("g", (build(a), build(b)), int(g[1])))
    raise AssertionError(e)


def value(e: Any, at: dict[str, int]) -> int:
    match e:
        case int():
            return e
        case (name,):
            return at[name]
        case ("+", a, b):
            return value(a, at) + value(b, at)
        case ("-", a, b):
            return value(a, at) - value(b, at)
        case ("*", a, b):
            return value(a, at) * value(b, at)
        case ("floor", a, b):
            return value(a, at) // value(b, at)
        case ("mod", a, b):
            return value(a, at) % value(b, at)
        case ("f", a):
            return FUNCTIONS["f"](value(a, at))
        case (("g0" | "g1") as g, a, b):
            return FUNCTIONS["g"](value(a, at), value(b, at))[int(g[1])]
    raise AssertionError(e)


@settings(max_examples=some(300), deadline=None)
@given(expressions, points)
def test_arithmetic_floor_and_mod_are_exact(e: Any, at: dict[str, int]) -> None:
    assert evaluate(build(e), at, FUNCTIONS) == value(e, at)


@settings(max_examples=some(150), deadline=None)
@given(expressions)
def test_text_round_trip(e: Any) -> None:
    term = build(e)
    assert parse_linear(str(term), ["x", "y"]) == term


@settings(max_examples=some(100), deadline=None)
@given(expressions, expressions, points)
def test_substitution_is_evaluation(e: Any, put: Any, at: dict[str, int]) -> None:
    changed = substitute(build(e), {TupleVar("x"): build(put), TupleVar("y"): X})
    there = {**at, "x": value(put, at), "y": at["x"]}
    assert evaluate(changed, at, FUNCTIONS) == value(e, there)


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ((X * 4 + 7).floor(4), "x+1"),
        ((X * 2 + 3).floor(4), "floor((x+1)/2)"),
        ((N * X + Y).floor(N), "x+floor(y/N)"),
        ((N * X * 2 + N).floor(N), "2*x+1"),
        ((N * 2 + 3).floor(N * 2), "floor(1/N)+1"),
        (((N + M) * 3).floor(N + M), "3"),
        (X.floor(2).floor(3), "floor(x/6)"),
        ((X.floor(2) + 1).floor(2), "floor((x+2)/4)"),
        (X % 4, "x-4*floor(x/4)"),
        ((X * N + Y) % N, "y-floor(y/N)*N"),
        (Term.of(-7).floor(2), "-4"),
        (Term.of(0).floor(N), "0"),
    ],
)
def test_floor_takes_out_what_divides(term: Term, text: str) -> None:
    assert str(term) == text


ARRAY = np.array([3, 1, 4], dtype=np.int32)


def value_of_text(text: str, **functions: object) -> int:
    return evaluate(parse_linear(text, ["i"]), {"i": 2, "N": 5}, functions)  # type: ignore[arg-type]


def test_functions_of_three_kinds() -> None:
    assert value_of_text("f(i) + N", f=ARRAY) == 9
    assert value_of_text("f(i-1, 0)", f=ARRAY[:, None]) == 1
    assert value_of_text("f(i)", f={(2,): 7}) == 7
    assert value_of_text("f(i)[1] - f(i)", f=lambda i: (i, 10)) == 8
    assert type(value_of_text("f(i)", f=ARRAY)) is int
    assert value_of_text("f(i)*N", f=np.array([0, 0, 2**31 - 1], dtype=np.int32)) == 5 * (2**31 - 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: value_of_text("f(i+1)", f=ARRAY), "f(3) lies outside the array 'f'"),
        (lambda: value_of_text("f(i-3)", f=ARRAY), "f(-1) lies outside the array 'f'"),
        (lambda: value_of_text("f(i,i)", f=ARRAY), "f(2, 2) lies outside the array 'f'"),
        (lambda: value_of_text("f(i)", f={}), "the table of 'f' has no entry for f(2)"),
        (lambda: value_of_text("f(i)[2]", f=lambda i: (i, i)), "f(2) has no result 2"),
        (lambda: value_of_text("f(i)[1]", f=ARRAY), "f(2) has no result 1"),
        (lambda: value_of_text("f(i)"), "the function 'f' has no value"),
        (lambda: value_of_text("M"), "'M' has no value"),
        (
            lambda: value_of_text("floor(i/(N-5))"),
            "the divisor of floor(i/(N-5)) is not positive",
        ),
    ],
    ids=[
        "after",
        "before",
        "rank",
        "table",
        "result",
        "array result",
        "function",
        "name",
        "divisor",
    ],
)
def test_what_has_no_value_is_told(make: Callable[[], int], message: str) -> None:
    with pytest.raises(UsageError) as error:
        make()
    assert error.value.message == message


NAMES = ("x", "y", "N", "M")
written_leaves = st.one_of(
    st.integers(-6, 6).map(Term.of),
    st.sampled_from((TupleVar("x"), TupleVar("y"), Sym("N"), Sym("M"))).map(Term.of),
)
written_divisors = st.one_of(
    st.integers(1, 6).map(Term.of), st.sampled_from((Sym("N"), Sym("M"))).map(Term.of)
)
terms = st.recursive(
    written_leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] - pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, written_divisors).map(lambda pair: pair[0].floor(pair[1])),
        st.tuples(inner, written_divisors).map(lambda pair: pair[0] % pair[1]),
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
