"""C text for threads: rows of tiles in waves beside each other, blocks of lanes in turn."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import has_openmp, needs_cc
from loopwright import parse_c
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load import load_machine
from loopwright.planner.plan_choice import choose_plan
from loopwright.planner.planners import text_planner
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.outer_vectors import OuterVectors
from loopwright.transform.plan import Plan
from loopwright.transform.tiling import Tile
from loopwright.transform.unroll_and_jam import UnrollAndJam
from oracle import assert_same

TWO = replace(load_machine("sapphirerapids"), cores=2)
SAME = ("-O2", "-ffp-contract=off")

PATHS = """
void paths(int n, int m, unsigned char wall[n][m], unsigned ways[n][m]) {
#pragma scop
    for (int i = 1; i < n; i++) {
        ways[i][0] = wall[i][0] ? 0 : ways[i - 1][0];
        for (int j = 1; j < m; j++)
            ways[i][j] = wall[i][j] ? 0 : ways[i - 1][j] + ways[i][j - 1] + ways[i - 1][j - 1];
    }
#pragma endscop
}
"""
CHAINS = """
void chains(int n, int m, unsigned factor[n][m], unsigned sum[n][m]) {
#pragma scop
    for (int i = 1; i < n; i++) {
        sum[i][0] = sum[i - 1][0] + factor[i][0];
        for (int j = 1; j < m; j++) sum[i][j] = factor[i][j] * sum[i][j - 1] + sum[i - 1][j];
    }
#pragma endscop
}
"""
KNAPSACKS = """
void knapsacks(int n, int m, int gain[n][m], int total[n][m]) {
#pragma scop
    for (int p = 1; p < n; p++)
        for (int c = 0; c < m; c++) {
            int best = -2147483647;
            for (int h = 0; h <= c; h++) {
                int v = total[p - 1][c - h] + gain[p][h];
                best = v > best ? v : best;
            }
            total[p][c] = best;
        }
#pragma endscop
}
"""
RANKS = """
void ranks(int n, double x[n], int rank[n]) {
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            rank[i] += x[j] <= x[i] ? 1 : 0;
            rank[j] += x[j] <= x[i] ? 0 : 1;
        }
#pragma endscop
}
"""
TYPES = {
    PATHS: (np.uint8, np.uint32),
    CHAINS: (np.uint32, np.uint32),
    KNAPSACKS: (np.int32, np.int32),
}


def taken(text: str, *, is_text: bool) -> Plan:
    (program,) = parse_c(text)
    return choose_plan(program, TWO, 2, text=is_text).plan


@pytest.mark.parametrize("text", [PATHS, CHAINS])
def test_rows_of_tiles_run_beside_each_other(text: str) -> None:
    """As they do on one thread: each row waits for its own last element.

    Tiles in waves have a price on one thread that does not count their rows again and again.
    """
    plan = taken(text, is_text=True)
    (tile,) = (step for step in plan if isinstance(step, Tile))
    (shared,) = (step.loop for step in plan if isinstance(step, Parallel))
    (jam,) = (step for step in plan if isinstance(step, UnrollAndJam))
    assert jam.loop == tile.loops[0] != shared
    assert tile.sizes[0] % jam.factor == 0


def test_machine_code_takes_rows_as_they_are() -> None:
    plan = taken(PATHS, is_text=False)
    assert any(isinstance(step, Tile) for step in plan)
    assert not any(isinstance(step, UnrollAndJam) for step in plan)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("is_text", [True, False])
def test_waves_without_rows_beside_each_other_come_before_one_thread(is_text: bool) -> None:
    """Four rows at a time would take one thread four times as long, and two of them twice."""
    (program,) = parse_c(RANKS)
    chosen = choose_plan(program, TWO, 2, text=is_text)
    assert any(isinstance(step, Tile) for step in chosen.plan)
    assert any(isinstance(step, Parallel) for step in chosen.plan)
    assert not any(isinstance(step, UnrollAndJam) for step in chosen.plan)
    nest = lower_schedule(chosen.schedule)
    for n, threads in ((0, 2), (1, 2), (2, 3), (131, 2 if is_text else 3)):
        assert_same(program, nest, {"n": n}, threads=threads)


def test_ranks_are_those_of_numpy() -> None:
    code = lw.compile(RANKS, threads=2)
    for n in (0, 1, 67, 2503):
        x = np.random.default_rng(n).permutation(n).astype(float)
        rank = np.zeros(n, np.int32)
        code(n, x, rank)
        assert np.array_equal(rank, x.astype(np.int32))


def test_lanes_are_shared() -> None:
    plan = taken(KNAPSACKS, is_text=True)
    (lanes,) = (step.loop for step in plan if isinstance(step, OuterVectors))
    assert lanes in [step.loop for step in plan if isinstance(step, Parallel)]


@needs_cc
@pytest.mark.skipif(not has_openmp(), reason="the compiler has no OpenMP")
@pytest.mark.drawn(6)
@pytest.mark.parametrize("is_text", [True, False])
@pytest.mark.parametrize("text", TYPES)
def test_results_are_those_of_the_source(text: str, *, is_text: bool) -> None:
    name = text.split("(")[0].split()[-1]
    source = load_library(build_library(text, SAME))
    if is_text:
        file = read_c(text)
        found = optimise_region(file, file.regions[0], text_planner, TWO, target="openmp")
        written = load_library(build_library(spliced(file, [found]).decode(), ("-fopenmp", *SAME)))
    else:
        code = lw.compile(text, threads=2)
    # Threads meet in every row of the last program, which takes long on busy processors.
    tables = ((3, 67), (4, 1009)) if text == KNAPSACKS else ((37, 5), (67, 487))
    for n, m in ((0, 3), (1, 1), (2, 2), *tables):
        random = np.random.default_rng(n)
        given = [random.integers(0, 3, (n, m)).astype(dtype) for dtype in TYPES[text]]
        wanted = [array.copy() for array in given]
        _call(source[name], n, m, wanted)
        for threads in (1, 2, 3) if is_text else (2,):
            results = [array.copy() for array in given]
            if is_text:
                written.omp_set_num_threads(threads)
                _call(written[name], n, m, results)
            else:
                code(n, m, *results)
            assert all(map(np.array_equal, results, wanted)), (n, m, threads)


def _call(function: ctypes._CFuncPtr, n: int, m: int, arrays: list[np.ndarray]) -> None:
    function(n, m, *(ctypes.c_void_p(array.ctypes.data) for array in arrays))
