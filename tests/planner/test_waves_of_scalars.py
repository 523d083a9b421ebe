"""Passes whose rows hold scalars go in waves too: every iteration has its own copies."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.machines import load_machine
from loopwright.planner.generic import default_plan
from loopwright.transform.privatize import Privatize
from loopwright.transform.skew import Skew

N1 = load_machine("neoverse-n1")

FLUXES = """
void step(int steps, double h[{n}][{n}], double q[{n}][{n}], double f[{n}][{n}]) {{
#pragma scop
    for (int t = 0; t < steps; t++) {{
        for (int i = 0; i < {n}; i++)
            for (int j = 0; j < {n}; j++) {{
                double u = q[i][j] / h[i][j];
                f[i][j] = u * q[i][j];
            }}
        for (int i = 1; i < {n} - 1; i++)
            for (int j = 1; j < {n} - 1; j++) {{
                h[i][j] -= 0.5 * (q[i + 1][j] - q[i - 1][j]);
                q[i][j] -= 0.5 * (f[i + 1][j] - f[i - 1][j]);
            }}
    }}
#pragma endscop
}}
"""


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("n", "threads", "is_taken"), [(900, 2, 1), (900, 1, 1), (2000, 2, 1)])
def test_waves_on_one_thread_and_two(n: int, threads: int, is_taken: int) -> None:
    (program,) = lw.parse_c(FLUXES.format(n=n).encode())
    plan, _ = default_plan(program, N1, parallel=threads > 1)
    assert sum(isinstance(step, Skew) for step in plan) == is_taken
    assert [step.array for step in plan if isinstance(step, Privatize)] == ["u"]
