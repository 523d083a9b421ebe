"""Who is compared in the evaluation of tuning, all by one signature.

A contestant takes a shape and a budget in seconds and gives an Attempt: the best state it has
measured (or chosen) with what it took to get there. Trees are measured once more by the judge, with
20 runs that do not count; kernels of the construction and of NumPy bring their own time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import check_close
from benchmarks.tuning.construction import constructed_kernel
from benchmarks.tuning.native_time import WARM_UP, native_seconds
from benchmarks.tuning.shapes import Shape
from loopwright.machines.host import host
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.policy import Policy, read_policy
from loopwright.tuning.quick_kernel import compile_tree, seconds_of
from loopwright.tuning.searches import Budget
from loopwright.tuning.tree_evaluator import TreeClock, example_arrays
from loopwright.tuning.tree_search import SEARCHES, search_trees

__all__ = ["Attempt", "Contestant", "contestants", "final_seconds"]

STEPS = 10


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a contestant came to."""

    tree: LoopTree | None  # None: a kernel that is no tree
    seconds: float  # of the kernel, where there is no tree
    spent: float  # seconds of tuning
    measurements: int = 0
    failures: int = 0
    path: tuple[str, ...] = ()
    trace: tuple[tuple[float, float], ...] = ()  # (seconds of tuning, seconds of the best)


Contestant = Callable[[Shape, float], Attempt]


def contestants(policy: Path | None = None) -> dict[str, Contestant]:
    """All of them by name; the policy where a file has its weights."""
    found: dict[str, Contestant] = {
        "naive": _naive,
        "construction": _construction,
        "numpy": _numpy,
    }
    found |= {name: partial(_search, name) for name in SEARCHES if name != "exhaustive"}
    if policy is not None:
        found["policy"] = partial(_by_policy, read_policy(policy))
    return found


def final_seconds(tree: LoopTree, shape: Shape) -> float:
    """The judge's time of a tree, after its result was compared with NumPy's."""
    arrays = example_arrays(tree)
    call = compile_tree(tree, host()).call_on(arrays)
    arrays["out"][...] = -1
    call()
    wide = [arrays[name].astype(np.float64) for name in ("A", "B")]
    check_close(arrays["out"], np.einsum(shape.subscripts, *wide), _terms(shape))
    return min(
        seconds_of(call, warm_up=WARM_UP, least_seconds=0.01, most_runs=4000) for _ in range(3)
    )


def _terms(shape: Shape) -> int:
    result = shape.subscripts.partition("->")[2]
    total = 1
    for name, extent in shape.sizes:
        total *= 1 if name in result else extent
    return total


def _naive(shape: Shape, budget: float) -> Attempt:
    return Attempt(shape.tree(), float("nan"), 0.0)


def _construction(shape: Shape, budget: float) -> Attempt:
    kernel, arrays, plan = constructed_kernel(shape)
    return Attempt(None, native_seconds(kernel, arrays), plan)


def _numpy(shape: Shape, budget: float) -> Attempt:
    """NumPy with a given result: matmul of products, else einsum with its best path."""
    _, (out, *operands), _ = constructed_kernel(shape)
    a, b = _ordered(shape, operands)
    call: Callable[[], Any] = partial(np.einsum, shape.subscripts, a, b, out=out, optimize=True)
    if shape.subscripts == "mk,kn->mn":
        call = partial(np.matmul, a, b, out=out)
    return Attempt(None, min(seconds_of(call, warm_up=WARM_UP) for _ in range(3)), 0.0)


def _ordered(shape: Shape, operands: list[Any]) -> list[Any]:
    """The operands as the subscripts name them; kernels may take them the other way round."""
    sizes = dict(shape.sizes)
    first = tuple(sizes[x] for x in shape.subscripts.partition(",")[0])
    return operands if operands[0].shape == first else operands[::-1]


def _search(name: str, shape: Shape, budget: float) -> Attempt:
    clock = TreeClock(host())
    found = search_trees(name, shape.tree(), clock, Budget(seconds=budget), steps=STEPS)
    trace = tuple((point.seconds, point.best) for point in found.trace)
    return Attempt(
        found.tree,
        float("nan"),
        trace[-1][0],
        found.measurements,
        found.failures + clock.failures,
        found.path,
        trace,
    )


def _by_policy(policy: Policy, shape: Shape, budget: float) -> Attempt:
    """The tree that the policy ends in; nothing is run."""
    start = time.perf_counter()
    tree = policy.tree(shape.tree(), host())
    return Attempt(tree, float("nan"), time.perf_counter() - start)
