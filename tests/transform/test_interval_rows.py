"""WalkRows: tables by diagonals are walked by rows; what it refuses; least costs and cuts."""

from __future__ import annotations

import pytest

from loopwright.calls.splice import region_program
from loopwright.frontends.c import read_c
from loopwright.machines import load_machine
from loopwright.planner.loop_plans.interval_tables import plan_interval_tables
from loopwright.transform.plan import initial_schedule
from loopwright.transform.step import Step

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


def steps_of(text: str) -> tuple[Step, ...]:
    file = read_c(text)
    made = initial_schedule(region_program(file.regions[0], reassoc=False))
    return plan_interval_tables(made, load_machine("sapphirerapids"), parallel=False)


@pytest.mark.parametrize(("text", "is_taken"), [(CHAIN, True), (LAGS, False)])
def test_which_tables_are_walked_by_rows(text: str, *, is_taken: bool) -> None:
    assert bool(steps_of(text)) == is_taken
