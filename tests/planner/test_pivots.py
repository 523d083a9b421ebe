"""Loops that are split before and after the iteration that all others depend on."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import machine, parse_c
from loopwright.ir.loops import Mark
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.pivots import split_at_pivots
from loopwright.planner.plan_choice import choose_plan
from loopwright.transform.index_set_splitting import SplitIndexSet
from loopwright.transform.loop_marks import Parallel, Simd
from loopwright.transform.plan import initial_schedule
from loopwright.transform.scalar_expansion import ExpandScalar
from oracle import assert_same

N1 = machine("neoverse-n1")
RELAX = """
void relax(int n, long w[n][n], long d[n]) {
#pragma scop
  for (int u = 0; u < n; u++)
    for (int v = 0; v < n; v++)
      d[v] = d[u] + w[u][v] < d[v] ? d[u] + w[u][v] : d[v];
#pragma endscop
}
"""
PATHS = """
void paths(int n, float dist[n][n], int pred[n][n]) {
#pragma scop
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++)
        if (dist[i][k] + dist[k][j] < dist[i][j]) {
          dist[i][j] = dist[i][k] + dist[k][j];
          pred[i][j] = pred[k][j];
        }
#pragma endscop
}
"""
# Every iteration of j reads what the one before has written: no part of it is independent.
ALONG = """
void along(int n, double a[n][n]) {
#pragma scop
  for (int k = 1; k < n; k++)
    for (int j = 1; j < n; j++)
      a[k][j] = a[k][j - 1] + a[k][k];
#pragma endscop
}
"""


def split(text: str, *, parallel: bool = False) -> Draft:
    (program,) = parse_c(text)
    draft = Draft(initial_schedule(program))
    done = split_at_pivots(draft, parallel=parallel)
    assert bool(done) == bool(draft.steps)
    for n in (0, 1, 5):
        assert_same(program, lower_schedule(draft.schedule), {"n": n}, threads=2)
    return draft


def test_the_parts_before_and_after_the_pivot_have_vectors() -> None:
    draft = split(RELAX)
    assert draft.steps == [SplitIndexSet("v", "v", "u", 0), SplitIndexSet("v_2", "v_2", "u", 1)]
    assert draft.take(Simd("v"), Simd("v_2_2"))


def test_scalars_of_an_iteration_need_no_memory() -> None:
    draft = split(PATHS)
    assert draft.steps[0] == ExpandScalar("mask", ("j",))
    assert "scratch" not in stmt_text(lower_schedule(draft.schedule).body)


def test_threads_share_the_rows_before_and_after_the_pivot() -> None:
    draft = split(PATHS, parallel=True)
    loops = [step.loop for step in draft.steps if isinstance(step, SplitIndexSet)]
    assert loops == ["j", "j_2", "i", "i_2"]
    assert draft.take(Parallel("i"), Parallel("i_2_2"))


@pytest.mark.parametrize("text", [ALONG, RELAX.replace("d[u]", "d[0]")])
def test_nothing_is_split_in_vain(text: str) -> None:
    assert split(text, parallel=True).steps == []


@pytest.mark.drawn(2)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", [RELAX, PATHS])
def test_the_price_of_a_loop_that_compilers_keep_in_order(text: str, threads: int) -> None:
    (program,) = parse_c(text)
    chosen = choose_plan(program, N1, threads)
    assert any(isinstance(step, SplitIndexSet) for step in chosen.plan)
    assert Mark.SIMD in dict(chosen.schedule.marks).values()


def test_bits() -> None:
    rng = np.random.default_rng(0)
    compiled = lw.compile(PATHS.encode(), "c")
    for n in (1, 2, 70):
        dist = rng.integers(0, 90, (n, n)).astype(np.float32)
        pred = rng.integers(0, n, (n, n)).astype(np.int32)
        want, last = dist.copy(), pred.copy()
        for k in range(n):
            for i in range(n):
                for j in range(n):
                    if want[i, k] + want[k, j] < want[i, j]:
                        want[i, j] = want[i, k] + want[k, j]
                        last[i, j] = last[k, j]
        compiled(n, dist, pred)
        assert np.array_equal(dist, want)
        assert np.array_equal(pred, last)
