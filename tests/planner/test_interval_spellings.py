"""Tables of intervals as people spell them: all run by rows, with the numbers of the source."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from drawn import in_all
from loopwright.calls.splice import optimise_region, region_program, spliced
from loopwright.frontends.c import read_c
from loopwright.machines import load_machine
from loopwright.planner.loop_plans.interval_tables import plan_interval_tables
from loopwright.planner.planners import model_planner
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.transform.plan import initial_schedule
from loopwright.transform.reschedule import Reschedule

BEGIN = """
#include <math.h>
#define MAX(a, b) ((a) > (b) ? (a) : (b))
void f(int n, {type} x[n][n], const {type} w[n][n]) {{
#pragma scop
"""
DIAGONALS = """
  for (int l = 1; l < n; l++)
    for (int i = 0; i < n - l; i++) {{
      int j = i + l;
      {body}
    }}
"""
ROWS = """
  for (int i = n - 1; i >= 0; i--)
    for (int j = i + 1; j < n; j++) {{
      {body}
    }}
"""
END = "#pragma endscop\n}\n"

FOLDED = """
      int best = MAX(x[i + 1][j], x[i][j - 1]);
      best = MAX(best, x[i + 1][j - 1] + w[i][j]);
      for (int k = i + 1; k < j; k++) best = MAX(best, x[i][k] + x[k + 1][j]);
      x[i][j] = best;
"""
ONE_BY_ONE = """
      int best = x[i][j - 1];
      if (x[i + 1][j] > best) best = x[i + 1][j];
      for (int k = i; k < j; k++) if (x[i][k] + x[k + 1][j] > best) best = x[i][k] + x[k + 1][j];
      x[i][j] = best;
"""
WEIGHTED = """
      double best = fmin(x[i + 1][j] + w[0][i], x[i][j - 1] + w[0][j]);
      for (int k = i + 1; k < j; k++) best = fmin(best, x[i][k - 1] + x[k + 1][j]);
      x[i][j] = best + w[i][j];
"""
NAMED = """
      double best = 1e300;
      for (int k = i; k < j; k++) {
        double cost = x[i][k] + x[k + 1][j];
        if (cost < best) best = cost;
      }
      x[i][j] = best + w[i][j];
"""
IN_PLACE = """
      x[i][j] = 1e300;
      for (int k = i; k < j; k++) {
        double cost = x[i][k] + x[k + 1][j] + w[i][k];
        if (cost < x[i][j]) x[i][j] = cost;
      }
"""
SPELLINGS = {
    "folded": ("int", FOLDED),
    "one by one": ("int", ONE_BY_ONE),
    "weighted": ("double", WEIGHTED),
    "named": ("double", NAMED),
    "in place": ("double", IN_PLACE),
}
CASES = [(name, loops) for name in SPELLINGS for loops in (DIAGONALS, ROWS)]


def text_of(name: str, loops: str) -> str:
    kind, body = SPELLINGS[name]
    return BEGIN.format(type=kind) + loops.format(body=body) + END


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", ["folded", "one by one", "weighted", "named"])
def test_diagonals_become_rows(name: str) -> None:
    region = read_c(text_of(name, DIAGONALS)).regions[0]
    made = initial_schedule(region_program(region, reassoc=False))
    steps = plan_interval_tables(made, load_machine("sapphirerapids"), parallel=False)
    assert "walk_rows" in [step.kind for step in steps]


def test_what_waits_for_the_row_comes_last() -> None:
    for name, first in (("folded", "split_update"), ("one by one", "exchange_terms")):
        region = read_c(text_of(name, ROWS)).regions[0]
        made = initial_schedule(region_program(region, reassoc=False))
        steps = plan_interval_tables(made, load_machine("cascadelake"), parallel=False)
        assert [step.kind for step in steps] == ["gather_in_place", first, "update_last"]


def test_scalars_that_gather_from_elsewhere_stay() -> None:
    """A dot product is no table; neither is a row that every entry only waits for."""
    dot = "double s = 0; for (int k = 0; k < n; k++) s += w[i][k] * w[k][j]; x[i][j] = s;"
    wait = "double s = w[i][j]; if (x[i][j - 1] > s) s = x[i][j - 1]; x[i][j] = s;"
    for body in (dot, wait):
        text = BEGIN.format(type="double") + ROWS.format(body=body) + END
        made = initial_schedule(region_program(read_c(text).regions[0], reassoc=False))
        assert plan_interval_tables(made, load_machine("cascadelake"), parallel=False) == ()


@needs_cc
@pytest.mark.drawn(20)
@pytest.mark.parametrize("machine", ["cascadelake", "neoverse-n1"])
@pytest.mark.parametrize(("number", "name", "loops"), [(k, *case) for k, case in enumerate(CASES)])
def test_numbers(number: int, name: str, loops: str, machine: str) -> None:
    """Of C text and machine code as of the source order, bit by bit."""
    text = text_of(name, loops)
    file = read_c(text)
    (region,) = file.regions
    made = optimise_region(file, region, model_planner, load_machine(machine), target="c")
    if machine == "cascadelake":  # two lanes do not always pay
        assert any(isinstance(step, Reschedule) for step in made.plan.steps)
    exact = ("-O2", "-ffp-contract=off", "-fopenmp-simd")
    texts = (text, spliced(file, [made]).decode())
    plain, *quick = (load_library(build_library(t, exact))["f"] for t in texts)
    code = lw.compile(text, threads=1 + number // 2 % 2)
    rng = np.random.default_rng(6)
    dtype = np.int32 if SPELLINGS[name][0] == "int" else np.float64
    for n in (0, 1, 2, 3, 5, 13, 64, 101):
        # Quarters: sums are exact, so that fused ones have the same bits.
        x, w = ((rng.integers(-40, 400, (n, n)) / 4).astype(dtype) for _ in range(2))
        results = [x.copy() for _ in (plain, *quick)]
        for function, into in zip((plain, *quick), results, strict=True):
            function(n, *(ctypes.c_void_p(a.ctypes.data) for a in (into, w)))
        if in_all() or n > 64:  # a call plans anew for small sizes
            code(n, x, w)
            results.append(x)
        for found in results[1:]:
            np.testing.assert_array_equal(found, results[0], str(n))
