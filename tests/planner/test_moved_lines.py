"""Lines that move between cores: by how threads share out the loops that use an array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

import loopwright as lw
from loopwright.analysis.size_estimates import Reference, references
from loopwright.ir.program import Program
from loopwright.machines.load import load_machine
from loopwright.planner.cost.moved_lines import Share, moved_lines
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import apply_plan, initial_schedule

WIDE = replace(load_machine("cascadelake"), cores=2)
# Rows are updated, then columns summed, again and again.
PASSES = """
void f(int steps, double a[300][300], double s[300]) {
#pragma scop
  for (int t = 0; t < steps; t++) {
    for (int i = 0; i < 300; i++)
      for (int j = 0; j < 300; j++)
        a[i][j] = 0.5 * a[i][j] + s[i];
    for (int k = 0; k < 300; k++)
      for (int l = 0; l < 300; l++)
        s[k] += a[k][l];
  }
#pragma endscop
}
"""


@pytest.fixture(scope="module")
def source() -> Program:
    (found,) = lw.parse_c(PASSES)
    return found


UPDATE, SUM = "S0", "S1"
ROWS, COLUMNS = {UPDATE: "i"}, {UPDATE: "j"}


@pytest.mark.parametrize(
    ("update", "total", "arrays"),
    [
        (ROWS, {SUM: "k"}, ""),  # the same rows, and the same elements of s
        (ROWS, {SUM: "l"}, "as"),  # rows against columns; every thread has all of s
        (COLUMNS, {SUM: "k"}, "as"),
        (ROWS, None, "as"),  # one thread sums
        (None, {SUM: "k"}, "as"),  # one thread updates
        (None, None, ""),  # one thread does all
    ],
)
def test_lines_move_where_shares_differ(
    source: Program, update: Mapping[str, str] | None, total: Mapping[str, str] | None, arrays: str
) -> None:
    shares = [Share(frozenset({UPDATE}), update), Share(frozenset({SUM}), total)]
    known = {name: references(source.statement(name)) for name in (UPDATE, SUM)}
    lines = {"a": 1000.0, "s": 10.0}

    def lines_of(name: str, reference: Reference) -> float:
        return lines[reference.array]

    found = moved_lines(shares, known, lines_of, 4)
    assert found == sum(lines[array] for array in arrays) * 3 / 4


def test_the_price_of_passes(source: Program) -> None:
    """Threads that share both loops by rows gain; where one of them sums, the rows move."""
    sizes = {"steps": 50}
    alone = schedule_seconds(initial_schedule(source), WIDE, sizes, 1)
    half = schedule_seconds(apply_plan(source, [Parallel("i")]), WIDE, sizes, 2)
    both = schedule_seconds(apply_plan(source, [Parallel("i"), Parallel("k")]), WIDE, sizes, 2)
    assert both < 0.6 * alone
    assert half > alone
