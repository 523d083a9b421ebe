"""Lanes of one nest do not fall with another order of the nest beside it."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from loopwright import machine, parse_c
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.ir.interpret import interpret_program
from loopwright.ir.program import Program
from loopwright.machines.host import host
from loopwright.planner.plan_choice import choose_plan
from loopwright.planner.planners import model_planner
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.transform.outer_vectors import OuterVectors
from loopwright.transform.unroll_and_jam import UnrollAndJam

# Copies of the loop over bodies, four at once, have short loops of their own ranges inside.
BODIES = """
void bodies(int n, int m, double x[n][m][3], double w[n][m], double t[n][3][3], double far[n]) {
#pragma scop
    for (int b = 0; b < n; b++) {
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) t[b][i][j] = 0.0;
        for (int p = 0; p < m; p++) {
            double r2 = x[b][p][0] * x[b][p][0] + x[b][p][1] * x[b][p][1];
            for (int i = 0; i < 3; i++)
                for (int j = 0; j <= i; j++)
                    t[b][i][j] += w[b][p] * ((i == j ? r2 : 0.0) - x[b][p][i] * x[b][p][j]);
        }
    }
    for (int b = 0; b < n; b++) {
        double s = 0.0;
        for (int d = 0; d < n; d++) {
            double r = b - d + 0.5;
            s += t[d][0][0] / (r * r) + t[d][1][1] / (r * r * r);
        }
        far[b] = s;
    }
#pragma endscop
}
"""


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ["neoverse-n1", "skylake-avx512"])
def test_lanes_are_taken_alone_where_the_other_order_is_dear(name: str) -> None:
    (program,) = parse_c(BODIES.replace("[m]", "[100]").replace("p < m", "p < 100"))
    chosen = choose_plan(program, machine(name), 1)
    (step,) = (step for step in chosen.plan if isinstance(step, OuterVectors))
    assert step.loop == "b_1"
    assert not any(isinstance(step, UnrollAndJam) for step in chosen.plan)


@cache
def compiled() -> tuple[Program, Any, Any]:
    """The source, what the compiler makes of our text, and our machine code."""
    file = read_c(BODIES)
    found = optimise_region(file, file.regions[0], model_planner, host(), target="c")
    text = spliced(file, [found]).decode()
    (program,) = parse_c(BODIES)
    return program, load_library(build_library(text, ("-O3",)))["bodies"], lw.compile(BODIES)


@needs_cc
@pytest.mark.drawn(4)
@pytest.mark.parametrize(("n", "m"), [(11, 2), (0, 3), (1, 0), (1, 1), (17, 3)])
def test_text_and_machine_code_have_the_bits_of_the_source(n: int, m: int) -> None:
    program, written, code = compiled()

    def arguments() -> tuple[np.ndarray, ...]:
        random = np.random.default_rng(n + m)
        x, w = (random.integers(-9, 9, shape).astype(float) for shape in ((n, m, 3), (n, m)))
        return x, w, np.ones((n, 3, 3)), np.ones(n)

    wanted, by_text, by_code = (arguments() for _ in range(3))
    arrays = dict(zip(("x", "w", "t", "far"), wanted, strict=True))
    interpret_program(program, arrays, {"n": n, "m": m})
    written(n, m, *(ctypes.c_void_p(array.ctypes.data) for array in by_text))
    code(n, m, *by_code)
    for right, one, other in zip(wanted, by_text, by_code, strict=True):
        assert np.array_equal(one, right)
        assert np.array_equal(other, right)
