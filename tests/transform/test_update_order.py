"""UpdateLast: updates of one element change places; what it refuses; tables of intervals by it."""

from __future__ import annotations

from loopwright.calls.splice import region_program
from loopwright.frontends.c import read_c
from loopwright.machines import load_machine
from loopwright.planner.loop_plans.interval_tables import plan_interval_tables
from loopwright.transform.plan import initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.update_order import UpdateLast

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
