"""Short loops that are unrolled whole, scalars of inner loops, and loops that are no passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import machine, parse_c
from loopwright.planner.generic import default_plan, extend_plan
from loopwright.planner.source_order import source_order
from loopwright.transform.loop_marks import Parallel, ParallelChunks, Simd, Unroll
from loopwright.transform.plan import initial_schedule
from loopwright.transform.skew import Skew
from loopwright.transform.step import Step

WINDOW = """
void window(int n, int m, unsigned char src[n + 4][m + 4], unsigned char dst[n][m]) {
#pragma scop
    for (int r = 0; r < n; r++)
        for (int c = 0; c < m; c++) {
            unsigned char lo = 255, hi = 0;
            for (int i = 0; i < 5; i++)
                for (int j = 0; j < 5; j++) {
                    unsigned char v = src[r + i][c + j];
                    if (v < lo) lo = v;
                    if (v > hi) hi = v;
                }
            dst[r][c] = hi - lo;
        }
#pragma endscop
}
"""
SHARED = """
void shared(int n, int m, double e[n + 1][m + 1], double x[n][m], double y[n][m]) {
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            double here = e[i][j];
            x[i][j] -= e[i][j + 1] - here;
            y[i][j] += e[i + 1][j] - here;
        }
#pragma endscop
}
"""
ELEMENTS = """
void elements(int n, int m, double k[2][2], double x[n + 1][m + 1], double y[n + 1][m + 1]) {
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            for (int a = 0; a < 2; a++)
                for (int b = 0; b < 2; b++)
                    y[i + a][j + b] += k[a][b] * x[i + b][j + a];
#pragma endscop
}
"""
BLOCKS = """
void blocks(int n, float a[n][8][{wide}], float c[8][8], float b[n][8][{wide}]) {{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int v = 0; v < 8; v++)
            for (int u = 0; u < {wide}; u++) {{
                float s = 0.0f;
                for (int y = 0; y < 8; y++)
                    s += a[i][y][u] * c[v][y];
                b[i][v][u] = s;
            }}
#pragma endscop
}}
"""
MOVING = """
void moving(int n, int m, double a[n][m], double out[n][m]) {
#pragma scop
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < m - 1; j++) {
            double s = 0;
            for (int y = i - 1; y <= i + 1; y++)
                for (int x = j - 1; x <= j + 1; x++)
                    s += a[y][x];
            out[i][j] = s / 9;
        }
#pragma endscop
}
"""
COLOURS = """
void colours(int n, int m, int mix[3][3], unsigned short raw[n][m][2], unsigned char out[n][m][3]) {
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            int a = raw[i][j][0], b = raw[i][j][1];
            for (int k = 0; k < 3; k++)
                out[i][j][k] = (mix[k][0] * a + mix[k][1] * b + mix[k][2]) / 7;
        }
#pragma endscop
}
"""


def steps(text: str, *, parallel: bool = True) -> tuple[Step, ...]:
    (program,) = parse_c(text)
    plan, _ = default_plan(program, machine("neoverse-n1"), parallel=parallel)
    return tuple(plan)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("parallel", [False, True])
def test_a_window_is_unrolled_into_the_loop_around_it(parallel: bool) -> None:
    found = steps(WINDOW, parallel=parallel)
    assert {(step.loop, step.factor) for step in found if isinstance(step, Unroll)} == {
        ("i", 5),
        ("j", 5),
    }
    assert [step.loop for step in found if isinstance(step, Simd)] == ["c"]


def test_a_window_may_move_along_with_the_loops_around_it() -> None:
    found = steps(MOVING)
    assert {step.loop for step in found if isinstance(step, Unroll)} == {"y", "x"}
    assert [step.loop for step in found if isinstance(step, Simd)] == ["j"]


def test_elements_with_gaps_are_neighbours_where_the_gaps_are_used_too() -> None:
    found = steps(COLOURS)
    assert [step.loop for step in found if isinstance(step, Unroll)] == ["k"]
    assert [step.loop for step in found if isinstance(step, Simd)] == ["j"]
    apart = COLOURS.replace("[n][m][3]", "[n][m][4]")
    assert "j" not in [step.loop for step in steps(apart) if isinstance(step, Simd)]


RAYS = """
void rays(int n, int m, double c[4], double u[n + 8][m + 8], double v[n][m]) {
#pragma scop
    for (int y = 0; y < n; y++)
        for (int x = 0; x < m; x++) {
            double sum = u[y + 4][x + 4];
            for (int r = 0; r < 4; r++)
                sum += c[r] * (u[y + 4][x + 4 + r] + u[y + 4 + r][x + 4]);
            v[y][x] = sum;
        }
#pragma endscop
}
"""
POWERS = """
void powers(int n, int m, double w[n], double x[n][m], double sums[5][m]) {
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            double power = w[i];
            for (int p = 0; p < 5; p++) {
                sums[p][j] += power;
                power *= x[i][j];
            }
        }
#pragma endscop
}
"""


def test_floating_sums_of_a_short_loop_are_written_out_too() -> None:
    found = steps(RAYS)
    assert [(step.loop, step.factor) for step in found if isinstance(step, Unroll)] == [("r", 4)]
    assert [step.loop for step in found if isinstance(step, Simd)] == ["x"]


def test_short_loops_are_written_out_in_the_strips_of_threads() -> None:
    (program,) = parse_c(POWERS)
    found = extend_plan(initial_schedule(program), machine("neoverse-n1"), parallel=True)
    assert [step.loop for step in found if isinstance(step, ParallelChunks)] == ["j_t"]
    assert [step.loop for step in found if isinstance(step, Unroll)] == ["p"]
    assert [step.loop for step in found if isinstance(step, Simd)] == ["j"]


def test_a_scalar_of_an_inner_loop_leaves_it_its_vectors() -> None:
    found = steps(SHARED)
    assert [step.loop for step in found if isinstance(step, Parallel)] == ["i"]
    assert [step.loop for step in found if isinstance(step, Simd)] == ["j"]


def test_a_loop_that_moves_on_is_no_loop_of_passes() -> None:
    assert not any(isinstance(step, Skew) for step in steps(ELEMENTS))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("threads", [2, 1])
def test_results(threads: int) -> None:
    texts = {"window": WINDOW, "shared": SHARED, "moving": MOVING, "colours": COLOURS}
    code = {name: lw.compile(text, threads=threads)[name] for name, text in texts.items()}
    tiny = (1, 1) if threads == 1 else (0, 0)  # code is made for such short rows
    for n, m in (tiny, (0, 13), (7, 13), (40, 67)):
        check_results(code, n, m)


def check_results(code: dict[str, Any], n: int, m: int) -> None:
    random = np.random.default_rng(n)
    src = random.integers(0, 256, (n + 4, m + 4), np.uint8)
    dst = np.zeros((n, m), np.uint8)
    code["window"](n, m, src, dst)
    for r, c in np.ndindex(n, m):
        part = src[r : r + 5, c : c + 5]
        assert dst[r, c] == part.max() - part.min()
    e, x, y = (random.integers(-9, 9, (n + k, m + k)) + 0.0 for k in (1, 0, 0))
    want = x - (e[:-1, 1:] - e[:-1, :-1]), y + (e[1:, :-1] - e[:-1, :-1])
    code["shared"](n, m, e, x, y)
    assert np.array_equal(x, want[0])
    assert np.array_equal(y, want[1])
    a, out = random.random((n, m)), np.zeros((n, m))
    code["moving"](n, m, a, out)
    for i, j in np.ndindex(max(0, n - 2), max(0, m - 2)):
        total = 0.0
        for y, x in np.ndindex(3, 3):
            total += a[i + y, j + x]
        assert out[i + 1, j + 1] == total / 9
    mix = random.integers(-50, 50, (3, 3), np.int32)
    raw = random.integers(0, 1 << 16, (n, m, 2)).astype(np.uint16)
    colours = np.zeros((n, m, 3), np.uint8)
    code["colours"](n, m, mix, raw, colours)
    sums = raw.astype(np.int64) @ mix[:, :2].T.astype(np.int64) + mix[:, 2]
    assert np.array_equal(colours, np.trunc(sums / 7).astype(np.int64).astype(np.uint8))


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("wide", "is_taken"), [(8, True), (4, True), (7, False), (3, False)])
def test_loops_that_fill_vectors_need_not_be_long(wide: int, is_taken: bool) -> None:
    (program,) = parse_c(BLOCKS.format(wide=wide))
    plan, _ = default_plan(program, machine("neoverse-n1"))
    assert (Unroll("y", 8) in plan and Simd("u") in plan) == is_taken


def test_rows_of_a_small_triangle_are_no_vectors() -> None:
    (program,) = lw.parse_c(
        """void f(int n, double m[n][4][4]) {
#pragma scop
  for (int p = 0; p < n; p++)
    for (int k = 0; k < 4; k++)
      for (int i = k + 1; i < 4; i++)
        for (int j = k + 1; j < 4; j++) m[p][i][j] -= m[p][i][k] * m[p][k][j];
#pragma endscop
}"""
    )
    plan, _ = source_order(program, machine("neoverse-n1"), 1)
    assert not any(isinstance(step, Simd) for step in plan)
