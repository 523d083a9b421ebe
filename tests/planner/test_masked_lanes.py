"""Lanes along outer loops where data decide: conditions in scalars, and counts beside sums."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import machine, parse_c
from loopwright.ir.program import Program
from loopwright.planner.generic import default_plan
from loopwright.planner.loop_plans import far_strips
from loopwright.planner.plan_choice import choose_plan
from loopwright.transform.outer_vectors import OuterVectors
from loopwright.transform.step import Step

NEAR = """
#include <math.h>
void near(int n, {type} cut, {type} x[n], {type} y[n], {type} f[n], {type} g[n], int count[n]) {{
#pragma scop
    for (int i = 0; i < n; i++) {{
        f[i] = 0; g[i] = 0; count[i] = 0;
        for (int j = 0; j < n; j++) {{
            {type} dx = x[i] - x[j], dy = y[i] - y[j];
            {type} d2 = dx * dx + dy * dy;
            if (j != i && d2 < cut && d2 > 0) {{
                {type} w = 1 / d2;
                f[i] += w * dx;
                g[i] += w * dy;
                count[i]++;
            }}
        }}
    }}
#pragma endscop
}}
"""
CORNERS = np.array([[0, 0], [0, 2], [2, 0], [2, 2], [1, 1]])
# More statements than searches for another order are likely to end with.
MANY = """
#include <math.h>
void many(int n, int steps, float cut, float x[n], float v[n], float f[n], float top[n],
          int met[n]) {
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < n; i++) {
            f[i] = 0; top[i] = 0; met[i] = 0;
            for (int j = 0; j < n; j++) {
                float d = x[i] - x[j], r = v[i] - v[j];
                float a = d * d, b = r * r, c = a + b;
                if (c < cut && i < j) {
                    float s = sqrtf(c), p = d / s, q = r / s;
                    float push = cut - s;
                    if (push > 0.5f) push = 0.5f;
                    float pull = p > q ? p : q;
                    f[i] += push * p;
                    top[i] += pull * q;
                    met[i] += 1;
                }
            }
            if (f[i] > cut) f[i] = cut;
        }
        for (int i = 0; i < n; i++) {
            v[i] += f[i]; x[i] += v[i]; top[i] *= v[i];
        }
    }
#pragma endscop
}
"""


def program(text: str) -> Program:
    (found,) = parse_c(text)
    return found


def lanes(steps: object) -> list[OuterVectors]:
    return [step for step in steps if isinstance(step, OuterVectors)]  # type: ignore[attr-defined]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("name", ["neoverse-n1", "skylake-avx512"])
def test_conditions_and_counts_are_lanes(name: str, kind: str) -> None:
    host = machine(name)
    plan, _ = default_plan(program(NEAR.format(type=kind)), host)
    (step,) = lanes(plan)
    assert (step.loop, step.lanes) == ("i", host.lanes(32 if kind == "float" else 64))


def test_integers_that_are_wider_have_no_lanes_beside() -> None:
    text = NEAR.format(type="float").replace("int count", "long count")
    assert not lanes(default_plan(program(text), machine("skylake-avx512"))[0])


@pytest.mark.drawn(2)
@pytest.mark.parametrize("text", [False, True])
def test_lanes_of_many_statements_are_tried_first(text: bool) -> None:
    chosen = choose_plan(program(MANY), machine("skylake-avx512"), 1, text=text)
    assert [step.loop for step in lanes(chosen.plan)] == ["i"]


def test_loops_that_write_one_element_have_no_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof takes isl longer than all else: iterations meet at once, so it is not tried."""
    asked: list[str] = []
    split = far_strips.SplitByDistance

    def offer(loop: str, distance: int) -> Step:
        asked.append(loop)
        return split(loop, distance)

    monkeypatch.setattr(far_strips, "SplitByDistance", offer)
    default_plan(program(NEAR.format(type="double")), machine("skylake-avx512"))
    assert asked == []


def near(cut: float, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """What the text means where all numbers are exact, element by element."""
    f, g, count = np.zeros_like(x), np.zeros_like(x), np.zeros(len(x), np.int32)
    for i in range(len(x)):
        for j in range(len(x)):
            dx, dy = x[i] - x[j], y[i] - y[j]
            d2 = dx * dx + dy * dy
            if j != i and d2 < cut and d2 > 0:
                f[i] += dx / d2
                g[i] += dy / d2
                count[i] += 1
    return f, g, count


@pytest.mark.drawn(2)
@pytest.mark.parametrize("kind", ["float", "double"])
def test_bits(kind: str) -> None:
    """Of machine code and C text, where all numbers are exact."""
    runs = [lw.compile(NEAR.format(type=kind), target, threads=1) for target in ("host", "c")]
    random = np.random.default_rng(5)
    dtype = np.float32 if kind == "float" else np.float64
    for n in (0, 1, 2, 15, 16, 17, 37, 61):
        for cut in (0.0, 3.0, 5.0, 9.0):
            # Corners of a square and its centre: squares of distances are powers of two.
            x, y = np.ascontiguousarray(CORNERS[random.integers(0, 5, n)].T.astype(dtype))
            wanted = near(cut, x, y)
            for run in runs:
                f, g, count = np.ones(n, dtype), np.ones(n, dtype), np.ones(n, np.int32)
                run(n, cut, x, y, f, g, count)
                for found, expected in zip((f, g, count), wanted, strict=True):
                    np.testing.assert_array_equal(found, expected, err_msg=f"{n} {cut}")


def test_bits_of_many_statements() -> None:
    """The plan and the order of the source agree to the bit; C compilers fuse as they like."""
    planned = lw.compile(MANY, threads=1)
    in_order = lw.compile(MANY, threads=1, plan=[lw.Plan(())])
    random = np.random.default_rng(3)
    for n in (0, 1, 16, 37):
        x, v = (random.random(n).astype(np.float32) for _ in range(2))
        results = []
        for run in (planned, in_order):
            f, top, met = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.int32)
            own = [x.copy(), v.copy(), f, top, met]
            run(n, 3, 0.25, *own)
            results.append(own)
        for found, expected in zip(*results, strict=True):
            np.testing.assert_array_equal(found, expected)
