"""Loops with gaps are as many loops as they have stretches, whoever owns the scalars inside."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.loops import For, If
from loopwright.ir.visit import statements
from loopwright.lower.astgen import generate_loops
from loopwright.lower.passes import lower_schedule
from loopwright.transform.loop_marks import Parallel, Simd
from loopwright.transform.plan import apply_plan
from loopwright.transform.privatize import Privatize
from loopwright.transform.step import Step
from oracle import assert_same

FAR = """
void far(int n, double q[n], double phi[n]) {
#pragma scop
  for (int c = 0; c < n; c++) {
    phi[c] = 0.0;
    for (int d = 0; d < n; d++)
      if (d < c - 1 || d > c + 1) {
        double r = c - d;
        phi[c] += q[d] / (r * r);
      }
  }
#pragma endscop
}
"""
# What data of a pair are written to, and not only added up: vectors on both sides of the diagonal.
PAIRS = """
void pairs(int n, float x[n], float f[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (i != j) {
        float r = x[i] - x[j];
        f[i][j] = r * r + 1.0f;
      }
#pragma endscop
}
"""
SIZES = [0, 1, 2, 3, 4, 5, 17, 31]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (FAR, (Privatize("r", "d"), Parallel("c"))),
        (PAIRS, (Privatize("r", "j"), Parallel("i"))),
        (PAIRS, (Privatize("r", "j"), Simd("j"))),
    ],
)
def test_there_is_a_loop_for_each_stretch(text: str, steps: tuple[Step, ...]) -> None:
    (source,) = lw.parse_c(text)
    schedule = apply_plan(source, steps)
    inside = [s for s in statements(generate_loops(schedule).nest.body) if isinstance(s, For)]
    assert sum(loop.var == steps[0].loop for loop in inside) == 2
    for loop in inside:
        if loop.var == steps[0].loop:
            assert not any(isinstance(s, If) for s in statements(loop.body))
    nest = lower_schedule(schedule)
    for n in SIZES:
        assert_same(source, nest, {"n": n}, threads=2)


def test_loops_that_allocate_arrays_stay_one() -> None:
    (source,) = lw.parse_c(
        """
        void f(int n, double a[n][4], double b[n]) {
        #pragma scop
          for (int i = 0; i < n; i++)
            if (i != 7) {
              double t[4];
              for (int k = 0; k < 4; k++)
                t[k] = a[i][k] * a[i][3 - k];
              for (int k = 0; k < 4; k++)
                b[i] += t[k];
            }
        #pragma endscop
        }
        """
    )
    nest = generate_loops(apply_plan(source, (Privatize("t", "i"), Parallel("i")))).nest
    assert sum(isinstance(s, For) and s.var == "i" for s in statements(nest.body)) == 1


@pytest.mark.drawn(4)
@pytest.mark.parametrize("target", ["host", "openmp"])
@pytest.mark.parametrize("threads", [1, 2])
def test_values_are_those_of_the_source(target: str, threads: int) -> None:
    far = lw.compile(FAR, target=target, threads=threads)
    for n in (1, 2, 3, 97):
        charge, found = np.random.default_rng(n).normal(size=n), np.full(n, 5.0)
        far(n, charge, found)
        wanted = np.zeros(n)
        for c in range(n):
            for d in (d for d in range(n) if abs(c - d) > 1):
                wanted[c] += charge[d] / float((c - d) * (c - d))
        np.testing.assert_array_equal(found, wanted)
