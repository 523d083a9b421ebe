"""What orders and spans of terms say, against streams and values by brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.sparse.curves import CURVES
from loopwright.sparse.synthesis.entry_order import Order, follows, is_contiguous_in, left_to_sort
from loopwright.sparse.synthesis.value_intervals import Interval, interval_of
from loopwright.sparse.uf import Sym, Term, evaluate, parse_linear

TERMS = ("i", "j", "k", "floor(i/2)", "floor(j/2)", "i mod 2", "j mod 2", "MORTON(i,j)")
Point = tuple[int, int, int]

orders = st.lists(st.sampled_from(TERMS), max_size=4, unique=True).map(
    lambda texts: tuple(map(term, texts))
)
streams = st.lists(st.tuples(*[st.integers(0, 5)] * 3), max_size=24)


def term(text: str) -> Term:
    return parse_linear(text, ("i", "j", "k"))


def key(order: Order, point: Point) -> tuple[int, ...]:
    values = dict(zip("ijk", point, strict=True))
    return tuple(evaluate(t, values, CURVES) for t in order)


def in_order(points: list[Point], order: Order, seed: int) -> list[Point]:
    """The points in an order, ties drawn at random."""
    drawn = [points[n] for n in np.random.default_rng(seed).permutation(len(points))]
    return sorted(drawn, key=lambda point: key(order, point))


def ascends(points: list[Point], order: Order) -> bool:
    keys = [key(order, point) for point in points]
    return all(a <= b for a, b in itertools.pairwise(keys))


def groups(points: list[Point], fixed: Order) -> list[list[Point]]:
    parts: dict[tuple[int, ...], list[Point]] = {}
    for point in points:
        parts.setdefault(key(fixed, point), []).append(point)
    return list(parts.values())


@given(orders, orders, orders, streams, st.integers(0, 99))
def test_follows_is_never_wrong(
    wanted: Order, given_: Order, fixed: Order, points: list[Point], seed: int
) -> None:
    """Where it says yes, every stream in the given order is in the wanted one."""
    if follows(wanted, given_, fixed):
        for part in groups(in_order(points, given_, seed), fixed):
            assert ascends(part, wanted)


@given(orders, orders, streams, st.integers(0, 99))
def test_stable_passes_over_what_is_left_sort(
    wanted: Order, given_: Order, points: list[Point], seed: int
) -> None:
    found = in_order(points, given_, seed)
    count = left_to_sort(wanted, given_)
    for one in reversed(wanted[:count]):
        found.sort(key=lambda point, one=one: key((one,), point))
    assert ascends(found, wanted)


@given(orders, orders, streams, st.integers(0, 99))
def test_runs_are_never_wrong(group: Order, order: Order, points: list[Point], seed: int) -> None:
    """Where it says yes, entries of a group stand side by side."""
    if is_contiguous_in(group, order):
        keys = [key(group, point) for point in in_order(points, order, seed)]
        starts = [k for k, _ in itertools.groupby(keys)]
        assert len(starts) == len(set(starts))


@pytest.mark.parametrize(
    ("group", "order", "is_run"),
    [
        (("i",), ("i", "j"), True),
        (("j",), ("i", "j"), False),
        (("i", "j"), ("j", "i"), True),
        (("floor(i/2)", "floor(j/2)"), ("MORTON(i,j)",), True),
        (("floor(i/2)", "floor(j/4)"), ("MORTON(i,j)",), False),
        (("floor(i/3)", "floor(j/3)"), ("MORTON(i,j)",), False),
        (("floor(i/2)",), ("floor(i/2)", "j"), True),
        (("i",), (), False),
    ],
)
def test_runs(group: tuple[str, ...], order: tuple[str, ...], is_run: bool) -> None:
    assert is_contiguous_in(map(term, group), tuple(map(term, order))) is is_run


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
