"""Loops that are moved around others for threads go in wide strips where rows would be reread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import loopwright as lw
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load import load_machine
from loopwright.planner.draft import Draft
from loopwright.planner.generic import default_plan
from loopwright.planner.loop_plans.affine_parallel import mark_parallel
from loopwright.planner.loop_plans.moved_strips import take_moved
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Parallel, ParallelChunks
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.step import Step
from oracle import assert_same

TWO = replace(load_machine("cascadelake"), cores=2)
# Sums of fixed order over long rows of points: a thread has some of the sums.
SUMS = """
void f(int points, int n, double w[{points}], double x[{points}][{n}], double s[{n}][{n}]) {{
#pragma scop
  for (int g = 0; g < points; g++)
    for (int b = 0; b < n; b++)
      for (int c = 0; c < n; c++)
        s[b][c] += w[g] * x[g][b] * x[g][c];
#pragma endscop
}}
"""


def marked(points: int, n: int) -> list[Step]:
    (source,) = lw.parse_c(SUMS.format(points=points, n=n))
    draft = Draft(initial_schedule(source))
    mark_parallel(draft, TWO)
    return list(draft.steps)


def test_rows_from_far_are_read_once_by_each_thread() -> None:
    steps = marked(60000, 48)
    assert Interchange(("b_t", "g")) in steps
    assert any(isinstance(step, ParallelChunks) and step.loop == "b_t" for step in steps)


def test_rows_that_stay_near_are_read_for_each_iteration() -> None:
    steps = marked(20, 48)
    assert steps == [Interchange(("b", "g")), Parallel("b")]


def test_what_may_not_be_moved_is_not() -> None:
    (source,) = lw.parse_c(
        """
        void f(double a[900][900]) {
        #pragma scop
          for (int i = 1; i < 900; i++)
            for (int j = 1; j < 899; j++)
              for (int k = 0; k < 900; k++)
                a[j][k] += a[j - 1][k] + a[j + 1][k];
        #pragma endscop
        }
        """
    )
    draft = Draft(initial_schedule(source))
    assert not take_moved(draft, TWO, "j", ("i",), 8, 4)
    assert not draft.steps


def test_strips_keep_every_bit() -> None:
    (source,) = lw.parse_c(SUMS.format(points=60000, n=48))
    plan, schedule = default_plan(source, TWO, parallel=True)
    assert any(isinstance(step, ParallelChunks) for step in plan)
    nest = lower_schedule(schedule)
    for points, n in ((0, 3), (1, 1), (5, 2), (7, 13), (3, 48)):
        assert_same(source, nest, {"points": points, "n": n}, threads=2)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("target", ["host", "openmp"])
@pytest.mark.parametrize("threads", [1, 2])
def test_values_are_those_of_the_source(target: str, threads: int) -> None:
    compiled = lw.compile(SUMS.format(points=60000, n=48), target=target, threads=threads)
    random = np.random.default_rng(3)
    w, x = random.normal(size=60000), random.normal(size=(60000, 48))
    for points, n in ((0, 48), (1, 1), (11, 7), (97, 48)):
        found, wanted = np.ones((48, 48)), np.ones((48, 48))
        compiled(points, n, w, x, found)
        for g in range(points):
            wanted[:n, :n] += w[g] * x[g, :n, None] * x[g, None, :n]
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
