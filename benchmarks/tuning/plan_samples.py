"""Measured plans of contractions and of loops: what closed forms of plans are judged by.

A group is one task (a contraction's shape, or a function with its sizes); its plans are the
construction and walks along neighbours, one change after another.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import loopwright as lw
from loopwright import options
from loopwright.calls.einsum import einsum_task
from loopwright.diagnostics import LoopwrightError
from loopwright.transform.plan import Plan
from loopwright.tuning.tasks import Task

__all__ = ["contraction_tasks", "drawn_plans", "loop_tasks", "measured_plans", "read_plans"]


def contraction_tasks(random: Random) -> Iterator[tuple[str, Task]]:
    """Contractions of several kinds without end: products, odd and skinny ones, ranks, vectors."""
    number = 0
    while True:
        number += 1
        text, sizes = _contraction(number % 8, random)
        left = text.partition("->")[0]
        dtype = np.float64 if number % 5 == 0 else np.float32
        arrays = [np.ones([sizes[c] for c in term], dtype) for term in left.split(",")]
        name = " ".join(f"{c}={n}" for c, n in sorted(sizes.items()))
        yield f"{number} {text} {name} {np.dtype(dtype).name}", einsum_task(text, *arrays)


def _contraction(kind: int, random: Random) -> tuple[str, dict[str, int]]:
    if kind in (0, 1):
        return "ik,kj->ij", {d: random.randrange(64, 257, 16) for d in "ijk"}
    if kind in (2, 3):
        return "ik,kj->ij", {d: random.randrange(23, 301) for d in "ijk"}
    if kind == 4:
        text = random.choice(("ki,kj->ij", "ik,jk->ij", "ki,jk->ij", "ik,kj->ji"))
        return text, {d: random.randrange(48, 400, 4) for d in "ijk"}
    if kind == 5:
        sizes = {"i": random.randrange(2, 9), "j": random.randrange(64, 1025)}
        return "ik,kj->ij", sizes | {"k": random.randrange(256, 1025)}
    if kind == 6:
        return "ik,kj->ij", {d: random.randrange(300, 700) for d in "ijk"}
    text = random.choice(("abc,cd->abd", "bik,bkj->bij", "acb,dc->abd"))
    return text, {d: random.randrange(12, 72) for d in sorted(set(text) - set(",->"))}


def loop_tasks(random: Random) -> Iterator[tuple[str, Task]]:
    """Functions of loops without end: stencils, transpositions, sums of columns, chains."""
    number = 0
    while True:
        number += 1
        function = FUNCTIONS[number % len(FUNCTIONS)]
        n = random.choice((60, 150, 300, 700, 1200))
        if function in (_updated, _gram):
            n = min(n, 300)
        arrays = [np.ones((n, n)) for _ in range(3)]
        _, task = function.task(*arrays)
        if task is not None:
            yield f"{number} {function.__name__} {n}", task


@lw.jit
def _smoothed(x: Any, y: Any, z: Any) -> None:
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            y[i, j] = (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) * 0.25 + z[i, j]


@lw.jit
def _turned(x: Any, y: Any, z: Any) -> None:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[j, i] = x[i, j] + z[j, i]


@lw.jit
def _updated(x: Any, y: Any, z: Any) -> None:
    for i in range(x.shape[0]):
        for j in range(y.shape[1]):
            for k in range(x.shape[1]):
                z[i, j] = z[i, j] + x[i, k] * y[k, j] + 1.0


@lw.jit
def _gram(x: Any, y: Any, z: Any) -> None:
    for i in range(x.shape[0]):
        for j in range(i + 1):
            for k in range(x.shape[1]):
                z[i, j] = z[i, j] + x[k, i] * y[k, j]


@lw.jit
def _chained(x: Any, y: Any, z: Any) -> None:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * 2.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            z[i, j] = z[i, j] + y[i, j]


@lw.jit
def _down_columns(x: Any, y: Any, z: Any) -> None:
    for j in range(x.shape[1]):
        for i in range(x.shape[0]):
            y[0, j] = y[0, j] + x[i, j] * z[i, j]


FUNCTIONS: tuple[Any, ...] = (_smoothed, _turned, _updated, _gram, _chained, _down_columns)


def drawn_plans(task: Task, random: Random, count: int) -> list[Plan]:
    """The construction and plans one to three changes away."""
    construction = task.construction()
    found = {construction: None}
    near = list(islice(task.neighbours(construction), 60))
    random.shuffle(near)
    for plan in near[: count // 2]:
        found.setdefault(plan)
    while len(found) < count and near:
        plan = random.choice(near)
        for _ in range(random.randrange(1, 3)):
            others = list(islice(task.neighbours(plan), 60))
            plan = random.choice(others) if others else plan
        found.setdefault(plan)
        near = near[:-1]
    return list(found)


def measured_plans(task: Task, plans: list[Plan], rounds: int = 3) -> list[float]:
    """Seconds of a run by each plan, the fastest of rounds in turn; NaN where one is refused."""
    bench = task.bench()
    runs: list[Any] = []
    with options.override(cache=False):
        for plan in plans:
            try:
                runs.append(bench.build(plan))
            except LoopwrightError:
                runs.append(None)
    best = [float("inf")] * len(plans)
    for _ in range(rounds):
        for at, run in enumerate(runs):
            if run is None:
                continue
            bench.restore()
            run()
            end = time.thread_time() + 0.004
            while time.thread_time() < end:
                start = time.thread_time()
                run()
                best[at] = min(best[at], time.thread_time() - start)
    return [seconds if seconds < float("inf") else float("nan") for seconds in best]


def collect(path: Path, tasks: Iterator[tuple[str, Task]], seed: int, budget: float) -> None:
    """Append measured plans to a file until `budget` seconds have gone."""
    random = Random(seed)
    end = time.monotonic() + budget
    with path.open("a", encoding="utf-8") as file:
        for group, task in tasks:
            if time.monotonic() > end:
                return
            plans = drawn_plans(task, random, 16)
            for plan, seconds in zip(plans, measured_plans(task, plans), strict=True):
                row = {"group": group, "plan": plan.to_json(), "seconds": seconds}
                file.write(json.dumps(row) + "\n")
            file.flush()


def read_plans(path: Path) -> list[dict[str, Any]]:
    """Groups, plans and seconds of a file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{**row, "plan": Plan.from_json(row["plan"])} for row in rows]
