"""Searches over loop trees against exhaustive search, with evaluators that are plain functions."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from zlib import crc32

import pytest

from loopwright.diagnostics import InternalError, UsageError
from loopwright.machines.load import load_machine
from loopwright.tuning.actions import LOOPTUNE_ACTIONS, act
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.searches import Budget, Finding
from loopwright.tuning.tensor_nests import matmul_tree
from loopwright.tuning.tree_cost import predict_seconds
from loopwright.tuning.tree_evaluator import tree_key
from loopwright.tuning.tree_search import SEARCHES, search_trees

START = matmul_tree(16, 144, 16)
N1 = load_machine("neoverse-n1")
SHORT = ("up", "down", "swap_down", "split_4")


def predicted(tree: LoopTree) -> float:
    return predict_seconds(tree, N1)


def rugged(tree: LoopTree) -> float:
    """A number that neighbours do not share."""
    return 1.0 + crc32(repr(tree_key(tree)).encode()) / 2**32


def found(
    name: str,
    evaluate: Callable[[LoopTree], float] = predicted,
    *,
    measurements: float = inf,
    steps: int = 4,
    actions: tuple[str, ...] = SHORT,
    seed: int = 0,
    times: dict[object, float] | None = None,
) -> Finding:
    return search_trees(
        name,
        START,
        evaluate,
        Budget(measurements=measurements),
        actions=actions,
        steps=steps,
        seed=seed,
        predict=evaluate,
        times=times,
    )


def replayed(path: tuple[str, ...]) -> LoopTree:
    tree = START
    for word in path:
        tree = act(tree, word)
    return tree


@pytest.mark.drawn(3)
@pytest.mark.parametrize("evaluate", [predicted, rugged])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_best_measured_state_is_what_its_path_leads_to(
    name: str, evaluate: Callable[[LoopTree], float]
) -> None:
    asked: list[float] = []

    def noted(tree: LoopTree) -> float:
        asked.append(evaluate(tree))
        return asked[-1]

    result = search_trees(
        name, START, noted, Budget(measurements=60), actions=SHORT, steps=4, predict=evaluate
    )
    assert replayed(result.path) == result.tree
    assert result.seconds == min(asked) == evaluate(result.tree)
    assert result.start_seconds == evaluate(START)
    assert len(result.path) <= 4
    bests = [point.best for point in result.trace]
    assert bests == sorted(bests, reverse=True)
    assert result.trace[-1].measurements == result.measurements


@pytest.mark.parametrize("evaluate", [predicted, rugged])
def test_wide_searches_find_what_exhaustive_search_finds(
    evaluate: Callable[[LoopTree], float],
) -> None:
    best = found("exhaustive", evaluate).seconds
    assert found("random", evaluate).seconds == best
    assert found("beam4dfs", evaluate, steps=4).seconds <= found("beam2dfs", evaluate).seconds
    # All four words are followed: every path is.
    assert found("beam4dfs", evaluate).seconds == best
    assert (
        found("greedy2", evaluate, steps=2).seconds
        == found("exhaustive", evaluate, steps=2).seconds
    )


@pytest.mark.parametrize("name", SEARCHES)
def test_the_clock_is_asked_before_every_measurement(name: str) -> None:
    now = [0.0]

    def slow(tree: LoopTree) -> float:
        now[0] += 1.0
        return 1 / now[0]

    result = search_trees(
        name, START, slow, Budget(seconds=5), predict=rugged, clock=lambda: now[0], steps=10
    )
    assert result.measurements == 5
    assert result.ended_by == "budget"
    assert [point.seconds for point in result.trace] == [1, 2, 3, 4, 5, 5]


@pytest.mark.parametrize("name", SEARCHES)
def test_trees_without_a_time_are_passed_over_and_counted(name: str) -> None:
    def shaky(tree: LoopTree) -> float:
        if tree == START:
            return 2.0
        number = crc32(repr(tree_key(tree)).encode()) % 4
        if number == 0:
            raise InternalError("no code")
        return (nan, inf, rugged(tree))[number - 1]

    result = found(name, shaky, actions=LOOPTUNE_ACTIONS, measurements=40)
    assert result.failures > 0
    assert 1.0 <= result.seconds <= 2.0


def test_interruption_keeps_the_best() -> None:
    def until(tree: LoopTree) -> float:
        if len(times) > 9:
            raise KeyboardInterrupt
        return rugged(tree)

    times: dict[object, float] = {}
    result = found("exhaustive", until, times=times)
    assert result.ended_by == "interrupt"
    assert result.seconds == min(times.values())


def test_evolution_needs_few_measurements_where_the_model_is_right() -> None:
    best = found("exhaustive", predicted, actions=LOOPTUNE_ACTIONS, steps=5)
    few = found("evolution", predicted, actions=LOOPTUNE_ACTIONS, steps=5, measurements=60)
    assert few.seconds <= 1.02 * best.seconds
    assert few.measurements < best.measurements / 3


def test_unknown_names_and_budgets_are_refused() -> None:
    with pytest.raises(UsageError, match="no such search"):
        found("beam3")
    with pytest.raises(UsageError, match="a budget is not negative"):
        Budget(seconds=-1)
