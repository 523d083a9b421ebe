"""Blocked closures compute what the source order computes, also where the algebra fails."""

from __future__ import annotations

import numpy as np
import pytest

from drawn import combined
from loopwright.analysis.find_closures import find_closure
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.machines.host import host
from loopwright.planner.loop_plans.closures import plan_closures
from loopwright.transform.blocked_closure import BlockClosure
from loopwright.transform.plan import apply_plan, initial_schedule
from oracle import assert_same_on
from programs import Do, For, nest, program

VALUES = {
    "min_plus": "min(a[i, j], a[i, k] + a[k, j])",
    "max_plus": "max(a[i, j], a[i, k] + a[k, j])",
    "min_max": "min(a[i, j], max(a[i, k], a[k, j]))",
    "max_min": "max(min(a[i, k], a[k, j]), a[i, j])",
    "or_and": "a[i, j] | (a[i, k] & a[k, j])",
}


def closure(kind: str, dtype: str, order: str = "kij", reassoc: bool = False) -> Program:
    loops = [(x, "n") for x in order]
    arrays = {"a": f"inout {dtype} [n, n]"}
    return program("closure", arrays, nest(loops, Do("a[i, j]", VALUES[kind])), reassoc=reassoc)


KINDS = (
    ("min_plus", "int32"),
    ("max_plus", "int64"),
    ("min_plus", "int8"),
    ("min_max", "float64"),
    ("max_min", "float32"),
    ("max_min", "uint16"),
    ("or_and", "bool"),
)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("pair", "shared"), combined(KINDS, [0, 1], one_in=2))
def test_meaning(pair: tuple[str, str], shared: int) -> None:
    """Bit for bit, with cycles that improve (the way back) and without."""
    kind, dtype = pair
    source = closure(kind, dtype)
    lowered = lower_schedule(apply_plan(source, [BlockClosure("S0", 4, 2, 2, 2, shared)]))
    for n in (0, 1, 2, 4, 7, 13):
        for least in (-3, 0):
            random = np.random.default_rng(n)
            high = 2 if dtype == "bool" else 9
            data = random.integers(max(least, 0) if dtype[0] in "bu" else least, high, (n, n))
            if kind == "max_plus":
                data = -data
            assert_same_on({"a": data.astype(dtype)}, source, lowered, {"n": n}, 1 + shared)


@pytest.mark.parametrize("value", [2**31 - 1, -(2**31), 2**30])
def test_sums_that_wrap(value: int) -> None:
    source = closure("min_plus", "int32")
    lowered = lower_schedule(apply_plan(source, [BlockClosure("S0", 4, 1, 1, 2, 0)]))
    data = np.random.default_rng(2).integers(1, 20, (9, 9)).astype(np.int32)
    data[2, 5] = value
    assert_same_on({"a": data}, source, lowered, {"n": 9})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_floats(value: float) -> None:
    source = closure("min_plus", "float64", reassoc=True)
    lowered = lower_schedule(apply_plan(source, [BlockClosure("S0", 4, 2, 2, 2, 0)]))
    data = np.random.default_rng(3).integers(1, 20, (9, 9)).astype(np.float64)
    data[2, 5] = data[7, 1] = value
    assert_same_on({"a": data}, source, lowered, {"n": 9})


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (closure("min_plus", "float64"), "floating-point"),
        (closure("min_plus", "int32", order="ikj"), "outermost"),
        (
            program(
                "product",
                {"a": "inout int32 [n, n]", "b": "in int32 [n, n]"},
                nest(
                    [("k", "n"), ("i", "n"), ("j", "n")],
                    Do("a[i, j]", "min(a[i, j], b[i, k] + b[k, j])"),
                ),
            ),
            "column and a row",
        ),
        (
            program(
                "part",
                {"a": "inout int32 [n, n]"},
                For(
                    "k",
                    0,
                    "n",
                    For("i", 0, "n", For("j", 0, "i", Do("a[i, j]", VALUES["min_plus"]))),
                ),
            ),
            "depends on loop",
        ),
    ],
)
def test_refused(source: Program, reason: str) -> None:
    found = find_closure(source)
    assert isinstance(found, str)
    assert reason in found
    with pytest.raises(IllegalStep, match=reason):
        apply_plan(source, [BlockClosure("S0", 4, 2, 2, 2, 0)])
    assert plan_closures(initial_schedule(source), host(), parallel=False) == ()


def test_bad_fields() -> None:
    with pytest.raises(UsageError):
        BlockClosure("S0", 0, 1, 1, 1, 0)
    with pytest.raises(UsageError):
        BlockClosure("S0", 4, 1, 1, 1, 2)


def test_plan() -> None:
    (step,) = plan_closures(initial_schedule(closure("min_plus", "int32")), host(), parallel=True)
    assert isinstance(step, BlockClosure)
    assert (step.block, step.shared) == (64, 1)
