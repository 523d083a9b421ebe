"""Integers of semirings saturate: sums and products, their laws, and what kernels make of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import drawn
from einsum_oracle import SATURATING
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Var
from loopwright.ir.interpret import evaluate
from loopwright.semirings import SEMIRINGS

INTEGERS = [d for d in DTYPES if DTYPES[d].is_integer]


def pairs(one_in: int = 1, first: int = 0) -> list[tuple[str, str]]:
    """Semirings and the dtypes they take; one in so many, of every dtype one."""
    return [
        (name, dtype)
        for number, dtype in enumerate(INTEGERS, first)
        for name in drawn(
            [name for name in SATURATING if DTYPES[dtype].kind in SEMIRINGS[name].kinds],
            one_in,
            number,
        )
    ]


BYTES = [pair for pair in pairs() if pair[1] in ("int8", "uint8")]


def every(dtype: str) -> np.ndarray:
    """All numbers of a type of one byte, in order."""
    return np.sort(np.arange(256).astype(np.uint8).view(dtype))


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("name", "dtype"), BYTES)
def test_the_meaning_of_times_for_all_pairs(name: str, dtype: str) -> None:
    """Against a definition in plain integers."""
    of = DTYPES[dtype]
    limits, ring = np.iinfo(dtype), SEMIRINGS[name]
    low, high = int(limits.min), int(limits.max)
    times = ring.times_expr(of, Var("x", of), Var("y", of))
    absorbs = {"min_plus": high, "max_plus": low}.get(name)
    numbers = every(dtype)
    expected = np.empty((256, 256), dtype)
    for (i, x), (j, y) in itertools.product(enumerate(numbers), repeat=2):
        exact = int(x) * int(y) if "times" in name else int(x) + int(y)
        value = min(max(exact, low), high)
        expected[i, j] = value if absorbs is None or absorbs not in (x, y) else absorbs
    np.testing.assert_array_equal(SATURATING[name](numbers[:, None], numbers), expected)
    for x, y in itertools.product(range(0, 256, 5), range(256)):
        given = {"x": numbers[x], "y": numbers[y]}
        assert evaluate(times, given) == expected[x, y]
    found = lw.einsum("i,j->ij", numbers, numbers, semiring=name, threads=1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("name", "dtype"), BYTES)
def test_laws_for_all_triples(name: str, dtype: str) -> None:
    """The laws that semirings/distributive states, for every x, y and z they are stated for."""
    numbers = every(dtype)
    if "times" in name and dtype == "int8":
        numbers = numbers[numbers >= 0]
    times, plus = SATURATING[name], np.minimum if name.startswith("min") else np.maximum
    table = times(numbers[:, None], numbers)
    place = {int(x): at for at, x in enumerate(numbers)}
    # Products of elements are elements: the table serves all products of three.
    at = np.array([place[int(x)] for x in table.ravel()]).reshape(table.shape)
    y, z = numbers[:, None], numbers[None, :]
    best = np.searchsorted(numbers, plus(y, z))
    zero = numbers.dtype.type(SEMIRINGS[name].zero(DTYPES[dtype]))
    for here, x in enumerate(numbers):
        # x times (y plus z), and (x times y) plus (x times z)
        np.testing.assert_array_equal(table[here][best], plus(*np.ix_(table[here], table[here])))
        left, right = table[at[here]], table[here][at]  # (x times y) times z, x times (y times z)
        stated = regroups(x, y, z, zero) if name.endswith("plus") and dtype == "int8" else True
        assert np.all((left == right) | ~np.asarray(stated))
    if SEMIRINGS[name].annihilates(DTYPES[dtype]):
        assert (times(numbers, zero) == zero).all()
    np.testing.assert_array_equal(table, table.T)


def regroups(x: Any, y: np.ndarray, z: np.ndarray, infinite: Any) -> np.ndarray:
    """Whether an end absorbs, all terms have one sign, or no sum of them leaves the type."""
    terms = [np.asarray(term, np.int64) for term in (x, y, z)]
    low = sum(np.minimum(term, 0) for term in terms)
    high = sum(np.maximum(term, 0) for term in terms)
    is_inside = (low >= -128 + (infinite < 0)) & (high <= 127 - (infinite > 0))
    one_sign = (low == 0) | (high == 0)
    absorbs = (terms[0] == infinite) | (terms[1] == infinite) | (terms[2] == infinite)
    return np.asarray(is_inside | one_sign | absorbs)


def test_infinite_elements_do_not_forbid_the_quick_order() -> None:
    a = np.array([[3, np.iinfo(np.int32).max], [-2, 5]], np.int32)
    _, text = lw.einsum_path("ij,jk,kl->il", a, a, a, semiring="min_plus")
    assert "note" not in text
    a[1, 1] = 2**30
    _, text = lw.einsum_path("ij,jk,kl->il", a, a, a, semiring="min_plus")
    assert text.splitlines()[-1] == (
        "note: only the last step reduces: times of semiring 'min_plus' is not associative for "
        "these numbers of int32"
    )
