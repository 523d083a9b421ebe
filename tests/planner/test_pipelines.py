"""Pipelines of nests: which are run together, how far stages lag behind, and their results."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import machine, parse_c
from loopwright.ir.interpret import interpret_program
from loopwright.ir.interpret_nest import interpret_nest
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import Band, nodes_of
from loopwright.lower.passes import lower_schedule
from loopwright.planner.generic import default_plan
from loopwright.planner.loop_plans.pipelines import plan_pipelines
from loopwright.transform.reschedule import Reschedule
from loopwright.transform.schedule_legality import initial_schedule

BLUR = """
void blur(int n, int m, double a[n][m], double b[n][m], double c[n][m]) {
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 1; j < m - 1; j++)
            b[i][j] = a[i][j - 1] + a[i][j] + a[i][j + 1];
    for (int y = 1; y < n - 1; y++)
        for (int x = 1; x < m - 1; x++)
            c[y][x] = b[y - 1][x] + b[y][x] + b[y + 1][x];
#pragma endscop
}
"""
HALF = """
void half(int n, int m, double a[2 * n][m], double b[2 * n][m], double c[n][m]) {
#pragma scop
    for (int i = 0; i < 2 * n; i++)
        for (int j = 0; j < m; j++)
            b[i][j] = 2 * a[i][j];
    for (int y = 0; y < n - 1; y++)
        for (int x = 0; x < m; x++)
            c[y][x] = b[2 * y][x] + b[2 * y + 1][x] + b[2 * y + 2][x];
#pragma endscop
}
"""
BETWEEN = BLUR.replace(
    "    for (int y",
    "    for (int k = 0; k < m; k++)\n        c[0][k] = b[0][k];\n    for (int y",
)
BACKWARDS = BLUR.replace("b[y - 1][x] + b[y][x] + b[y + 1][x]", "b[n - 1 - y][x]")


def rows(text: str, name: str = "sapphirerapids") -> str:
    """The function of the loop over rows of a pipeline; empty where there is none."""
    (program,) = parse_c(text)
    schedule = initial_schedule(program)
    steps = plan_pipelines(schedule, machine(name), parallel=False)
    if not steps:
        return ""
    (step,) = steps
    assert isinstance(step, Reschedule)
    root = nodes_of(step.apply(schedule))
    outer = root if isinstance(root, Band) else root.filters[0].child  # type: ignore[union-attr]
    assert isinstance(outer, Band)
    return str(outer.partial)


def test_a_stage_lags_behind_by_its_window() -> None:
    assert "S1[y, x] -> [(1 + y)]" in rows(BLUR)


def test_rows_of_half_the_picture_come_every_second_iteration() -> None:
    assert "S1[y, x] -> [(2 + 2y)]" in rows(HALF)


def test_what_stands_between_comes_after_where_nobody_waits_for_it() -> None:
    assert "S2[y, x] -> [(1 + y)]" in rows(BETWEEN)


def test_rows_far_from_each_other_are_no_pipeline() -> None:
    assert not rows(BACKWARDS)


def test_small_arrays_stay_in_cache_anyway() -> None:
    text = BLUR.replace("int n, int m, ", "").replace("[n][m]", "[100][100]")
    assert not rows(text.replace("< n", "< 100").replace("< m", "< 100"))


def test_cores_that_write_whole_lines_gain_less() -> None:
    assert not rows(BLUR, "neoverse-n1")


def test_threads_take_nests_apart() -> None:
    (program,) = parse_c(BLUR)
    found = plan_pipelines(initial_schedule(program), machine("sapphirerapids"), parallel=True)
    assert found == ()


def arrays(program: Program, n: int, m: int) -> dict[str, np.ndarray[tuple[int, ...], np.dtype]]:
    random = np.random.default_rng(n)
    tall = 2 * n if program.name == "half" else n
    shapes = {"a": (tall, m), "b": (tall, m), "c": (n, m)}
    return {name: random.random(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("text", [BLUR, HALF, BETWEEN])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (3, 2), (7, 5)])
def test_results(text: str, n: int, m: int) -> None:
    (program,) = parse_c(text)
    plan, schedule = default_plan(program, machine("sapphirerapids"))
    assert any(isinstance(step, Reschedule) for step in plan)
    want, found = arrays(program, n, m), arrays(program, n, m)
    interpret_program(program, want, {"n": n, "m": m})
    strides = {f"{name}_s{d}": s for name in "abc" for d, s in enumerate((m, 1))}
    interpret_nest(lower_schedule(schedule), found, {"n": n, "m": m} | strides)
    for name in "abc":
        assert np.array_equal(want[name], found[name])
