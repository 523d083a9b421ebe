"""Lanes along loops of a few iterations around long ones: targets of a leaf, points of a cell."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import machine, parse_c
from loopwright.ir.program import Program
from loopwright.planner.generic import default_plan
from loopwright.transform.outer_vectors import OuterVectors

# Fields at a few targets of every leaf, of the sources within reach.
LEAVES = """
void leaves(int n, int m, float cut, float x[n][{few}], float y[n][{few}], float p[m], float q[m],
            float f[n][{few}], int hits[n][{few}]) {{
#pragma scop
    for (int l = 0; l < n; l++)
        for (int t = 0; t < {few}; t++) {{
            float s = 0.0f;
            int h = 0;
            for (int k = 0; k < m; k++) {{
                float dx = p[k] - x[l][t], dy = q[k] - y[l][t];
                float r2 = dx * dx + dy * dy;
                if (r2 > 0.0f && r2 < cut) {{
                    s += dx / r2;
                    h++;
                }}
            }}
            f[l][t] = s;
            hits[l][t] = h;
        }}
#pragma endscop
}}
"""
# Points of a cell beside those of the cells around.
CELLS = """
void cells(int n, double cut, double x[n][{few}], double f[n][{few}]) {{
#pragma scop
    for (int c = {reach}; c < n - {reach}; c++)
        for (int a = 0; a < {few}; a++) {{
            double s = 0.0;
            for (int o = -{reach}; o <= {reach}; o++)
                for (int b = 0; b < {few}; b++) {{
                    double d = x[c][a] - x[c + o][b] - o;
                    double r2 = d * d;
                    if (r2 > 0.0 && r2 < cut)
                        s += d * (1.0 / r2 - 1.0 / cut);
                }}
            f[c][a] = s;
        }}
#pragma endscop
}}
"""


def program(text: str) -> Program:
    (found,) = parse_c(text)
    return found


def lanes(text: str, name: str) -> list[tuple[str, int]]:
    plan, _ = default_plan(program(text), machine(name))
    return [(step.loop, step.lanes) for step in plan if isinstance(step, OuterVectors)]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ["zen3", "skylake-avx512"])
def test_a_vector_or_two_of_targets(name: str) -> None:
    assert lanes(LEAVES.format(few=16), name) == [("t", machine(name).lanes(32))]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("name", "few"), [("zen3", 12), ("zen3", 20), ("skylake-avx512", 12)])
def test_narrower_vectors_leave_no_target_over(name: str, few: int) -> None:
    assert lanes(LEAVES.format(few=few), name) == [("t", 4)]
    assert lanes(LEAVES.format(few=8), name) == [("t", 8)]


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("few", "wide"), [(8, 8), (12, 4)])
def test_points_of_a_cell(few: int, wide: int) -> None:
    assert lanes(CELLS.format(few=few, reach=4), "skylake-avx512") == [("a", wide)]


def test_less_than_a_vector_stays() -> None:
    assert lanes(LEAVES.format(few=6), "skylake-avx512") == []


def test_few_iterations_around_few_stay() -> None:
    assert lanes(CELLS.format(few=8, reach=1), "skylake-avx512") == []


@pytest.mark.drawn(4)
@pytest.mark.parametrize("few", [8, 12, 16, 20])
def test_bits_of_leaves(few: int) -> None:
    text = LEAVES.format(few=few)
    runs = [lw.compile(text, target, threads=1) for target in ("host", "c")]
    random = np.random.default_rng(few)
    for n, m in ((0, 3), (1, 0), (1, 1), (3, 7), (5, 61)):
        # Squares of distances are powers of two, so that quotients and sums are exact.
        x, p = 2.0 * random.integers(0, 2, (n, few)), 2.0 * random.integers(0, 2, m)
        y, q = x.copy(), p.copy()
        dx = p - x[..., None]
        is_near = (2 * dx * dx > 0) & (2 * dx * dx < 9.0)
        parts = np.divide(dx, 2 * dx * dx, out=np.zeros_like(dx), where=is_near)
        for run in runs:
            f, hits = np.ones((n, few), np.float32), np.ones((n, few), np.int32)
            run(n, m, 9.0, *(a.astype(np.float32) for a in (x, y, p, q)), f, hits)
            np.testing.assert_array_equal(f, parts.sum(axis=2))
            np.testing.assert_array_equal(hits, is_near.sum(axis=2))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("few", [8, 12])
def test_bits_of_cells(few: int) -> None:
    """The plan and the order of the source agree to the bit."""
    text = CELLS.format(few=few, reach=4)
    planned = lw.compile(text, threads=1)
    in_order = lw.compile(text, threads=1, plan=[lw.Plan(())])
    for n in (0, 1, 8, 9, 13):
        x = np.random.default_rng(n).random((n, few))
        found, expected = np.zeros((n, few)), np.zeros((n, few))
        planned(n, 4.0, x, found)
        in_order(n, 4.0, x, expected)
        np.testing.assert_array_equal(found, expected)
