"""Terms: every law of the canonical form agrees with integer arithmetic."""

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.sparse.uf import (
    AtomProduct,
    Floor,
    Sym,
    Term,
    TupleVar,
    UFCall,
    evaluate,
    parse_linear,
    substitute,
    symbols,
    variables,
)

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


def test_equal_sums_are_one_object_whatever_way_they_were_written() -> None:
    fx = Term.of(UFCall("f", (X + 1,)))
    assert X + fx * 2 - X == fx + fx
    assert hash(X + Y) == hash(Y + X)
    assert (X + N) * (X - N) == X * X - N * N
    assert str(fx * 2 + N * X - 3) == "2*f(x+1)+x*N-3"


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


def test_floor_by_what_is_not_positive_is_refused() -> None:
    with pytest.raises(UsageError, match="positive divisors") as error:
        X.floor(0)
    assert error.value.found == "floor(x/0)"


def test_names_in_a_term() -> None:
    term = Term.of(UFCall("f", (X + Y * 2,)))
    assert variables(term + N) == {"x", "y"}
    assert symbols(term + N) == {"N"}


def test_replaced_factor_is_not_replaced_again() -> None:
    # x*N with N = 1 and x = y leaves y, which is not x's new value's new value.
    changed = substitute(X * N, {Sym("N"): Term.of(1), TupleVar("x"): Y, TupleVar("y"): X})
    assert changed == Y


def test_hash_does_not_travel() -> None:
    for noun in (
        TupleVar("x"),
        Sym("N"),
        X * N + 1,
        UFCall("f", (X,)),
        Floor(X, N),
        AtomProduct((TupleVar("x"),)),
    ):
        hash(noun)
        again = pickle.loads(pickle.dumps(noun))
        assert again == noun
        assert "_hash" not in vars(again)
