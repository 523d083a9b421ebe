"""Slacks bound what rounding did: computed numbers against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.shadow import slack_of_binary, slack_of_call, slack_of_cast, slack_of_unary

RULES = {
    "add": (np.add, lambda x, y: x + y),
    "sub": (np.subtract, lambda x, y: x - y),
    "mul": (np.multiply, lambda x, y: x * y),
    "div": (np.divide, lambda x, y: x / y),
}
numbers = st.floats(-100, 100, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6)
steps = st.lists(st.tuples(st.sampled_from(sorted(RULES)), numbers), max_size=12)


@given(numbers, steps)
def test_slack_bounds_the_error(first: float, chain: list[tuple[str, float]]) -> None:
    value, slack, exact = np.float32(first), 0.0, Fraction(float(np.float32(first)))
    for op, number in chain:
        other = np.float32(number)
        if op == "div" and other == 0:
            continue
        compute, rule = RULES[op]
        with np.errstate(all="ignore"):
            result = compute(value, other)
        slack = slack_of_binary(op, value, other, result, slack, 0.0)
        exact, value = rule(exact, Fraction(float(other))), result
    if math.isfinite(slack):
        assert abs(Fraction(float(value)) - exact) <= Fraction(slack)


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.sampled_from(["add", "sub", "mul"]))
def test_small_whole_numbers_do_not_round(x: int, y: int, op: str) -> None:
    a, b = np.float64(x), np.float64(y)
    assert slack_of_binary(op, a, b, RULES[op][0](a, b), 0.0, 0.0) == 0.0


def test_what_rounds() -> None:
    one, three = np.float64(1), np.float64(3)
    assert 0 < slack_of_binary("div", one, three, one / three, 0.0, 0.0) < 1e-15
    assert slack_of_binary("div", three, one, three, 0.0, 0.0) == 0.0
    assert slack_of_binary("min", one, three, one, 1e-9, 0.0) == 1e-9
    assert slack_of_unary("neg", -one, 0.25) == 0.25


def test_what_rounding_decides_is_unknown() -> None:
    one, near = np.float64(1), np.float64(1 + 1e-12)
    yes = np.bool_(True)
    assert slack_of_binary("lt", one, near, yes, 1e-11, 0.0) == math.inf
    assert slack_of_binary("lt", one, np.float64(2), yes, 1e-11, 0.0) == 0.0
    assert slack_of_cast(one, np.int32(1), DTYPES["int32"], 1e-11) == math.inf
    assert slack_of_binary("div", one, np.float64(1e-12), one, 0.0, 1e-11) == math.inf
    assert slack_of_binary("add", np.int64(1), np.int64(2), np.int64(3), math.inf, 0.0) == math.inf
    # An unknown number times zero is still unknown: it may be infinite.
    assert slack_of_binary("mul", one, np.float64(0), np.float64(0), math.inf, 0.0) == math.inf


@pytest.mark.parametrize(("x", "is_exact"), [(4.0, True), (2.0, False), (2.25, True)])
def test_square_roots(x: float, is_exact: bool) -> None:
    value = np.float64(x)
    assert (slack_of_call("sqrt", (value,), np.sqrt(value), [0.0]) == 0.0) == is_exact


def test_functions_of_libraries() -> None:
    one = np.float64(1)
    assert slack_of_call("exp", (one,), np.exp(one), [0.0]) > 0
    assert slack_of_call("exp", (one,), np.exp(one), [1e-9]) == math.inf
    assert slack_of_call("floor", (one,), one, [0.0]) == 0.0
    assert slack_of_call("fma", (one, one, one), np.float64(2), [0.0, 0.0, 0.0]) == 0.0
    tenth = np.float64(0.1)
    assert slack_of_call("fma", (tenth, tenth, one), tenth * tenth + one, [0.0] * 3) > 0


def test_conversions() -> None:
    assert slack_of_cast(np.float64(0.5), np.float32(0.5), DTYPES["float32"], 0.0) == 0.0
    tenth = np.float64(0.1)
    assert slack_of_cast(tenth, np.float32(tenth), DTYPES["float32"], 0.0) > 0
    assert slack_of_cast(np.int64(3), np.float64(3), DTYPES["float64"], 0.0) == 0.0


def test_complex_numbers() -> None:
    x, y = np.complex128(1 + 2j), np.complex128(3 - 1j)
    assert slack_of_binary("mul", x, y, x * y, 0.0, 0.0) == 0.0
    assert slack_of_binary("div", x, y, x / y, 0.0, 0.0) > 0
