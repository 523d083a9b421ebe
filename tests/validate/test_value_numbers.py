"""Value numbering of nests: order counts where it should, at any size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright.ir.check import check_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.transform.blocked_closure import BlockClosure
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Parallel, Unroll
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.plan import Plan, apply_plan, initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile
from loopwright.validate.check_data import compare_value_numbers
from loopwright.validate.runners import jit_runner
from loopwright.validate.value_numbers import NotNumbered, number_values
from programs import Do, For, floyd_warshall, nest, program


def lowered(source: Program, *steps: Step) -> LoopNest:
    return lower_schedule(apply_plan(source, Plan(steps)))


def same(source: Program, translated: LoopNest, params: dict[str, int]) -> bool:
    """Whether a translation leaves the value numbers of the source order."""
    runs = []
    for one in (lowered(source), translated):
        numbered = number_values(one, reassociate=source.reassoc)
        check_nest(numbered)
        runs.append(jit_runner(numbered))
    return compare_value_numbers(source, *runs, params) == ()


@pytest.mark.drawn(4)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "bool"])
def test_legal_plans_keep_value_numbers(dtype: str) -> None:
    arrays = {name: f"{role} {dtype} [n, n]" for name, role in (("a", "in"), ("c", "inout"))}
    body = nest((("i", "n"), ("j", "n"), ("k", "n")), Do("c[i, j]", "c[i, j] + a[i, k] * a[k, j]"))
    source = program("square", arrays, body)
    steps = Tile(("i", "j", "k"), (8, 8, 8)), Parallel("i_t"), Unroll("k", 4)
    assert same(source, lowered(source, *steps), {"n": 19})


def test_order_of_float_sums_counts_unless_free() -> None:
    arrays = {"a": "in float64 [n, n]", "s": "inout float64 []"}
    body = nest((("i", "n"), ("j", "n")), Do("s", "s + a[i, j]"))
    free = program("total", arrays, body, reassoc=True)
    other = lowered(free, Interchange(("j", "i")))
    assert same(free, other, {"n": 9})
    assert not same(replace(free, reassoc=False), other, {"n": 9})


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float64", "max(s[j], a[i, j])"),
        ("float32", "min(s[j], a[i, j])"),
        ("int16", "max(s[j], a[i, j])"),
        ("uint8", "min(s[j], a[i, j])"),
        ("int32", "s[j] + a[i, j]"),
        ("bool", "s[j] + a[i, j]"),
        ("bool", "s[j] * a[i, j]"),
    ],
)
def test_gathering_in_parts_keeps_value_numbers(dtype: str, value: str) -> None:
    arrays = {"a": f"in {dtype} [n, n]", "s": f"inout {dtype} [n]"}
    source = program("gathered", arrays, nest((("i", "n"), ("j", "n")), Do("s[j]", value)))
    assert same(source, lowered(source, PartialSums("S0", "i", 4)), {"n": 11})


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x[i] - y[i]", "y[i] - x[i]"),
        ("x[i] / y[i]", "y[i] / x[i]"),
        ("x[i] + (y[i] + 1)", "x[i] + y[i] + 1"),
        ("x[i] if x[i] < y[i] else y[i]", "y[i] if x[i] < y[i] else x[i]"),
        ("x[i] * 2", "x[i] * 3"),
        ("sqrt(x[i])", "exp(x[i])"),
        ("float64(i) + x[i]", "float64(n) + x[i]"),
    ],
)
def test_different_values_have_different_value_numbers(first: str, second: str) -> None:
    def make(value: str) -> Program:
        arrays = {"x": "in float64 [n]", "y": "inout float64 [n]"}
        return program("values", arrays, For("i", 0, "n", Do("y[i]", value)))

    assert same(make(first), lowered(make(first)), {"n": 4})
    assert not same(make(first), lowered(make(second)), {"n": 4})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x[i] - y[i]", "x[i] + -y[i]"),
        ("y[i] - x[i] * x[n - 1 - i]", "y[i] + -x[i] * x[n - 1 - i]"),
        ("-(x[i] / y[i])", "x[i] / -y[i]"),
        ("x[i] + y[i]", "y[i] + x[i]"),
        ("x[i] * 1", "x[i]"),
        ("fma(x[i], y[i], x[n - 1 - i])", "x[n - 1 - i] + x[i] * y[i]"),
    ],
)
def test_rewritings_that_keep_every_bit_keep_value_numbers(first: str, second: str) -> None:
    def make(value: str) -> Program:
        arrays = {"x": "in float64 [n]", "y": "inout float64 [n]"}
        return program("values", arrays, For("i", 0, "n", Do("y[i]", value)))

    assert same(make(first), lowered(make(second)), {"n": 5})


def test_data_that_steer_cannot_be_hashed() -> None:
    source = replace(floyd_warshall(), reassoc=True)
    blocked = lowered(source, next(BlockClosure.candidates(initial_schedule(source))))
    with pytest.raises(NotNumbered, match="its data decide which statements run"):
        number_values(blocked, reassociate=True)
