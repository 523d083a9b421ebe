"""Rows beside products: sums in order several at a time, as far as rows side by side allow."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.machines import load_machine
from loopwright.planner.generic import default_plan
from loopwright.transform.plan import Plan
from loopwright.transform.unroll_and_jam import UnrollAndJam

# A batch of products whose rows are divided by sums of other rows.
SCALED = """
void f(int H, int N, int D, double P[H][N][N], double V[H][N][D], double O[H][N][D]) {
#pragma scop
  for (int h = 0; h < H; h++)
    for (int i = 0; i < N; i++) {
      double z = 0;
      for (int j = 0; j < N; j++) z += P[h][i][j];
      for (int d = 0; d < D; d++) {
        double o = 0;
        for (int j = 0; j < N; j++) o += P[h][i][j] * V[h][j][d];
        O[h][i][d] = o / z;
      }
    }
#pragma endscop
}
"""
# Two sums over three arrays of rows, one of them a product.
DENSITY = """
void f(int n, int m, double A[n][m], double B[n][m], double D[m][m], double r[n], double g[n]) {
#pragma scop
  for (int i = 0; i < n; i++) {
    double s = 0, t = 0;
    for (int j = 0; j < m; j++) {
      double x = 0;
      for (int k = 0; k < m; k++) x += D[j][k] * A[i][k];
      s += A[i][j] * x;
      t += B[i][j] * x;
    }
    r[i] = s;
    g[i] = t;
  }
#pragma endscop
}
"""


def jams(text: str) -> dict[str, int]:
    (program,) = lw.parse_c(text)
    plan, _ = default_plan(program, load_machine("sapphirerapids"))
    return {step.loop: step.factor for step in plan if isinstance(step, UnrollAndJam)}


def test_sums_of_rows_inside_a_batch_are_jammed() -> None:
    assert set(jams(SCALED).values()) == {4}


def test_rows_side_by_side_are_few() -> None:
    assert set(jams(DENSITY).values()) <= {2}


@cache
def compiled() -> tuple[Any, Any]:
    return lw.compile(SCALED), lw.compile(SCALED, plan=Plan(()))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("sizes", [(3, 7, 5), (0, 3, 2), (1, 1, 1), (2, 13, 0), (2, 16, 11)])
def test_sums_keep_their_order(sizes: tuple[int, int, int]) -> None:
    heads, rows, columns = sizes
    random = np.random.default_rng(1)
    shares, values = random.random((heads, rows, rows)), random.random((heads, rows, columns))
    given = shares, values
    found, expected = (np.zeros((heads, rows, columns)) for _ in range(2))
    by_model, in_source_order = compiled()
    by_model(*sizes, *given, found)
    in_source_order(*sizes, *given, expected)
    assert found.tobytes() == expected.tobytes()
