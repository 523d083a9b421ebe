"""Updates under a condition as plain reductions: their form, and that they gather the same."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.expr import Const
from loopwright.ir.loops import Store
from loopwright.ir.text import stmt_text
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.keep_elements import keep_elements
from loopwright.lower.values.plain_reductions import as_reduction, plain_reductions
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


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a[0] + b[j] if c[j] > 0.0 else a[0]", "a[0] + (b[j] if c[j] > 0.0 else -0.0)"),
        ("a[0] - b[j] if c[j] > 0.0 else a[0]", "a[0] - (b[j] if c[j] > 0.0 else 0.0)"),
        ("a[0] + b[j] * c[j] if c[j] > 0.0 else a[0]", None),
        ("b[j] if b[j] < a[0] else a[0]", None),
    ],
    ids=["sum", "difference", "rounded with a product", "least"],
)
def test_floating_sums_of_machine_code(value: str, expected: str | None) -> None:
    source = gathered(value, "float64")
    nest = lower_schedule(apply_plan(source, ()))
    found = plain_reductions(nest)
    (store,) = (s for s in statements(found.body) if isinstance(s, Store))
    if expected is None:
        assert found == nest
    else:
        assert stmt_text(store).split(" = ", 1)[1] == expected
        assert_same(source, found, {"n": 7})


SUMS = """
void f(int n, double x[n], int k[n], double sum[2], int least[1]) {
#pragma scop
  for (int i = 0; i < n; i++) {
    if (k[i] > 2)
      sum[0] += x[i];
    if (k[i] > 2)
      sum[1] -= x[i];
    if (k[i] > 2 && k[i] < least[0])
      least[0] = k[i];
  }
#pragma endscop
}
"""


@pytest.mark.parametrize("start", [0.0, -0.0, 1.5])
@pytest.mark.parametrize("codes", [(0, 1), (0, 5), (3, 9)], ids=["never", "rarely", "always"])
def test_machine_code_keeps_every_bit(start: float, codes: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    x = np.where(rng.random(100) < 0.5, -0.0, rng.random(100))
    k = rng.integers(*codes, 100, dtype=np.int32)
    total, least = np.array([start, start]), np.array([2**31 - 1], np.int32)
    expected = total.copy()
    for number, key in zip(x, k, strict=True):
        if key > 2:
            expected += number, -number
    lw.compile(SUMS.encode())(100, x, k, total, least)
    assert total.tobytes() == expected.tobytes()
    assert least[0] == min((key for key in k if key > 2), default=2**31 - 1)


def test_llvm_does_not_know_what_is_neutral() -> None:
    x, k = np.ones(9), np.ones(9, np.int32)
    text = lw.compile(SUMS.encode()).inspect_llvm(9, x, k, np.zeros(2), np.zeros(1, np.int32))
    assert 'asm "", "=r,0"(i32 2147483647)' in text
