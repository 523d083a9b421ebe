"""Who is compared in the evaluation of tuning, all by one signature.

A contestant takes a shape and a budget in seconds and gives an Attempt: the tree that it ends in
with what it took to get there. Times are the judge's (judge.py); the best time that a search saw
is in its trace. Who has no tree of its own (construction, NumPy, other libraries) makes no attempt
and meets the judge only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.tuning.shapes import AnyShape
from loopwright.machines.host import host
from loopwright.tuning.actions import LOOPTUNE_ACTIONS
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.policy import Policy, read_policy
from loopwright.tuning.policy_files import SHIPPED, shipped_policy
from loopwright.tuning.policy_search import policy_search
from loopwright.tuning.searches import Budget, Finding, SearchRun
from loopwright.tuning.tree_construction import constructed_tree
from loopwright.tuning.tree_evaluator import TreeClock
from loopwright.tuning.tree_search import SEARCHES, search_trees

__all__ = ["PROCESSOR_TIME", "Attempt", "Contestant", "budget_of", "clocks_of", "contestants"]

STEPS = 10
PROCESSOR_TIME = "TUNING_PROCESSOR_TIME"  # a variable of the environment; processes inherit it
_CANDIDATES = 8  # of a policy that measures
_LED = "_led"  # end of the name of a search that a policy leads


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a contestant came to."""

    tree: LoopTree
    spent: float  # seconds of tuning
    measurements: int = 0
    failures: int = 0
    path: tuple[str, ...] = ()
    trace: tuple[tuple[float, float], ...] = ()  # (seconds of tuning, seconds of the best)
    ended_by: str = ""  # of a search: budget or space
    # Of a search: (actions, seconds of the best state after them, seconds of tuning until the last)
    depths: tuple[tuple[int, float, float], ...] = ()


Contestant = Callable[[AnyShape, float], Attempt]


def contestants(policies: Sequence[Path] = ()) -> dict[str, Contestant]:
    """All of them by name; policies by the weights in files, else by those that are shipped.

    `policy` walks in LoopTune's space; one of another space has that in its name. With `8` it
    measures the eight trees that its beam ends in, with `_led` it leads a search.
    """
    found: dict[str, Contestant] = {"naive": _naive, "rule": _rule}
    found |= {name: partial(_search, name) for name in SEARCHES if name != "exhaustive"}
    given = [read_policy(file) for file in policies]
    for policy in given or [shipped_policy(space) for space in SHIPPED]:
        name = "policy" if policy.space.name == "looptune" else f"policy_{policy.space.name}"
        found[name] = partial(_by_policy, policy)
        found[name + "8"] = partial(_by_policy_and_clock, policy)
        found[name + _LED] = partial(_by_policy_and_search, policy)
    return found


def budget_of(who: str, seconds: float) -> float:
    """The budget that counts for a contestant; 0: it has none, and one attempt serves all."""
    is_search = who.removesuffix(_LED) != who or not who.startswith(("naive", "rule", "policy"))
    return seconds if is_search else 0.0


def clocks_of(shape: AnyShape) -> tuple[Callable[[], float], Callable[[], float]]:
    """What budgets and trees are timed by: processor time where PROCESSOR_TIME is set.

    Others on the machine disturb it less; with several threads there is only the time of day. A
    budget is that of the process, as trees may be compiled by another thread.
    """
    if shape.threads == 1 and os.environ.get(PROCESSOR_TIME) == "1":
        return time.process_time, time.thread_time
    return time.perf_counter, time.perf_counter


def _naive(shape: AnyShape, budget: float) -> Attempt:
    """The nest as written; quick code vectorises it and tiles registers, as LoopNest does."""
    return Attempt(shape.tree(), 0.0)


def _rule(shape: AnyShape, budget: float) -> Attempt:
    """The tree that the machine model constructs, without a measurement."""
    start = time.perf_counter()
    tree = constructed_tree(shape.tree(), host())
    return Attempt(tree, time.perf_counter() - start)


def _search(name: str, shape: AnyShape, budget: float) -> Attempt:
    budget_clock, tree_clock = clocks_of(shape)
    clock = TreeClock(host(), threads=shape.threads, clock=tree_clock)
    actions = (*LOOPTUNE_ACTIONS, "parallel") if shape.threads > 1 else LOOPTUNE_ACTIONS
    found = search_trees(
        name,
        shape.tree(),
        clock,
        Budget(seconds=budget),
        actions=actions,
        steps=STEPS,
        clock=budget_clock,
    )
    return _attempt(found, clock)


def _attempt(found: Finding, clock: TreeClock) -> Attempt:
    trace = tuple((point.seconds, point.best) for point in found.trace)
    return Attempt(
        found.tree,
        trace[-1][0],
        found.measurements,
        found.failures + clock.failures,
        found.path,
        trace,
        found.ended_by,
        tuple((point.depth, point.best, point.seconds) for point in found.depths),
    )


def _by_policy(policy: Policy, shape: AnyShape, budget: float) -> Attempt:
    """The tree that the policy ends in; nothing is run."""
    tree = shape.tree()
    start = time.perf_counter()
    found = policy.tree(tree, host())
    return Attempt(found, time.perf_counter() - start)


def _by_policy_and_clock(policy: Policy, shape: AnyShape, budget: float) -> Attempt:
    """The fastest of the trees that a beam by the policy's values ends in, measured."""
    tree = shape.tree()
    spent_clock, tree_clock = clocks_of(shape)
    clock = TreeClock(host(), threads=shape.threads, clock=tree_clock)
    start = spent_clock()
    timed: list[tuple[float, LoopTree]] = []
    trace = []
    for one in policy.candidates(tree, host(), _CANDIDATES):
        timed.append((clock(one), one))
        trace.append((spent_clock() - start, min(t for t, _ in timed)))
    best = min(timed, key=lambda pair: pair[0])[1]
    spent = spent_clock() - start
    return Attempt(best, spent, len(timed), clock.failures, trace=tuple(trace))


def _by_policy_and_search(policy: Policy, shape: AnyShape, budget: float) -> Attempt:
    """The fastest tree that a search finds which the policy leads."""
    budget_clock, tree_clock = clocks_of(shape)
    clock = TreeClock(host(), threads=shape.threads, clock=tree_clock)
    run = SearchRun(clock, Budget(seconds=budget), clock=budget_clock)
    return _attempt(policy_search(run, shape.tree(), policy, host()), clock)
