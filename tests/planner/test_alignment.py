"""Which simd loops begin with a vector that is stored whole."""

from __future__ import annotations

import pytest

from loopwright import machine, parse_c
from loopwright.planner.generic import default_plan
from loopwright.transform.loop_marks import Align


@pytest.mark.parametrize(
    ("kind", "body", "is_aligned"),
    [
        ("double", "for (int j = 3; j < n; j++) b[i][j] = a[i][j] + a[i + 1][j];", True),
        ("double", "for (int j = 4; j < n; j++) b[i][j] = a[i][j] + a[i + 1][j];", False),
        ("double", "for (int j = 4; j < n; j++) b[i][j] = a[i][j - 1] + a[i][j];", True),
        ("double", "for (int j = 1; j < n; j++) { double t = a[i][j]; b[i][j] = t * t; }", True),
        ("unsigned char", "for (int j = 1; j < n; j++) b[i][j] = a[i][j] / 2;", False),
    ],
)
def test_loops_that_begin_between_vectors(kind: str, body: str, is_aligned: bool) -> None:
    (program,) = parse_c(f"""
        void f(int n, {kind} a[n + 1][n], {kind} b[n][n]) {{
        #pragma scop
            for (int i = 0; i < n; i++)
                {body}
        #pragma endscop
        }}
    """)
    plan, _ = default_plan(program, machine("neoverse-n1"))
    assert any(isinstance(step, Align) for step in plan) == is_aligned
