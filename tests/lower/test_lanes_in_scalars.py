"""Lanes that run a loop alone are scalars during it: the same results, and nothing else moves."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Role
from loopwright.ir.text import nest_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.lanes_in_scalars import lanes_in_scalars
from loopwright.transform.apply import apply_step
from loopwright.transform.outer_vectors import OuterVectors
from loopwright.transform.privatize import Privatize
from loopwright.transform.schedule_legality import initial_schedule

CAUCHY = """
void cauchy(int n, {t} a[n], {t} b[n], {t} c[n]) {{
#pragma scop
  for (int i = 0; i < n; i++) {{
    {t} s = 0;
    for (int j = 0; j <= i; j++) s += a[j] * b[i - j];
    c[i] = s;
  }}
#pragma endscop
}}
"""
BEST = """
void best(int n, int a[n], int b[n], int c[n]) {
#pragma scop
  for (int i = 0; i < n; i++) {
    int top = -2147483647, count = 0;
    for (int j = i; j < n; j++) {
      int v = a[j] + b[j - i];
      top = v > top ? v : top;
      count += v > 3 ? 1 : 0;
    }
    c[i] = top + count;
  }
#pragma endscop
}
"""
ROWS = CAUCHY.replace("j <= i", "j < n").replace("b[i - j]", "b[j]")


def nest_of(text: str, lanes: int) -> LoopNest:
    (program,) = lw.parse_c(text)
    schedule = initial_schedule(program)
    for array in program.arrays:
        if array.role is Role.LOCAL:
            schedule = apply_step(schedule, Privatize(array.name, "i"))
    return lower_schedule(apply_step(schedule, OuterVectors("i", lanes, 1)) if lanes else schedule)


def results(nest: LoopNest, n: int) -> np.ndarray:
    random = np.random.default_rng(n)
    dtype = nest.buffers[0].dtype.name
    arrays = {name: random.integers(-9, 9, n).astype(dtype) for name in "abc"}
    interpret_nest(nest, arrays, {name: n if name == "n" else 1 for name in nest.scalars})
    return arrays["c"]


def test_a_lane_is_a_scalar_where_it_runs_alone() -> None:
    found = lanes_in_scalars(nest_of(CAUCHY.format(t="float"), 2))
    check_nest(found)
    text = nest_text(found)
    alone = """
        if max(0, j_to_v) < i + 2:
            alloc stack s_v_s_2: float32[] strides []
            s_v_s_2[] = s_v[0, 1]
            for j in range(max(0, j_to_v), i + 2):
                s_v_s_2[] = s_v_s_2[] + a[j] * b[i - j + 1]
            s_v[0, 1] = s_v_s_2[]"""
    assert alone in text
    assert "s_v[0, i_v] = s_v[0, i_v] + a[j] * b[i + i_v - j]" in text


@pytest.mark.drawn(3)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 11, 17])
@pytest.mark.parametrize("text", [CAUCHY.format(t="double"), BEST])
def test_results_are_the_same(text: str, n: int) -> None:
    nest = nest_of(text, 4)
    found = lanes_in_scalars(nest)
    assert found != nest
    check_nest(found)
    assert np.array_equal(results(found, n), results(nest, n))


def test_what_has_no_lane_of_its_own_stays() -> None:
    for nest in (
        nest_of(CAUCHY.format(t="double"), 0),
        nest_of(ROWS.format(t="double"), 4),
    ):
        assert lanes_in_scalars(nest) == nest


@pytest.mark.drawn(10)
@pytest.mark.parametrize("n", [0, 1, 2, 37, 64, 131, 211])
@pytest.mark.parametrize("dtype", ["float", "double", "int"])
def test_machine_code_has_the_sums_in_order(dtype: str, n: int) -> None:
    kernel = lw.compile(CAUCHY.format(t=dtype))
    kind = {"float": np.float32, "double": np.float64, "int": np.int32}[dtype]
    random = np.random.default_rng(n)
    a, b = (random.integers(-9, 9, n).astype(kind) for _ in range(2))
    c = np.ones(n, kind)
    kernel(n, a, b, c)
    assert np.array_equal(c, np.convolve(a, b)[:n] if n else c)
