"""UpdateLast: updates of one element change places; what it refuses; tables of intervals by it."""

from __future__ import annotations

import ctypes
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from loopwright.calls.splice import optimise_region, region_program, spliced
from loopwright.diagnostics import IllegalStep
from loopwright.frontends.c import read_c
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.machines import load_machine
from loopwright.planner.loop_plans.interval_tables import plan_interval_tables
from loopwright.planner.planners import model_planner
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.transform.loop_marks import Simd
from loopwright.transform.plan import apply_plan, initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.update_order import UpdateLast
from oracle import assert_same
from programs import Do, For, program

BEFORE = Do("x[j]", "x[j] + 3 * x[j - 1]")
GATHERED = For("k", 0, "j", Do("x[j]", "x[j] + w[k, j] * x[k]"))


def table(*body: Do | For, dtype: str = "int32", reassoc: bool = False) -> Program:
    """Statements for every j."""
    arrays = {"x": f"inout {dtype} [n]", "y": f"inout {dtype} [n]", "w": f"in {dtype} [n, n]"}
    return program("table", arrays, For("j", 1, "n", *body), reassoc=reassoc)


def test_golden() -> None:
    source = table(BEFORE, GATHERED)
    nest = lower_schedule(apply_plan(source, [UpdateLast("S0")]))
    assert stmt_text(nest.body) + "\n" == dedent("""\
        for j in range(1, n):
            for k in range(j):
                x[j] = x[j] + w[k, j] * x[k]
            x[j] = x[j] + 3 * x[j - 1]
        """)
    for n in (0, 1, 2, 7, 20):
        assert_same(source, nest, {"n": n})


def test_only_updates_are_passed() -> None:
    """What follows them stays behind."""
    source = table(BEFORE, GATHERED, Do("y[j]", "x[j]"))
    nest = lower_schedule(apply_plan(source, [UpdateLast("S0")]))
    lines = [line.strip() for line in stmt_text(nest.body).splitlines()]
    assert lines[-2:] == ["x[j] = x[j] + 3 * x[j - 1]", "y[j] = x[j]"]
    assert_same(source, nest, {"n": 9})


SUM = For("k", 0, "j", Do("x[j]", "x[j] + w[k, j] * x[k]"))
REFUSED = {
    "no statement": (table(BEFORE, GATHERED), (UpdateLast("S9"),), "there is no statement 'S9'"),
    "alone": (table(GATHERED), (UpdateLast("S0"),), "no statement of a sequence inside a loop"),
    "last": (table(GATHERED, BEFORE), (UpdateLast("S1"),), "no updates of the element"),
    "floating": (table(BEFORE, SUM, dtype="float64"), (UpdateLast("S0"),), "no updates"),
    "operators": (
        table(Do("x[j]", "x[j] * x[j - 1]"), GATHERED), (UpdateLast("S0"),), "no updates",
    ),
    "no update": (table(Do("x[j]", "x[j - 1]"), GATHERED), (UpdateLast("S0"),), "no updates"),
    "between": (table(BEFORE, Do("y[j]", "x[j]"), GATHERED), (UpdateLast("S0"),), "no updates"),
    "element of a term": (
        table(BEFORE, For("k", 0, "j + 1", Do("x[j]", "x[j] + w[k, j] * x[k]"))),
        (UpdateLast("S0"),), "no updates",
    ),
    "other elements": (
        table(BEFORE, For("k", 0, "j", Do("x[k]", "x[k] + w[k, j]"))), (UpdateLast("S0"),),
        "no updates",
    ),
    "marks": (
        program("rows", {"x": "inout int32 [n]"},
                For("i", 0, "n", Do("x[i]", "x[i] + 1"), Do("x[i]", "x[i] + i"))),
        (Simd("i"), UpdateLast("S0")), "in the source order only",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    source, steps, told = REFUSED[case]
    with pytest.raises(IllegalStep, match=told):
        apply_plan(source, steps)


def test_floating_sums_that_may_be_regrouped() -> None:
    source = table(BEFORE, SUM, dtype="float64", reassoc=True)
    assert apply_plan(source, [UpdateLast("S0")]).program.schedule is not source.schedule


def test_extremes_of_all_types() -> None:
    update = Do("x[j]", "max(x[j], x[j - 1])")
    gathered = For("k", 0, "j", Do("x[j]", "max(x[j], w[k, j] + x[k])"))
    source = table(update, gathered, dtype="float64")
    assert_same(source, lower_schedule(apply_plan(source, [UpdateLast("S0")])), {"n": 11})


# The least effort to merge a stretch of a row: of its parts, or of one less and its last number.
MERGED = """
void merged(int n, int a[n], int cost[n][n]) {
#pragma scop
  for (int i = n - 1; i >= 0; i--)
    for (int j = i + 1; j < n; j++) {
      if (cost[i][j - 1] + a[j] < cost[i][j]) cost[i][j] = cost[i][j - 1] + a[j];
      for (int k = i + 1; k < j; k++)
        if (cost[i][k] + cost[k + 1][j] < cost[i][j]) cost[i][j] = cost[i][k] + cost[k + 1][j];
    }
#pragma endscop
}
"""


def steps_of(text: str) -> tuple[Step, ...]:
    file = read_c(text)
    made = initial_schedule(region_program(file.regions[0], reassoc=False))
    return plan_interval_tables(made, load_machine("sapphirerapids"), parallel=False)


def test_which_updates_are_put_last() -> None:
    assert steps_of(MERGED) == (UpdateLast("S0"),)
    assert steps_of(MERGED.replace("cost[i][j - 1] + a[j]", "a[i] + a[j]")) == ()
    assert steps_of(MERGED.replace("cost[i][j - 1] + a[j]", "cost[i + 1][j - 1]")) == ()


@needs_cc
@pytest.mark.drawn(2)
@pytest.mark.parametrize("machine", ["neoverse-n1", "sapphirerapids"])
def test_tables_of_intervals(machine: str, tmp_path: Path) -> None:
    """Every number is that of the source order, in C text and machine code."""
    file = read_c(MERGED)
    made = [
        optimise_region(file, region, model_planner, load_machine(machine), target="c")
        for region in file.regions
    ]
    assert UpdateLast("S0") in made[0].plan.steps
    text = spliced(file, made).decode()
    assert "simd" in text
    plain = load_library(build_library(MERGED, ("-O1",)))["merged"]
    quick = load_library(build_library(text, ("-O3", "-fopenmp-simd")))["merged"]
    (place := tmp_path / "merged.c").write_text(MERGED)
    code = lw.compile(str(place))
    rng = np.random.default_rng(2)
    for n in (0, 1, 2, 3, 5, 13, 64, 101):
        a = rng.integers(0, 50, n).astype(np.int32)
        first = rng.integers(0, 5000, (n, n)).astype(np.int32)
        expected, found, coded = first.copy(), first.copy(), first.copy()
        for function, into in ((plain, expected), (quick, found)):
            function(n, *(ctypes.c_void_p(x.ctypes.data) for x in (a, into)))
        code(n, a, coded)
        np.testing.assert_array_equal(found, expected, str(n))
        np.testing.assert_array_equal(coded, expected, str(n))
