"""Updates under a condition as plain reductions: their form, and that they gather the same."""

from __future__ import annotations

import pytest

from loopwright.ir.expr import Const
from loopwright.ir.loops import Store
from loopwright.ir.text import stmt_text
from loopwright.ir.visit import statements
from loopwright.lower.keep_elements import keep_elements
from loopwright.lower.passes import lower_schedule
from loopwright.lower.plain_reductions import as_reduction
from loopwright.transform.plan import apply_plan
from oracle import assert_same
from programs import Do, For, Program, program

GREATEST, LEAST = 2**31 - 1, -(2**31)


def gathered(value: str, kind: str = "int32") -> Program:
    arrays = dict.fromkeys("abc", f"inout {kind} [n + 4]")
    return program("row", arrays, For("j", 0, "n", Do("a[0]", value)))


def reduced(source: Program) -> str:
    nest = lower_schedule(apply_plan(source, ()))
    (store,) = (s for s in statements(nest.body) if isinstance(s, Store))
    return stmt_text(as_reduction(store)).split(" = ", 1)[1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a[0] + b[j] if c[j] > 0 else a[0]", "a[0] + (b[j] if c[j] > 0 else 0)"),
        ("a[0] if c[j] > 0 else a[0] - b[j]", "a[0] - (0 if c[j] > 0 else b[j])"),
        (
            "(a[0] + 1 if b[j] > 0 else a[0]) if c[j] > 0 else a[0]",
            "a[0] + (1 if (b[j] > 0 if c[j] > 0 else False) else 0)",
        ),
        (
            "(b[j] if b[j] < a[0] else a[0]) if c[j] > 0 else a[0]",
            f"min(a[0], b[j] if c[j] > 0 else {GREATEST})",
        ),
        (
            "(b[j] if a[0] <= b[j] else a[0]) if c[j] > 0 else a[0]",
            f"max(a[0], b[j] if c[j] > 0 else {LEAST})",
        ),
        (
            "(b[j] if c[j] > 0 else a[0]) if b[j] > a[0] else a[0]",
            f"max(a[0], b[j] if c[j] > 0 else {LEAST})",
        ),
    ],
    ids=["sum", "otherwise", "two conditions", "least", "greatest", "compared first"],
)
def test_reductions(value: str, expected: str) -> None:
    source = gathered(value)
    assert reduced(source) == expected
    nest = keep_elements(lower_schedule(apply_plan(source, ())), may_guess=Const(1))
    assert_same(source, nest, {"n": 7})


@pytest.mark.parametrize(
    "value",
    [
        "b[j] if b[j] < a[0] else a[0]",  # a minimum by itself
        "(b[j] if c[j] < a[0] else a[0]) if c[j] > 0 else a[0]",  # of other numbers
        "(b[j] if b[j] < a[0] else a[0]) if c[j] > a[0] else a[0]",  # the variable decides
        "(b[j] if b[j] < a[0] else a[0]) if c[j] > 0 else b[j]",
    ],
)
def test_other_choices_stay(value: str) -> None:
    source = gathered(value)
    nest = lower_schedule(apply_plan(source, ()))
    (store,) = (s for s in statements(nest.body) if isinstance(s, Store))
    assert as_reduction(store) is store


def test_sums_of_floating_numbers_stay() -> None:
    source = gathered("a[0] + b[j] if c[j] > 0 else a[0]", "float64")
    assert "if c[j] > 0" in reduced(source)
    assert reduced(source).startswith("a[0] + b[j] if")
