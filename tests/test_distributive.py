"""Where times distributes over plus: the law as stated against the law as it is."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einsum_oracle import operators_of
from loopwright.ir.dtypes import DTYPES, DType
from loopwright.semirings import SEMIRINGS, Semiring, make_semiring, maximum, minimum
from loopwright.semirings.distributive import (
    Law,
    ValueRange,
    absorbing,
    holds_within,
    law_of,
    times_in_any_order,
)

PAIRS = [
    pytest.param(ring, dtype, id=f"{ring.name}-{dtype}")
    for ring in SEMIRINGS.values()
    for dtype in DTYPES.values()
    if dtype.kind in ring.kinds
]
RANGED = {"min_plus", "max_plus", "max_times", "min_times"}


def sides(ring: Semiring, dtype: DType, x: Any, y: Any, z: Any) -> tuple[np.ndarray, np.ndarray]:
    """x times (y plus z), and what distribution makes of it, with signed zeros in order."""
    plus: Any
    plus, times = operators_of(ring.name, dtype.numpy)
    if dtype.is_float:
        plus = {"min": least, "max": greatest}.get(str(ring.plus), plus)
        times = {"min": least, "max": greatest}.get(str(ring.times), times)
    x, y, z = (np.asarray(value, dtype.name) for value in (x, y, z))
    with np.errstate(all="ignore"):
        return times(x, plus(y, z)), plus(times(x, y), times(x, z))


def least(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where((x == y) & np.signbit(x), x, np.where(x == y, y, np.minimum(x, y)))


def greatest(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where((x == y) & np.signbit(x), y, np.where(x == y, x, np.maximum(x, y)))


def same(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Equal bit by bit, but for the kind of NaN."""
    is_nan = (left != left) & (right != right)
    return is_nan | ((left == right) & (np.signbit(left.real) == np.signbit(right.real)))


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("ring", "dtype"), PAIRS)
def test_stated_laws(ring: Semiring, dtype: DType) -> None:
    is_ranged = ring.name in RANGED and dtype.kind != "u"
    assert law_of(ring, dtype) is (Law.RANGE if is_ranged else Law.ALL)
    one, wide = ValueRange(-1, 1), ValueRange(-100, 100)
    assert times_in_any_order(ring, dtype, [one, one, one])
    if dtype.name == "int8":
        assert times_in_any_order(ring, dtype, [wide, wide]) is not is_ranged


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool"])
@pytest.mark.parametrize("name", sorted(set(SEMIRINGS) - RANGED))
def test_laws_for_all_elements(name: str, dtype: str) -> None:
    """Every x, every y and some z of the small types."""
    every = np.arange(256).astype(np.uint8).view(dtype) if dtype != "bool" else np.array([0, 1])
    x, y, z = np.ix_(every.astype(dtype), every.astype(dtype), every.astype(dtype)[::7])
    left, right = sides(SEMIRINGS[name], DTYPES[dtype], x, y, z)
    np.testing.assert_array_equal(left, right)


# -- laws that depend on the elements ------------------------------------------------------------

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -2.5, math.inf, -math.inf, 1e308, -1e308, 1e-300, 5e-324]


@st.composite
def operands(draw: st.DrawFn) -> tuple[Semiring, DType, list[list[Any]]]:
    """Three operands of two elements each."""
    ring = SEMIRINGS[draw(st.sampled_from(sorted(RANGED)))]
    names = ["int8", "uint8", "int64", "float64", "float32"]
    dtype = DTYPES[draw(st.sampled_from([n for n in names if DTYPES[n].kind in ring.kinds]))]
    if dtype.is_float:
        numbers = st.sampled_from(FLOATS) | st.floats(0, 4)
        rounded = numbers.map(lambda x: rounded_to(dtype, x))
        return ring, dtype, [draw(st.lists(rounded, min_size=2, max_size=2)) for _ in range(3)]
    limits = np.iinfo(dtype.name)
    near = st.integers(0, 6) | st.integers(max(limits.min, -6), 6)
    numbers = near | st.integers(int(limits.min), int(limits.max))
    return ring, dtype, [draw(st.lists(numbers, min_size=2, max_size=2)) for _ in range(3)]


def rounded_to(dtype: DType, x: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.array(x).astype(dtype.name))


def range_of(elements: list[Any]) -> ValueRange:
    low = min(elements)
    if low == 0 and any(math.copysign(1, x) < 0 for x in elements):
        low = -0.0
    return ValueRange(low, max(elements))


@given(operands())
def test_the_law_holds_where_it_is_said_to(case: tuple[Semiring, DType, list[list[Any]]]) -> None:
    """Both for elements and for products of elements of two operands."""
    ring, dtype, (first, second, third) = case
    infinite = absorbing(ring, dtype)
    finite = [[x for x in group if x != infinite] for group in (first, second, third)]
    is_all = law_of(ring, dtype) is Law.ALL
    if not is_all and not holds_within(ring, dtype, (range_of(group or [0]) for group in finite)):
        return
    times = operators_of(ring.name, dtype.numpy)[1]
    with np.errstate(all="ignore"):
        crossed = np.ix_(np.array(first, dtype.name), np.array(second, dtype.name))
        products = times(*crossed).ravel()
    for x, (y, z) in ((first, third), (second, first), (third, second), (products, third)):
        left, right = sides(ring, dtype, np.array(x, dtype.name), y, z)
        assert same(left, right).all()
    if not dtype.is_float:  # whose products may be rounded in another order
        x, y, z = np.ix_(*(np.array(group, dtype.name) for group in (first, second, third)))
        np.testing.assert_array_equal(times(times(x, y), z), times(x, times(y, z)))
    # A product is reduced, too, before the next factor comes.
    for x, y in itertools.combinations(products, 2):
        left, right = sides(ring, dtype, np.array(third, dtype.name), x, y)
        assert same(left, right).all()


# -- semirings of one's own ----------------------------------------------------------------------


def test_laws_of_ones_own() -> None:
    float64, int64 = DTYPES["float64"], DTYPES["int64"]
    tropical = make_semiring("tropical", minimum, lambda x, y: x + y, math.inf, 0)
    assert law_of(tropical, float64) is Law.RANGE
    bounded = make_semiring("bounded", minimum, lambda x, y: x + y, 1000, 0, check=False)
    assert law_of(bounded, int64) is Law.UNKNOWN
    ring = make_semiring("ring", "add", "mul", 0, 1)
    assert law_of(ring, int64) is Law.ALL
    odd = make_semiring("odd", "sub", "mul", 0, 1, check=False)
    assert law_of(odd, float64) is Law.UNKNOWN
    bits = make_semiring("bits", "or", "or", 0, 0, check=False)
    assert law_of(bits, int64) is Law.ALL
    assert law_of(make_semiring("yes", "xor", "or", 0, 0, check=False), int64) is Law.UNKNOWN


def test_functions_are_vouched_for_or_not() -> None:
    def product(x: Any, y: Any) -> Any:
        return maximum(x + y - 1, 0)

    samples = (0, 0.25, 0.5, 1)
    plain = make_semiring("fuzzy", maximum, product, 0, 1, samples=samples)
    assert law_of(plain, DTYPES["float64"]) is Law.UNKNOWN
    assert not times_in_any_order(plain, DTYPES["float64"], ())
    vouched = make_semiring("fuzzy", maximum, product, 0, 1, samples=samples, distributes=True)
    assert law_of(vouched, DTYPES["float64"]) is Law.ALL
