"""Which loops have something to share when they are unrolled into those inside."""

from __future__ import annotations

import pytest

from loopwright import machine, parse_c
from loopwright.ir.schedule_tree import bands, nodes_of
from loopwright.planner.loop_plans.shared_copies import do_copies_share
from loopwright.transform.schedule_legality import initial_schedule

NEST = """
void f(int n, double a[n][n], double b[n][n], double x[n], double s[n]) {{
#pragma scop
    for (int i = 1; i < n; i++)
        for (int j = 1; j < n; j++) {body}
#pragma endscop
}}
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
