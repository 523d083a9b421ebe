"""Cost models beside measured times: how often they rank two candidates right, and what that costs.

Of groups of candidates (loop trees of one program, plans of one contraction):

    pairwise accuracy   pairs whose times differ by more than 2% that are ranked as measured
    top-1 regret        how much longer the candidate takes that the model thinks fastest than the
                        fastest of its group; top-8: the fastest of the eight it thinks fastest

The learned correction is fitted to the first half of the programs and judged by the second half,
beside the closed form alone; programs of both halves are different ones.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from benchmarks.measure import Bar, Outcome, Setting, Table
from benchmarks.tuning.plan_samples import (
    contraction_tasks,
    drawn_plans,
    loop_tasks,
    measured_plans,
)
from benchmarks.tuning.tree_samples import TreeSample, group_trees, measured, programs
from loopwright.ir.machine import Machine
from loopwright.machines.host import host
from loopwright.tuning.learned_cost import LearnedCost, fit_cost
from loopwright.tuning.tasks import Task
from loopwright.tuning.tree_cost import TreeCostModel, predict_seconds
from loopwright.tuning.tree_features import tree_row

__all__ = ["Quality", "fitted", "judged", "run"]

PROGRAMS, QUICK_PROGRAMS = 160, 16
TREES = 24
CONTRACTIONS, QUICK_CONTRACTIONS = 24, 3
FUNCTIONS, QUICK_FUNCTIONS = 12, 3
PLANS = 12
NEARLY = 0.02  # times nearer than this are not told apart


@dataclass(frozen=True)
class Quality:
    """How well a model ranks, over groups."""

    pairwise: float  # mean over groups
    worst_pairwise: float
    regret: float  # mean over groups
    worst_regret: float
    regret_of_eight: float  # mean, where eight are measured
    spread: float  # standard deviation of log2(measured / predicted)

    def row(self) -> dict[str, float]:
        return {
            "pairwise": self.pairwise,
            "worst pairwise": self.worst_pairwise,
            "regret": self.regret,
            "worst regret": self.worst_regret,
            "top-8 regret": self.regret_of_eight,
            "spread": self.spread,
        }


def judged(groups: Sequence[str], seconds: Any, predicted: Any) -> Quality:
    """The quality of predictions of samples in groups."""
    members: dict[str, list[int]] = defaultdict(list)
    for at, name in enumerate(groups):
        members[name].append(at)
    right, regrets, of_eight = [], [], []
    for group in members.values():
        own, guess = np.log(seconds[group]), np.log(predicted[group])
        apart, guessed = np.subtract.outer(own, own), np.subtract.outer(guess, guess)
        counted = np.triu(np.abs(apart) > math.log1p(NEARLY), 1)
        if counted.any():
            right.append(float(np.mean(apart[counted] * guessed[counted] > 0)))
        ranked = own[np.argsort(guess, kind="stable")] - own.min()
        regrets.append(float(np.expm1(ranked[0])))
        of_eight.append(float(np.expm1(ranked[:8].min())))
    ratio = np.log2(seconds / predicted)
    return Quality(
        float(np.mean(right)),
        min(right),
        float(np.mean(regrets)),
        max(regrets),
        float(np.mean(of_eight)),
        float(ratio.std()),
    )


def fitted(samples: Sequence[TreeSample], machine: Machine) -> LearnedCost:
    """The correction of measured trees."""
    rows = np.stack([tree_row(sample.tree, machine) for sample in samples])
    seconds = np.array([sample.seconds for sample in samples])
    closed = np.array([predict_seconds(sample.tree, machine) for sample in samples])
    return fit_cost(rows, seconds, closed, [s.group for s in samples], machine.llvm_cpu)


def tree_samples(seed: int, count: int) -> list[TreeSample]:
    """Measured trees of `count` programs."""
    random = Random(seed)
    found = []
    for number, (group, tree) in enumerate(programs(random)):
        if number == count:
            break
        trees = group_trees(tree, random, TREES)
        found += [TreeSample(group, drawn, measured(drawn)) for drawn in trees]
    return found


def halves(samples: Sequence[TreeSample], seed: int) -> tuple[list[TreeSample], list[TreeSample]]:
    """The samples of half of the programs, drawn at random, and those of the others."""
    names = sorted({s.group for s in samples})
    Random(seed).shuffle(names)
    known = set(names[: len(names) // 2])
    return [s for s in samples if s.group in known], [s for s in samples if s.group not in known]


def run(setting: Setting) -> Outcome:
    """Measure, fit, judge."""
    machine = host()
    count = setting.count or (QUICK_PROGRAMS if setting.quick else PROGRAMS)
    samples = tree_samples(setting.seed, count)
    known, held_out = halves(samples, setting.seed)
    start = time.perf_counter()
    learned = fitted(known, machine)
    fitting = time.perf_counter() - start
    groups = [s.group for s in held_out]
    seconds = np.array([s.seconds for s in held_out])
    trees = [s.tree for s in held_out]
    closed = np.array([predict_seconds(tree, machine) for tree in trees])
    alone = judged(groups, seconds, closed)
    both = judged(groups, seconds, learned.seconds(trees, machine))
    quick = setting.quick
    plans = _plans(contraction_tasks, setting, QUICK_CONTRACTIONS if quick else CONTRACTIONS)
    loops = _plans(loop_tasks, setting, QUICK_FUNCTIONS if quick else FUNCTIONS)
    print(f"{len(samples)} trees of {count} programs; fitted in {fitting:.1f} s")
    print(TABLE.head())
    rows = [
        _told("closed form of trees", alone),
        _told("with the learned correction", both),
        _told("closed form of contraction plans", plans),
        _told("closed form of plans of loops", loops),
    ]
    rows += [_told(f"  trees, {kind}", q) for kind, q in _by_kind(groups, seconds, closed)]
    micro = 1e6 * _seconds_of_a_prediction(trees, machine)
    bars = (
        Bar("held-out pairwise accuracy, corrected", both.pairwise, 0.85),
        Bar("held-out top-1 regret, corrected", both.regret, 0.03, at_most=True),
        Bar("pairwise accuracy, closed form alone", alone.pairwise, 0.85),
        Bar("top-1 regret, closed form alone", alone.regret, 0.03, at_most=True),
        Bar("pairwise accuracy, plans of contractions", plans.pairwise, 0.75),
        Bar("pairwise accuracy, plans of loops", loops.pairwise, 0.75),
        Bar("a new tree's closed form", micro, 200.0, at_most=True, unit=" us"),
    )
    return Outcome(tuple(rows), bars)


def _told(name: str, quality: Quality) -> dict[str, Any]:
    print(TABLE.row(name, *quality.row().values()), flush=True)
    return {"model": name, **quality.row()}


TABLE = Table(
    (
        ("model", "36s"),
        *(
            (title, "12.3f")
            for title in ("pairwise", "worst", "regret", "worst ", "top-8", "log2 spread")
        ),
    )
)


def _by_kind(groups: Sequence[str], seconds: Any, predicted: Any) -> list[tuple[str, Quality]]:
    kinds = np.array([name.split()[1] for name in groups])
    names = np.array(groups)
    found = []
    for kind in np.unique(kinds):
        own = kinds == kind
        found.append((str(kind), judged(names[own].tolist(), seconds[own], predicted[own])))
    return found


def _plans(
    tasks: Callable[[Random], Iterator[tuple[str, Task]]], setting: Setting, count: int
) -> Quality:
    """The closed form of plans around constructions."""
    random = Random(setting.seed)
    groups: list[str] = []
    seconds: list[float] = []
    predicted: list[float] = []
    for number, (group, task) in enumerate(tasks(random)):
        if number == count:
            break
        plans = drawn_plans(task, random, PLANS)
        for plan, found in zip(plans, measured_plans(task, plans), strict=True):
            cost = task.predict(plan)
            if math.isfinite(found) and math.isfinite(cost):
                groups.append(group)
                seconds.append(found)
                predicted.append(cost)
    return judged(groups, np.array(seconds), np.array(predicted))


def _seconds_of_a_prediction(trees: Sequence[Any], machine: Machine) -> float:
    """Processor seconds of a tree that is new, of a program that is known; the best of rounds."""
    best = math.inf
    for _ in range(3):
        model = TreeCostModel(machine)
        for tree in trees:
            for nest in tree.nests:
                model.facts(tree, nest.statement)
        start = time.thread_time()
        for tree in trees:
            model.cost(tree)
        best = min(best, (time.thread_time() - start) / len(trees))
    return best
