"""Plans around the plan of loops: kinds take turns, contractions keep their kernels, waves."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.transform.contract import Contract
from loopwright.transform.plan import Plan
from loopwright.transform.unroll_and_jam import UnrollAndJam
from loopwright.tuning.tasks import ProgramTask


@lw.jit(threads=1)
def rows(a: Any, x: Any, y: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            y[i] = y[i] * 0.5 + a[i, j] * x[j] * x[j]


@lw.jit(threads=1, reassoc=True)
def two_products(a: Any, b: Any, c: Any, d: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            d[i, j] = c[i, j] + 1


def checked(task: Any, plans: list[Plan]) -> None:
    bench = task.bench()
    bench.build(task.construction())()
    expected = bench.results()[0].copy()
    for plan in plans:
        bench.restore()
        bench.build(plan)()
        assert np.allclose(bench.results()[0], expected), plan


def test_a_few_neighbours_are_of_several_kinds() -> None:
    generator = np.random.default_rng(0)
    _, task = rows.task(generator.random((30, 20)), generator.random(20), np.ones(30))
    assert isinstance(task, ProgramTask)
    plans = list(islice(task.neighbours(task.construction()), 12))
    assert len(set(plans)) == len(plans)
    assert any(isinstance(step, UnrollAndJam) for plan in plans for step in plan.steps)
    assert any(len(plan.steps) < len(task.construction().steps) for plan in plans)
    checked(task, plans)


def test_contractions_get_other_kernels_before_they_lose_them() -> None:
    generator = np.random.default_rng(0)
    a, b = generator.random((40, 30)), generator.random((30, 50))
    _, task = two_products.task(a, b, np.zeros((40, 50)), np.zeros((40, 50)))
    assert isinstance(task, ProgramTask)
    construction = task.construction()
    (own,) = (step for step in construction.steps if isinstance(step, Contract))
    plans = list(islice(task.neighbours(construction), 10))
    kernels = [step for plan in plans for step in plan.steps if isinstance(step, Contract)]
    assert len(kernels) == len(plans), "each has its contraction"
    assert any(kernel != own for kernel in kernels)
    checked(task, plans[:3])
