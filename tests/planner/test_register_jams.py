"""Where rows of integer sums are taken several at a time."""

from __future__ import annotations

import pytest

from loopwright import machine, parse_c
from loopwright.planner.plan_choice import choose_plan
from loopwright.transform.scalar_expansion import ExpandScalar
from loopwright.transform.unroll_and_jam import UnrollAndJam

SCORES = """
#include <stdint.h>
void scores(int8_t a[1500][1024], int8_t b[1400][1024], float f[1500], float y[1500][1400]) {{
#pragma scop
    for (int i = 0; i < 1500; i++)
        for (int j = 0; j < {columns}; j++) {{
            int32_t s = 0;
            for (int l = 0; l < 1024; l++) s += (int32_t)a[i][l] * (int32_t)b[j][l];
            y[i][j] = s * f[i];
        }}
#pragma endscop
}}
"""
TRIANGLES = """
void triangles(int n, int e[n][n], int count[n]) {
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            for (int k = j + 1; k < n; k++) count[i] += e[i][j] & e[j][k] & e[i][k];
#pragma endscop
}
"""


@pytest.mark.parametrize("columns", [1400, 700])
def test_rows_share_the_operands_that_they_have_in_common(columns: int) -> None:
    """Rows of a, which stay near, share the rows of b: their sums are scalars of their own."""
    (program,) = parse_c(SCORES.format(columns=columns))
    plan = choose_plan(program, machine("neoverse-n1"), 1, text=True).plan
    jams = [step for step in plan if isinstance(step, UnrollAndJam)]
    assert jams[0].loop == "i"
    (spread,) = (step for step in plan if isinstance(step, ExpandScalar))
    assert spread.array == "s"


def test_copies_of_different_ranges_are_no_vectors() -> None:
    """Copies that begin elsewhere are guarded, which hides the sums from compilers."""
    (program,) = parse_c(TRIANGLES)
    plan = choose_plan(program, machine("neoverse-n1"), 1, text=True).plan
    assert not any(isinstance(step, UnrollAndJam) for step in plan)
