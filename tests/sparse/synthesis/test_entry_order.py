"""What one order says of another, against streams sorted by brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.sparse.curves import CURVES
from loopwright.sparse.synthesis.entry_order import Order, follows, is_contiguous_in, left_to_sort
from loopwright.sparse.uf import Term, TupleVar, evaluate, parse_linear

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
    ("wanted", "given_", "count"),
    [
        (("i", "j"), ("i", "j"), 0),
        (("i",), ("i", "j"), 0),
        (("i", "j"), ("j",), 1),  # rows last: one pass over i
        (("j", "i"), ("i", "j"), 1),
        (("i", "j"), (), 2),
        (("i", "j", "k"), ("j", "k"), 1),
        (("floor(i/2)",), ("i", "j"), 0),
        (("floor(i/2)", "floor(j/2)"), ("i", "j"), 2),
        (("MORTON(i,j)",), ("i", "j"), 1),
    ],
)
def test_passes_that_are_left(wanted: tuple[str, ...], given_: tuple[str, ...], count: int) -> None:
    assert left_to_sort(tuple(map(term, wanted)), tuple(map(term, given_))) == count


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


def test_equal_entries_need_no_order() -> None:
    i, j = (Term.of(TupleVar(name)) for name in "ij")
    assert follows((i, j), (j,), fixed=(i,))
    assert not follows((i, j), (j,))
