"""Spans of terms: no value lies outside, and for plain sums both ends are met."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.sparse.synthesis.value_intervals import Interval, interval_of
from loopwright.sparse.uf import Sym, Term, evaluate, parse_linear

SIZES = {"NR": 5, "NC": 7}
SPANS = {
    "i": Interval(Term.of(0), Term.of(Sym("NR")) - 1),
    "j": Interval(Term.of(0), Term.of(Sym("NC")) - 1),
    "rlen": Interval(Term.of(0), Term.of(Sym("NC"))),
}
atoms = st.sampled_from(("i", "j", "floor(i/2)", "floor((i+j)/3)", "floor((0-j)/2)", "NR"))
sums = st.lists(st.tuples(st.integers(-3, 3), atoms), min_size=1, max_size=3)


def values(text: str) -> list[int]:
    term = parse_linear(text, ("i", "j"))
    return [
        evaluate(term, {"i": i, "j": j, **SIZES}, {})
        for i, j in itertools.product(range(SIZES["NR"]), range(SIZES["NC"]))
    ]


def ends(text: str) -> tuple[int, int]:
    found = interval_of(parse_linear(text, ("i", "j")), SPANS)
    assert found is not None
    assert evaluate(found.count, SIZES, {}) == 1 + evaluate(found.high - found.low, SIZES, {})
    return evaluate(found.low, SIZES, {}), evaluate(found.high, SIZES, {})


@given(sums, st.integers(-5, 5))
def test_no_value_lies_outside(parts: list[tuple[int, str]], constant: int) -> None:
    text = "+".join(f"({factor})*{atom}" for factor, atom in parts) + f"+({constant})"
    low, high = ends(text)
    assert low <= min(values(text))
    assert max(values(text)) <= high


@pytest.mark.parametrize("text", ["i", "j-i", "3*i-2*j+4", "floor(i/2)", "i mod 3", "NR-i", "7"])
def test_ends_are_met(text: str) -> None:
    assert ends(text) == (min(values(text)), max(values(text)))


def test_index_arrays_have_the_span_of_their_range() -> None:
    found = interval_of(parse_linear("NC-rlen(i)", ("i",)), SPANS)
    assert found is not None
    assert (str(found.low), str(found.high)) == ("0", "NC")


@pytest.mark.parametrize("text", ["MORTON(i,j)", "i+other(j)", "floor(i/NR)", "k"])
def test_terms_without_a_span(text: str) -> None:
    assert interval_of(parse_linear(text, ("i", "j", "k")), SPANS) is None
