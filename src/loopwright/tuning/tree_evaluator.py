"""Seconds of trees: predicted or measured, each tree once.

An evaluator is any function from a tree to seconds. `RememberedTimes` puts a memory in front of
one, which environments, searches and actors of one process share; `TreeClock` compiles a tree by
quick code and times it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import isfinite
from typing import TypeAlias

import numpy as np

from loopwright.faults import FAULTS
from loopwright.ir.machine import Machine
from loopwright.ir.program import Role
from loopwright.log import log
from loopwright.memo import BoundedCache
from loopwright.tuning.loop_tree import LoopTree, shape_of
from loopwright.tuning.nest_facts import quick_nest
from loopwright.tuning.quick_kernel import Arrays, compile_tree, seconds_of

__all__ = ["Evaluate", "RememberedTimes", "TreeClock", "code_key", "example_arrays", "tree_key"]

Evaluate: TypeAlias = Callable[[LoopTree], float]

_MOST_TIMES = 200_000


def tree_key(tree: LoopTree) -> object:
    """What the time of a tree depends on: all of it but the cursor and its name."""
    return tree.nests, tree.arrays, tree.reassoc


def code_key(tree: LoopTree, machine: Machine) -> object:
    """What the quick code of trees of one program depends on: neighbouring loops of a dimension may
    be one.
    """
    nests = [quick_nest(nest, machine) for nest in tree.nests]
    return tuple([(nest.loops, nest.accumulators) for nest in nests])


class RememberedTimes:
    """An evaluator that asks another one about each tree once.

    `times` may be handed to several of them; the cursor plays no part.
    """

    def __init__(self, evaluate: Evaluate, times: dict[object, float] | None = None) -> None:
        self.evaluate = evaluate
        self.times = BoundedCache[object, float](_MOST_TIMES) if times is None else times
        self.asked = 0  # trees that the other evaluator was asked about

    def __call__(self, tree: LoopTree) -> float:
        key = tree_key(tree)
        found = self.times.get(key)
        if found is None:
            self.asked += 1
            found = self.evaluate(tree)
            self.times[key] = found
        return found


class TreeClock:
    """An evaluator that compiles trees by quick code and times them in this process.

    A tree that cannot be compiled, and one whose time is no positive number, takes for ever: an
    agent turns away from it and goes on. `warm_up` runs do not count; the fastest of those
    within `seconds` does.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        threads: int = 1,
        warm_up: int = 1,
        seconds: float = 0.005,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.machine, self.threads = machine, threads
        self._warm_up, self._seconds, self._clock = warm_up, seconds, clock
        self._arrays = BoundedCache[object, Arrays](64)
        self.failures = 0

    def __call__(self, tree: LoopTree) -> float:
        try:
            run = compile_tree(tree, self.machine, self.threads).call_on(self._arrays_of(tree))
            found = seconds_of(
                run, warm_up=self._warm_up, least_seconds=self._seconds, clock=self._clock
            )
        except FAULTS as error:
            reason = str(error)
            log("tune", lambda: f"a tree was not measured: {reason}")
            found = float("nan")
        if not isfinite(found) or found <= 0:
            self.failures += 1
            return float("inf")
        return found

    def _arrays_of(self, tree: LoopTree) -> Arrays:
        found = self._arrays.get(tree.arrays)
        if found is None:
            found = self._arrays[tree.arrays] = example_arrays(tree)
        return found


def example_arrays(tree: LoopTree) -> Arrays:
    """Arrays to run a tree on: small numbers near 1, so that no sum overflows or is denormal."""
    random = np.random.default_rng(0)
    found = {}
    for array in tree.arrays:
        if array.role is Role.LOCAL:
            continue
        values = 1 + random.random(shape_of(array)) / 2
        found[array.name] = values.astype(array.dtype.numpy)
    return found
