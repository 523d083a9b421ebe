"""Short rows that lie one behind the other: which loops become one, and what they compute."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.expr import Const, Var
from loopwright.ir.text import stmt_text
from loopwright.lower.buffers import specialise
from loopwright.lower.collapse_rows import collapse_rows
from loopwright.lower.passes import lower_schedule
from loopwright.transform.loop_marks import Parallel, Simd
from loopwright.transform.plan import apply_plan
from loopwright.transform.step import Step
from oracle import assert_same
from programs import Do, For, program

ROWS = "inout float64 [n, m]"
UNIT = {"A_s1": 1, "B_s1": 1, "x_s0": 1}
SIZES = ((0, 3), (3, 0), (1, 1), (5, 3), (7, 8), (3, 17), (13, 31), (2, 127), (2, 128), (2, 131))


def rows(*body: Do, first: int | str = 0, inner: str = "m", steps: tuple[Step, ...] = ()):
    whole = For("i", first, "n", For("j", 0, inner, *body))
    arrays = {"A": ROWS, "B": ROWS, "x": "in float64 [m]"}
    source = program("rows", arrays, whole, params="n m")
    nest = lower_schedule(apply_plan(source, steps or (Simd("j"),)))
    return source, specialise(nest, UNIT)


def test_golden() -> None:
    _, nest = rows(Do("B[i, j]", "2 * A[i, j]"), first=1)
    assert stmt_text(collapse_rows(nest).body) == (
        "if (1 <= m) & (m < 128) & (A_s0 == m) & (B_s0 == m):\n"
        "    simd for i_j in range(m, n * m):\n"
        "        B[0, i_j] = 2.0 * A[0, i_j]\n"
        "else:\n"
        "    for i in range(1, n):\n"
        "        simd for j in range(m):\n"
        "            B[i, j] = 2.0 * A[i, j]"
    )


def test_known_strides_decide_alone() -> None:
    _, nest = rows(Do("B[i, j]", "2 * A[i, j]"))
    packed = {name: (Var("m"), Const(1)) for name in ("A", "B")}
    assert stmt_text(collapse_rows(nest, packed).body).startswith("if (1 <= m) & (m < 128):\n")
    assert collapse_rows(nest, {**packed, "A": (Var("n"), Const(1))}) is nest


@pytest.mark.parametrize(
    "body",
    [
        (Do("B[i, j]", "B[i, j] + 2 * A[i, j]"),),
        (Do("B[i, j]", "A[i, j] * x[0]"), Do("A[i, j]", "B[i, j] + 1")),
    ],
    ids=["in place", "two statements"],
)
def test_meaning(body: tuple[Do, ...]) -> None:
    source, nest = rows(*body)
    made = collapse_rows(nest)
    assert made is not nest
    for n, m in SIZES:
        assert_same(source, made, {"n": n, "m": m})


@pytest.mark.parametrize(
    "body",
    [
        Do("B[i, j]", "A[i, j] * x[j]"),
        Do("B[i, j]", "A[i, j + 1]"),
        Do("B[i, j]", "A[i, j] + float64(j)"),
        Do("B[i, j]", "A[i, j] + float64(i)"),
        Do("B[i, j]", "A[i, j] + B[0, 0]"),
        Do("B[i, j]", "A[i - 1, j]"),
        Do("A[0, j]", "A[0, j] + B[i, j]"),
    ],
    ids=["a row for all", "neighbour", "column", "row", "one for all", "row above", "sums"],
)
def test_loops_that_need_more_than_their_elements_stay(body: Do) -> None:
    _, nest = rows(body, first=1)
    assert collapse_rows(nest) is nest


def test_threads_share_out_strips() -> None:
    source, nest = rows(Do("B[i, j]", "A[i, j]"), first=1, steps=(Simd("j"), Parallel("i")))
    made = collapse_rows(nest)
    assert stmt_text(made.body).splitlines()[1:4] == [
        "    parallel for i in range(1, n, 256):",
        "        simd for i_j in range(i * m, min(i + 256, n) * m):",
        "            B[0, i_j] = A[0, i_j]",
    ]
    for n, m in (*SIZES, (257, 3), (514, 2)):
        assert_same(source, made, {"n": n, "m": m}, threads=2)
    packed = {name: (Var("m"), Const(1)) for name in ("A", "B")}
    assert collapse_rows(nest, packed) is nest


def test_rows_of_constant_length_stay() -> None:
    _, nest = rows(Do("B[i, j]", "A[i, j]"), inner="3")
    assert collapse_rows(nest) is nest


SOURCE = b"""
void f(int n, int m, float c[n][m], const float a[n][m], const float *d, float *e) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) {
      c[i][j] = 0.5f * a[i][j] - c[i][j];
      e[i*m + j] = d[i*m + j] > 0.5f ? c[i][j] : 1.0f;
    }
#pragma endscop
}
"""


@pytest.mark.drawn(2)
@pytest.mark.parametrize("target", ["host", "c"])
def test_functions_of_c(target: str) -> None:
    """The bits of both roads are NumPy's, wherever rows end."""
    lw.set_num_threads(1)
    compiled = lw.compile(SOURCE, target)["f"]
    rng = np.random.default_rng(3)
    for n, m in SIZES:
        c, a, d = (rng.random((n, m), dtype=np.float32) for _ in range(3))
        e = np.zeros(n * m, np.float32)
        expected = np.float32(0.5) * a - c
        compiled(n, m, c, a, d.ravel(), e)
        np.testing.assert_array_equal(c, expected)
        np.testing.assert_array_equal(e, np.where(d > np.float32(0.5), c, np.float32(1.0)).ravel())


@pytest.mark.drawn(2)
@pytest.mark.parametrize("threads", [2, 1])
def test_arrays_with_gaps(threads: int) -> None:
    """The strides of a call decide: rows with gaps between them are no long row."""

    @lw.jit(threads=threads)
    def scale(c, a):
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                c[i, j] = 2.0 * a[i, j] + 1.0

    rng = np.random.default_rng(4)
    for n, m in (*SIZES, (6000, 3)):
        wide, a = np.zeros((n, m + 5)), rng.random((n, m))
        scale(wide[:, :m], a)
        np.testing.assert_array_equal(wide[:, :m], 2.0 * a + 1.0)
        np.testing.assert_array_equal(wide[:, m:], 0.0)
        whole = np.zeros((n, m))
        scale(whole, a)
        np.testing.assert_array_equal(whole, 2.0 * a + 1.0)
        scale(whole, rng.random((2 * n, m))[::2])
