"""Which loops have something to share when they are unrolled into those inside."""

from __future__ import annotations

import pytest

from loopwright import machine, parse_c
from loopwright.ir.schedule_tree import bands, nodes_of
from loopwright.planner.loop_plans.shared_copies import do_copies_share
from loopwright.planner.plan_choice import choose_plan
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.unroll_and_jam import UnrollAndJam

NEST = """
void f(int n, double a[n][n], double b[n][n], double x[n], double s[n]) {{
#pragma scop
    for (int i = 1; i < n; i++)
        for (int j = 1; j < n; j++) {body}
#pragma endscop
}}
"""
LINES = """
void lines(int steps, int rows, int n, double c, double u[rows][n], double v[rows][n]) {
#pragma scop
    for (int l = 0; l < rows; l++)
        for (int t = 0; t < steps; t++) {
            for (int i = 0; i < n - 1; i++)
                v[l][i] = 0.5 * (u[l][i] + u[l][i + 1]) - c * (u[l][i + 1] - u[l][i]);
            for (int i = 1; i < n - 1; i++) u[l][i] -= c * (v[l][i] - v[l][i - 1]);
        }
#pragma endscop
}
"""


@pytest.mark.parametrize(
    ("body", "share"),
    [
        ("a[i][j] = b[i][j] * x[j];", True),  # the row x
        ("a[i][j] = b[i - 1][j] + b[i][j];", True),  # rows of b, one iteration later
        ("s[i] += a[i][j] * b[i][j];", True),  # the time that a sum waits
        ("a[i][j] = b[i][j] + b[i][j - 1];", False),
        ("a[i][j] = s[i] * b[i][j];", False),  # one number of each row stays in a register
    ],
)
def test_copies_share_rows_neighbours_and_time(body: str, share: bool) -> None:
    (program,) = parse_c(NEST.format(body=body))
    outer = next(bands(nodes_of(initial_schedule(program))))
    assert do_copies_share(program, outer, machine("neoverse-n1")) == share


def test_lines_that_share_nothing_run_one_after_the_other() -> None:
    """Several of them at a time would take the place in the nearest cache that one has alone."""
    (program,) = parse_c(LINES)
    plan = choose_plan(program, machine("neoverse-n1"), 1, text=True).plan
    assert not any(isinstance(step, UnrollAndJam) for step in plan)
