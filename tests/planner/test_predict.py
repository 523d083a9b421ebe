"""The bound that explanations tell: operations in vectors, memory traffic, invariant products."""

from __future__ import annotations

import re

import pytest

import loopwright as lw
from loopwright.machines.load import load_machine
from loopwright.planner.cost.predict import predicted

SUM = """\
void f(double a[1000][1000], double x[1000], double y[1000], double c)
{{
#pragma scop
    for (int i = 0; i < 1000; i++)
        for (int j = 0; j < 1000; j++)
            y[i] = y[i] + {};
#pragma endscop
}}
"""


def numbers(value: str) -> tuple[float, float, float]:
    """The bound, the operations and the traffic, in the unit of the machine."""
    (program,) = lw.parse_c(SUM.format(value))
    text = predicted(program, load_machine("neoverse-n1"))
    first, operations, traffic = re.findall(r"([0-9.e+]+) (?:ms|cycles)", text)
    return float(first), float(operations), float(traffic)


def test_products_that_are_added_come_free() -> None:
    assert numbers("a[i][j] * x[j]")[1] == numbers("a[i][j]")[1]
    assert numbers("a[i][j] * x[j] * x[j]")[1] > numbers("a[i][j]")[1]


def test_what_loops_do_not_change_counts_once() -> None:
    plain = numbers("a[i][j] * x[j]")[1]
    assert numbers("a[i][j] * (c * x[j])")[1] == pytest.approx(plain, rel=0.01)


def test_the_larger_part_is_the_bound() -> None:
    bound, operations, traffic = numbers("a[i][j]")
    assert bound == max(operations, traffic)
    assert traffic > 0
