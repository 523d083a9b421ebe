"""The searches over loop trees by their names, with one signature."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping, Sequence

from loopwright.diagnostics import UsageError
from loopwright.machines.host import host
from loopwright.tuning.actions import LOOPTUNE_ACTIONS
from loopwright.tuning.evolution import evolutionary_search
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.searches import (
    Budget,
    Finding,
    SearchRun,
    beam_search,
    exhaustive_search,
    greedy_search,
    random_search,
)
from loopwright.tuning.tree_cost import predict_seconds
from loopwright.tuning.tree_evaluator import Evaluate

__all__ = ["SEARCHES", "search_trees"]

# All but `exhaustive` are LoopTune's, and evolution on a cost model.
SEARCHES = (
    "greedy1",
    "greedy2",
    "beam2dfs",
    "beam2bfs",
    "beam4dfs",
    "beam4bfs",
    "random",
    "evolution",
    "exhaustive",
)


def search_trees(
    name: str,
    start: LoopTree,
    evaluate: Evaluate,
    budget: Budget,
    *,
    actions: Sequence[str] = LOOPTUNE_ACTIONS,
    steps: int = 10,
    seed: int = 0,
    predict: Evaluate | None = None,
    times: MutableMapping[object, float] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Finding:
    """What the search called `name` finds.

    `predict` is evolution's cost model (the closed form of this machine where it is None); `times`
    a memory of measured trees that searches share.
    """
    run = SearchRun(evaluate, budget, times, clock)
    given = (run, start, actions, steps)
    match name:
        case "greedy1" | "greedy2":
            return greedy_search(*given, look_ahead=int(name[-1]))
        case "beam2dfs" | "beam2bfs" | "beam4dfs" | "beam4bfs":
            return beam_search(*given, width=int(name[4]), is_depth_first=name.endswith("dfs"))
        case "random":
            return random_search(*given, seed=seed)
        case "evolution":
            return evolutionary_search(*given, predict=predict or _closed_form(), seed=seed)
        case "exhaustive":
            return exhaustive_search(*given)
    raise UsageError("no such search", repr(name), ", ".join(SEARCHES))


def _closed_form() -> Evaluate:
    machine = host()
    return lambda tree: predict_seconds(tree, machine)
