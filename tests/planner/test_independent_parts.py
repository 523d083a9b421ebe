"""Loops in two parts of which threads share one: strips, and columns of the other part."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import has_openmp, needs_cc
from drawn import in_all
from loopwright import parse_c
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load import load_machine
from loopwright.planner.plan_choice import choose_plan
from loopwright.planner.planners import text_planner
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.transform.loop_fusion import DistributeStatements
from loopwright.transform.loop_marks import Parallel, ParallelChunks
from loopwright.transform.tiling import StripMine
from oracle import assert_same

TWO = replace(load_machine("sapphirerapids"), cores=2)

DESCENT = """
void descent(int e, int n, int d, double x[n][d], double y[n], double w[d], double g[d]) {
#pragma scop
    for (int t = 0; t < e; t++) {
        for (int j = 0; j < d; j++) g[j] = 0.0;
        for (int i = 0; i < n; i++) {
            double z = 0.0;
            for (int j = 0; j < d; j++) z += x[i][j] * w[j];
            double r = z - y[i];
            for (int j = 0; j < d; j++) g[j] += r * x[i][j];
        }
        for (int j = 0; j < d; j++) w[j] = w[j] - g[j] * 0.5;
    }
#pragma endscop
}
"""
# What the second part reads of the first are numbers, not rows.
LONGEST = """
void longest(int n, int d, double x[n][d], double top[n]) {
#pragma scop
    double most = 0.0;
    for (int i = 0; i < n; i++) {
        double s = 0.0;
        for (int j = 0; j < d; j++) s += x[i][j] * x[i][j];
        most = s > most ? s : most * 0.5;
        top[i] = most;
    }
#pragma endscop
}
"""


def test_rows_are_read_again_from_near_caches() -> None:
    """Both parts read x: strips of it are as long as short rows allow, its columns are shared."""
    (program,) = parse_c(DESCENT)
    chosen = choose_plan(program, TWO, 2, text=True)
    parted = next(s for s in chosen.plan if isinstance(s, DistributeStatements))
    strips = {s.loop: s.size for s in chosen.plan if isinstance(s, StripMine)}
    assert strips[parted.loop] == 4096
    shared = [s.loop for s in chosen.plan if isinstance(s, Parallel | ParallelChunks)]
    (columns,) = (loop for loop in shared if loop.removesuffix("_t") in strips)
    assert strips[columns.removesuffix("_t")] == 64
    nest = lower_schedule(chosen.schedule)
    for sizes in ((0, 3, 3), (1, 0, 5), (1, 1, 1), (2, 13, 131)):
        assert_same(program, nest, dict(zip("end", sizes, strict=True)), threads=2)


def test_numbers_need_no_strips() -> None:
    (program,) = parse_c(LONGEST)
    plan = choose_plan(program, TWO, 2, text=True).plan
    assert not any(isinstance(s, StripMine) and s.size == 4096 for s in plan)


@needs_cc
@pytest.mark.skipif(not has_openmp(), reason="the compiler has no OpenMP")
def test_results_are_those_of_the_source() -> None:
    file = read_c(DESCENT)
    found = optimise_region(file, file.regions[0], text_planner, TWO, target="openmp")
    flags = ("-O2", "-ffp-contract=off")
    written = load_library(build_library(spliced(file, [found]).decode(), ("-fopenmp", *flags)))
    source = load_library(build_library(DESCENT, flags))
    code = lw.compile(DESCENT, threads=2)
    # Machine code is made for rows of one element, and for long ones.
    for e, n, d in ((0, 2, 9), (1, 0, 9), (2, 1, 1), (1, 67, 131), (1, 4099, 1), (1, 8209, 67)):
        random = np.random.default_rng(n)
        given = [random.integers(-2, 3, s).astype(float) for s in ((n, d), (n,), (d,), (d,))]
        sizes = (e, n, d)
        wanted = _called(source["descent"], sizes, given)
        for threads in (1, 2, 3):
            written.omp_set_num_threads(threads)
            assert all(map(np.array_equal, _called(written["descent"], sizes, given), wanted)), (
                n,
                d,
                threads,
            )
        if in_all() or n > 5000:  # a call plans anew for small sizes
            results = [array.copy() for array in given]
            code(e, n, d, *results)
            assert all(map(np.array_equal, results, wanted)), (n, d, "machine code")


def _called(
    function: ctypes._CFuncPtr, sizes: tuple[int, ...], given: list[np.ndarray]
) -> list[np.ndarray]:
    results = [array.copy() for array in given]
    function(*sizes, *(ctypes.c_void_p(array.ctypes.data) for array in results))
    return results
