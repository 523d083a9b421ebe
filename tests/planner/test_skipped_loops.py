"""Rows that data leave out one by one are not taken together."""

from __future__ import annotations

import loopwright as lw
from loopwright.ir.schedule_tree import bands, nodes_of
from loopwright.machines.load import load_machine
from loopwright.pipeline import compile_program
from loopwright.planner.loop_plans.skipped_loops import loses_skips
from loopwright.transform.plan import initial_schedule

SOURCE = """
void f(int n, int m, int k, float a[n][k], float b[k][m], float c[n][m]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int p = 0; p < k; p++)
      if (CONDITION)
        for (int j = 0; j < m; j++)
          c[i][j] += a[i][p] * b[p][j];
#pragma endscop
}
"""


def lost(condition: str) -> dict[tuple[str, str], bool]:
    """Whether copies of the outer loop lose skips of the inner one."""
    (program,) = lw.parse_c(SOURCE.replace("CONDITION", condition))
    found = {band.loop: band for band in bands(nodes_of(initial_schedule(program)))}
    pairs = (("i", "p"), ("i", "j"), ("p", "j"))
    return {pair: loses_skips(program, found[pair[0]], found[pair[1]]) for pair in pairs}


def test_conditions_that_stay_in_the_inner_loop() -> None:
    assert lost("a[i][p] > 0.5f") == {("i", "p"): False, ("i", "j"): True, ("p", "j"): True}


def test_conditions_on_sizes_are_not_of_data() -> None:
    assert not any(lost("i < p").values())


def test_no_copies_of_such_loops() -> None:
    (program,) = lw.parse_c(SOURCE.replace("CONDITION", "a[i][p] > 0.5f"))
    plan = compile_program(program, load_machine("neoverse-n1"), 1, unit={}).plan
    assert "unroll_and_jam" not in {step.kind for step in plan}
