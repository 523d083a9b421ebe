"""Bounds of bits and shifts hold every value that operands within their bounds give."""

from __future__ import annotations

import itertools

import pytest

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.evaluate import evaluate, literal
from loopwright.ir.expr import Binary, Var
from loopwright.ir.intervals import Interval, interval

INT8 = DTYPES["int8"]
PAIRS = [((-3, 5), (0, 7)), ((2, 9), (1, 3)), ((-8, -1), (-2, 4)), ((0, 127), (0, 127))]


@pytest.mark.parametrize("op", ["and", "shl", "shr"])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_bounds_hold_all_values(op: str, pair: tuple[Interval, Interval]) -> None:
    expr = Binary(op, Var("x", INT8), Var("y", INT8))
    low, high = interval(expr, {"x": pair[0], "y": pair[1]})
    ranges = (range(least, most + 1) for least, most in pair)
    for x, y in itertools.islice(itertools.product(*ranges), 0, None, 7):
        value = evaluate(expr, {"x": literal(x, INT8), "y": literal(y, INT8)})
        assert low <= int(value) <= high


def test_a_mask_bounds_a_number_of_either_sign() -> None:
    expr = Binary("and", Var("x", INT8), Var("y", INT8))
    assert interval(expr, {"x": (-128, 127), "y": (0, 7)}) == (0, 7)
