"""WalkRows: tables by diagonals are walked by rows; what it refuses; least costs and cuts."""

from __future__ import annotations

import ctypes
from textwrap import dedent

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from drawn import in_all
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
from loopwright.transform.interval_rows import WalkRows
from loopwright.transform.loop_marks import Simd
from loopwright.transform.plan import apply_plan, initial_schedule
from loopwright.transform.step import Step
from oracle import assert_same
from programs import Do, For, program

TABLE = {"x": "inout int32 [n, n]", "w": "in int32 [n, n]"}
GATHER = Do("x[i, i + l]", "max(x[i, i + l], x[i, k] + x[k + 1, i + l])")


def diagonals(*body: Do | For, arrays: dict[str, str] = TABLE) -> Program:
    """Statements for all lengths l and begins i of intervals."""
    return program("diagonals", arrays, For("l", 1, "n", For("i", 0, "n - l", *body)))


def gathered() -> Program:
    return diagonals(Do("x[i, i + l]", "w[i, i + l] + int32(l)"), For("k", "i", "i + l", GATHER))


def test_golden() -> None:
    source = gathered()
    nest = lower_schedule(apply_plan(source, [WalkRows("l", "i")]))
    assert stmt_text(nest.body) + "\n" == dedent("""\
        for i in range(2 - n, 1):
            for i_l in range(1 - i, n):
                x[0 - i, i_l] = w[0 - i, i_l] + int32(i_l - -i)
                for k in range(0 - i, i_l):
                    x[0 - i, i_l] = max(x[0 - i, i_l], x[0 - i, k] + x[k + 1, i_l])
        """)
    for n in (0, 1, 2, 3, 8, 13):
        assert_same(source, nest, {"n": n})


def test_scalars_of_an_iteration_order_nothing() -> None:
    arrays = {**TABLE, "t": "local int32 []"}
    gather = For("k", "i", "i + l", Do("t", "max(t, x[i, k] + x[k + 1, i + l])"))
    source = diagonals(Do("t", "w[i, i + l]"), gather, Do("x[i, i + l]", "t"), arrays=arrays)
    nest = lower_schedule(apply_plan(source, [WalkRows("l", "i")]))
    for n in (0, 1, 2, 7, 12):
        assert_same(source, nest, {"n": n})


def test_other_nests_stay() -> None:
    loops = For("l", 1, "n", For("i", 0, "n - l", For("k", "i", "i + l", GATHER)))
    source = program("both", TABLE, For("j", 0, "n", Do("x[j, j]", "int32(j)")), loops)
    nest = lower_schedule(apply_plan(source, [WalkRows("l", "i")]))
    assert stmt_text(nest.body).startswith("for j in range(n):\n    x[j, j] = int32(j)\nfor i in")
    assert_same(source, nest, {"n": 9})


REFUSED: dict[str, tuple[Program, tuple[Step, ...], str]] = {
    "no loop": (gathered(), (WalkRows("l", "q"),), "there is no loop 'q'"),
    "not inside": (gathered(), (WalkRows("i", "l"),), "not directly inside"),
    "reversed": (
        diagonals(Do("x[i, i + l]", "x[i, i + l] + x[i - 1, i + l - 1]")),
        (WalkRows("l", "i"),), "would reverse",
    ),
    "downwards": (
        program("down", TABLE,
                For("l", "n - 1", 0, For("i", 0, "n - l", Do("x[i, i + l]", "1")), step=-1)),
        (WalkRows("l", "i"),), "do not count upwards",
    ),
    "marks": (
        diagonals(Do("x[i, i + l]", "1")), (Simd("i"), WalkRows("l", "i")),
        "in the source order only",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    source, steps, told = REFUSED[case]
    with pytest.raises(IllegalStep, match=told):
        apply_plan(source, steps)


# Products of a chain of matrices in the order of least cost, and where each stretch is cut.
CHAIN = """
void chain(int n, int p[n + 1], int c[n][n], int cut[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++) c[i][i] = 0;
  for (int len = 2; len <= n; len++)
    for (int i = 0; i <= n - len; i++) {
      int j = i + len - 1;
      int best = 2147483647, where = i;
      for (int k = i; k < j; k++) {
        int q = c[i][k] + c[k + 1][j] + p[i] * p[k + 1] * p[j + 1];
        if (q < best) { best = q; where = k; }
      }
      c[i][j] = best;
      cut[i][j] = where;
    }
#pragma endscop
}
"""
LAGS = """
void lags(int n, double x[n], double r[n]) {
#pragma scop
  for (int l = 0; l < n; l++)
    for (int i = 0; i < n - l; i++)
      for (int k = 0; k < 3; k++)
        r[l] += x[i] * x[i + l] * k;
#pragma endscop
}
"""
# Every entry waits for the one before: nothing is won by rows.
WAITING = CHAIN.replace("best = 2147483647", "best = i < j - 1 ? c[i][j - 1] : 1000")


def steps_of(text: str) -> tuple[Step, ...]:
    file = read_c(text)
    made = initial_schedule(region_program(file.regions[0], reassoc=False))
    return plan_interval_tables(made, load_machine("sapphirerapids"), parallel=False)


@pytest.mark.parametrize(("text", "is_taken"), [(CHAIN, True), (LAGS, False), (WAITING, False)])
def test_which_tables_are_walked_by_rows(text: str, *, is_taken: bool) -> None:
    assert bool(steps_of(text)) == is_taken


@needs_cc
def test_costs_and_cuts() -> None:
    """Every number is that of the source order, in C text and machine code; first cuts win."""
    file = read_c(CHAIN)
    (region,) = file.regions
    made = [
        optimise_region(file, region, model_planner, load_machine(machine), target="c")
        for machine in ("sapphirerapids", "neoverse-n1")[: 2 if in_all() else 1]
    ]
    for found in made:
        assert any(isinstance(step, WalkRows) for step in found.plan.steps)
    written = sorted({spliced(file, [found]).decode() for found in made})
    plain = load_library(build_library(CHAIN, ("-O1",)))["chain"]
    quick = [
        load_library(build_library(text, ("-O3", "-fopenmp-simd")))["chain"] for text in written
    ]
    code = lw.compile(CHAIN, threads=1)
    rng = np.random.default_rng(4)
    for n in (0, 1, 2, 3, 5, 13, 64, 101):
        p = rng.integers(1, 4, n + 1).astype(np.int32)
        expected, *results, coded = np.full((len(quick) + 2, 2, n, n), 7, np.int32)
        for function, (cost, cut) in zip((plain, *quick), (expected, *results), strict=True):
            function(n, *(ctypes.c_void_p(x.ctypes.data) for x in (p, cost, cut)))
        if in_all() or n > 64:  # a call plans anew for small sizes
            code(n, p, *coded)
            results.append(coded)
        for found in results:
            np.testing.assert_array_equal(found, expected, str(n))
