"""Names obey the laws that keep every bit, and no others."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT32, INT64
from loopwright.ir.terms import Terms

STRICT, FREE = Terms(reassociate=False), Terms(reassociate=True)
A, B, C = (STRICT.initial("x", k) for k in range(3))


def number(value: float, dtype: str = "float64") -> int:
    return STRICT.constant(np.dtype(dtype).type(value))


@pytest.mark.parametrize("op", ["sub", "div", "lt", "le", "floordiv", "mod", "pow"])
def test_operands_do_not_commute(op: str) -> None:
    assert STRICT.binary(op, FLOAT64, A, B) != STRICT.binary(op, FLOAT64, B, A)


@pytest.mark.parametrize(
    ("terms", "dtype", "op", "is_free"),
    [
        (STRICT, FLOAT64, "add", False),
        (STRICT, FLOAT64, "mul", False),
        (STRICT, FLOAT64, "min", True),
        (STRICT, INT32, "add", True),
        (STRICT, INT32, "mul", True),
        (STRICT, BOOL, "add", True),
        (FREE, FLOAT64, "add", True),
        (FREE, FLOAT64, "mul", True),
    ],
)
def test_association(terms: Terms, dtype: object, op: str, is_free: bool) -> None:
    def both(x: int, y: int) -> int:
        return terms.binary(op, dtype, x, y)  # type: ignore[arg-type]

    assert (both(both(A, B), C) == both(A, both(B, C))) == is_free


def test_signs() -> None:
    minus = STRICT.unary("neg", FLOAT64, B)
    assert STRICT.binary("sub", FLOAT64, A, B) == STRICT.binary("add", FLOAT64, A, minus)
    assert STRICT.unary("neg", FLOAT64, minus) == B
    for op in ("mul", "div"):
        negative = STRICT.unary("neg", FLOAT64, STRICT.binary(op, FLOAT64, A, B))
        assert STRICT.binary(op, FLOAT64, A, minus) == negative
    # -(a + b) and -a + -b are zeros of different signs where a = -b.
    total = STRICT.unary("neg", FLOAT64, STRICT.binary("add", FLOAT64, A, B))
    apart = STRICT.binary("add", FLOAT64, STRICT.unary("neg", FLOAT64, A), minus)
    assert total != apart


def test_numbers() -> None:
    assert STRICT.binary("mul", FLOAT64, A, number(1.0)) == A
    assert STRICT.binary("add", FLOAT64, A, number(0.0)) != A
    assert FREE.binary("add", FLOAT64, A, FREE.constant(np.float64(0))) == A
    assert number(0.0) != number(-0.0)
    assert number(float("nan")) == number(float("nan")) != number(float("inf"))
    twice = FREE.binary("mul", FLOAT64, A, FREE.constant(np.float64(2)))
    assert FREE.binary("add", FLOAT64, A, A) == twice
    half = FREE.binary("mul", FLOAT64, twice, FREE.constant(np.float64(0.5)))
    assert half == A
    assert STRICT.constant(np.int32(-1)) == STRICT.unary("not", INT32, STRICT.constant(np.int32(0)))


@pytest.mark.parametrize(
    ("op", "dtype", "nothing"),
    [
        ("max", "float64", -math.inf),
        ("min", "float32", math.inf),
        ("max", "int8", -128),
        ("min", "int64", 2**63 - 1),
        ("max", "uint16", 0),
        ("min", "uint16", 2**16 - 1),
        ("and", "int32", -1),
        ("and", "uint8", 255),
        ("or", "int16", 0),
        ("xor", "int64", 0),
        ("add", "bool", False),
        ("mul", "bool", True),
    ],
)
def test_what_changes_nothing(op: str, dtype: str, nothing: float) -> None:
    kind = DTYPES[dtype]
    constant = STRICT.constant(kind.numpy.type(nothing))
    assert STRICT.binary(op, kind, A, constant) == A
    assert STRICT.binary(op, kind, constant, constant) == constant
    both = STRICT.binary(op, kind, A, B)
    assert STRICT.binary(op, kind, STRICT.binary(op, kind, constant, A), B) == both


def test_constants_among_operands_are_one() -> None:
    def least(*names: int) -> int:
        return reduce(lambda x, y: STRICT.binary("min", FLOAT64, x, y), names)

    assert least(least(A, number(3.0)), number(1.0)) == least(A, number(1.0))
    assert least(A, number(0.0)) != least(A, number(1.0))
    assert least(least(A, number(0.0)), number(-0.0)) != least(A, number(0.0))
    bits = [STRICT.constant(np.uint8(k)) for k in (0b1100, 0b1010, 0b1000)]
    both = STRICT.binary(
        "and", DTYPES["uint8"], STRICT.binary("and", DTYPES["uint8"], A, bits[0]), bits[1]
    )
    assert both == STRICT.binary("and", DTYPES["uint8"], A, bits[2])
    # The least number of 64 bits and -4 agree modulo the prime.
    lowest, four = (STRICT.constant(np.int64(k)) for k in (-(2**63), -4))
    assert STRICT.binary("max", INT64, A, lowest) == A != STRICT.binary("max", INT64, A, four)


def test_conversions() -> None:
    int8, int64 = DTYPES["int8"], DTYPES["int64"]
    assert STRICT.cast(int64, int8, A) == A
    assert STRICT.cast(int8, int64, A) != A
    assert STRICT.cast(INT32, FLOAT64, A) != STRICT.cast(INT32, DTYPES["float32"], A)
    narrow_sum = STRICT.cast(int64, INT32, STRICT.binary("add", int64, A, B))
    assert narrow_sum == STRICT.binary("add", INT32, A, B)


def test_fused_product_is_product_and_sum() -> None:
    product = STRICT.binary("mul", FLOAT64, A, B)
    assert STRICT.call("fma", FLOAT64, A, B, C) == STRICT.binary("add", FLOAT64, product, C)
    assert STRICT.call("sqrt", FLOAT64, A) != STRICT.call("exp", FLOAT64, A)


def test_choices() -> None:
    test = STRICT.binary("lt", FLOAT64, A, B)
    assert test == STRICT.binary("gt", FLOAT64, B, A)
    assert STRICT.select(FLOAT64, test, A, A) == A
    assert STRICT.select(FLOAT64, test, A, B) != STRICT.select(FLOAT64, test, B, A)


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge"])
def test_choices_of_the_lesser(op: str) -> None:
    test = FREE.binary(op, FLOAT64, A, B)
    least, most = (FREE.binary(extreme, FLOAT64, A, B) for extreme in ("min", "max"))
    if op[0] == "g":
        least, most = most, least
    assert FREE.select(FLOAT64, test, A, B) == least
    assert FREE.select(FLOAT64, test, B, A) == most
    assert FREE.select(FLOAT64, test, A, C) not in (least, most)
    # A NaN takes another way.
    assert STRICT.select(FLOAT64, STRICT.binary(op, FLOAT64, A, B), A, B) not in (least, most)
    assert STRICT.select(INT32, STRICT.binary(op, INT32, A, B), A, B) == STRICT.binary(
        "min" if op[0] == "l" else "max", INT32, A, B
    )


@given(st.permutations(range(5)), st.lists(st.integers(-3, 3), min_size=5, max_size=5))
def test_reordered_sums_have_one_name(order: list[int], factors: list[int]) -> None:
    def total(places: list[int]) -> int:
        name = FREE.constant(np.float64(0))
        for place in places:
            factor = FREE.constant(np.float64(factors[place]))
            part = FREE.binary("mul", FLOAT64, FREE.initial("x", place), factor)
            name = FREE.binary("add", FLOAT64, name, part)
        return name

    assert total(order) == total(sorted(order))
    if factors[0]:
        assert total(order) != total([place for place in order if place])
