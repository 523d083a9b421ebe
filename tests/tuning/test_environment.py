"""Environments without gymnasium: rules, rewards, masks, observations, many episodes at once."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log2
from random import Random

import numpy as np
import pytest

from loopwright.diagnostics import UsageError
from loopwright.machines import load_machine
from loopwright.tuning.actions import ACTIONS, LOOPTUNE_ACTIONS, act
from loopwright.tuning.environment import (
    GeneralRules,
    LoopTuneRules,
    TuningEnvironment,
    after_random_actions,
    start_tree,
)
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.loop_tree_text import parse_tree, tree_text
from loopwright.tuning.quick_kernel import compile_tree
from loopwright.tuning.tensor_nests import contraction_tree_of, matmul_tree
from loopwright.tuning.tree_construction import constructed_tree
from loopwright.tuning.tree_evaluator import RememberedTimes, TreeClock
from loopwright.tuning.tree_observation import (
    GLOBAL_NUMBERS,
    LOOP_NUMBERS,
    OBSERVED,
    Strides,
    looptune_observation,
    tree_observation,
)
from loopwright.tuning.vector_environment import TuningEnvironments
from tuning.trees import drawn_case, wandered

MACHINE = load_machine("neoverse-n1")
TREE = matmul_tree(64, 96, 48)


def seconds(tree: LoopTree) -> float:
    """A made-up time: long loops inside are fast, and every loop costs something."""
    loops = tree.nests[0].loops
    return 1e-3 * (1 + len(loops)) / (1 + log2(loops[-1].size) + 2 * (loops[-1].dim == "n"))


def walked(rules: LoopTuneRules | GeneralRules, words: str, tree: LoopTree = TREE) -> list[float]:
    """The rewards of actions, the last of which may end the episode."""
    env = TuningEnvironment(rules, [tree], MACHINE)
    env.reset()
    return [env.step(rules.actions.index(word))[1] for word in words.split()]


@pytest.fixture
def faithful() -> LoopTuneRules:
    return LoopTuneRules(seconds, peak=4e10)


@pytest.fixture
def general() -> GeneralRules:
    return GeneralRules(seconds, MACHINE)


# -- the paper's ----------------------------------------------------------------------------------


def test_the_innermost_loop_of_the_original_code() -> None:
    rules = LoopTuneRules(seconds, 4e10, Strides.SHARES, multiple=8)
    env = TuningEnvironment(rules, [TREE], MACHINE)
    env.reset()
    env.step(LOOPTUNE_ACTIONS.index("down"))
    env.step(LOOPTUNE_ACTIONS.index("down"))
    allowed = dict(zip(LOOPTUNE_ACTIONS, env.mask(), strict=True))
    assert (allowed["split_4"], allowed["split_8"], allowed["split_16"]) == (0, 1, 1)


def test_the_papers_observation() -> None:
    tree = act(TREE, "split_16")
    counts = looptune_observation(tree).reshape(10, 20)
    assert counts[:, 0].tolist() == [1.0] + [0.0] * 9
    assert counts[:7, 1].tolist() == [4, 16, 48, 96, 64, 96, 0]
    assert counts[:7, 3].tolist() == [1, 1, 1, 1, 0, 0, 0]
    # m by 16: sums moves by 16 * 96 elements, A by 16 * 48, B stays.
    assert np.flatnonzero(counts[0, 4:]).tolist() == [10, 11]
    # n by 1: sums and B move by one element each.
    assert counts[3, 4:].tolist() == [2.0] + [0.0] * 15
    shares = looptune_observation(tree, Strides.SHARES).reshape(10, 20)
    assert shares[:6, 4:].sum(axis=1).tolist() == [1.0] * 6
    odd = act(matmul_tree(67, 70, 48), "split_4")
    assert looptune_observation(odd).reshape(10, 20)[0, 2] == 3


# -- the general ones -----------------------------------------------------------------------------


def test_phases_are_masked(general: GeneralRules) -> None:
    episode = general.begin(TREE)

    def possible(words: str) -> list[str]:
        tree = TREE
        for word in words.split():
            tree = act(tree, word)
        mask = general.mask(general.begin(tree))
        return [w.partition("_")[0] for w, can in zip(ACTIONS, mask, strict=True) if can]

    assert not general.mask(episode)[ACTIONS.index("undo")]
    assert "split" in possible("down")
    assert "split" not in possible("pack_a")
    assert "pack" in possible("pack_a")
    assert "pack" not in possible("accumulate_4")
    assert "parallel" not in possible("")
    several = GeneralRules(seconds, MACHINE, threads=2)
    assert several.mask(episode)[ACTIONS.index("parallel")]
    free = GeneralRules(seconds, MACHINE, phases=False)
    assert free.mask(free.begin(act(TREE, "pack_a")))[ACTIONS.index("split_4")]


def test_masks_agree_with_what_happens(general: GeneralRules) -> None:
    random = Random(3)
    for _ in range(6):
        case = drawn_case(random)
        tree = after_random_actions(case.tree, general, random)
        episode = general.begin(tree)
        for number, can in enumerate(general.mask(episode)):
            after = general.advance(episode, number).episode
            assert (after.session != episode.session) is can, general.actions[number]


def test_trees_that_cannot_be_run_have_bounded_rewards() -> None:
    rules = GeneralRules(lambda tree: inf if tree.count > 5 else 1.0, MACHINE)
    assert walked(rules, "split_4 undo") == [-20.0, 20.0]
    seen = rules.observe(rules.advance(rules.begin(TREE), ACTIONS.index("split_4")).episode)
    assert np.isfinite(seen).all()


def test_the_general_observation_tells_states_apart(general: GeneralRules) -> None:
    """LoopTune's does not: a square product looks the same with rows and columns exchanged."""
    tree = contraction_tree_of("mk,kn->mn", dict.fromkeys("mnk", 64))
    other = contraction_tree_of("km,nk->mn", dict.fromkeys("mnk", 64))
    random = Random(0)
    trees = {after_random_actions(t, general, random) for t in (tree, other) for _ in range(60)}
    seen = {tree_observation(t, MACHINE).tobytes() for t in trees}
    assert len(seen) == len(trees)
    assert len(next(iter(seen))) == 4 * OBSERVED
    assert OBSERVED == 16 * LOOP_NUMBERS + GLOBAL_NUMBERS == 408
    numbers = tree_observation(tree, MACHINE)
    assert np.isfinite(numbers).all()
    assert np.abs(numbers).max() < 4


# -- starts ---------------------------------------------------------------------------------------


def test_the_constructed_tree_is_right_and_blocked() -> None:
    random = Random(5)
    for kind in "mcbvsip":
        case = drawn_case(random, kinds=kind)
        tree = constructed_tree(case.tree, MACHINE)
        arrays = case.arrays(0)
        compile_tree(tree)(arrays)
        np.testing.assert_array_equal(arrays["out"], case.result(arrays))
    loops = constructed_tree(TREE, MACHINE).nests[0].loops
    assert [(x.dim, x.size) for x in loops] == [("m", 16), ("n", 6), ("k", 48), ("m", 4), ("n", 16)]
    large = constructed_tree(matmul_tree(256, 256, 256), MACHINE)
    assert large.nests[0].loops[0].packs == (1,)


def test_starts(general: GeneralRules) -> None:
    def start(name: str) -> LoopTree:
        return start_tree(TREE, name, general, MACHINE, Random(4))

    assert start("naive") == TREE
    assert start("constructed") == constructed_tree(TREE, MACHINE)
    assert start("random") == start("random") != TREE
    with pytest.raises(UsageError, match="unknown start"):
        start("best")
    with pytest.raises(UsageError, match="unknown start"):
        TuningEnvironment(general, [TREE], MACHINE, starts=["best"])


def test_faults_are_told(general: GeneralRules, faithful: LoopTuneRules) -> None:
    env = TuningEnvironment(general, [TREE], MACHINE)
    with pytest.raises(UsageError, match="was not reset"):
        env.step(0)
    env.reset()
    with pytest.raises(UsageError, match="no such action"):
        env.step(len(ACTIONS))
    with pytest.raises(UsageError, match="needs a tree"):
        TuningEnvironment(general, [], MACHINE)
    many = contraction_tree_of("abcdefg,aijklmn->bcdefgijklmn", dict.fromkeys("abcdefgijklmn", 2))
    with pytest.raises(UsageError, match="13 loops"):
        faithful.begin(many)


# -- many at once ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: LoopTuneRules(seconds, 4e10), None])
def test_many_episodes_are_as_single_ones(make: Callable[[], LoopTuneRules] | None) -> None:
    rules = make() if make else GeneralRules(seconds, MACHINE, steps=6)
    trees = [TREE, matmul_tree(80, 64, 64)]
    many = TuningEnvironments(rules, trees, MACHINE, 3, starts=("naive", "random"), seed=2)
    seen, masks = many.reset()
    singles = [TuningEnvironment(rules, trees, MACHINE) for _ in range(3)]
    for row, single in enumerate(singles):
        alone, _ = single.reset(tree=many.episodes[row].tree)
        assert np.array_equal(alone, seen[row])
    random = np.random.default_rng(0)
    ended = 0
    for _ in range(20):
        actions = [int(random.choice(np.flatnonzero(mask))) for mask in masks]
        batch = many.step(actions)
        finals = {row: (episode, last) for row, episode, last, _ in batch.finals}
        for row, single in enumerate(singles):
            alone, reward, over, cut, info = single.step(actions[row])
            assert reward == pytest.approx(batch.rewards[row], abs=1e-6)
            assert (over, cut) == (batch.is_over[row], batch.is_cut[row])
            if over or cut:
                ended += 1
                assert np.array_equal(finals[row][1], alone)
                single.reset(tree=many.episodes[row].tree)
            else:
                assert np.array_equal(alone, batch.observations[row])
                assert np.array_equal(info["action_mask"], batch.masks[row])
        masks = batch.masks
    assert ended


def test_the_same_seed_gives_the_same_episodes(general: GeneralRules) -> None:
    trees = [TREE, matmul_tree(80, 64, 64)]
    envs = [TuningEnvironments(general, trees, MACHINE, 4, starts=["random"]) for _ in range(2)]
    first, second = (env.reset(seed=7)[0] for env in envs)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, envs[0].reset(seed=8)[0])


# -- measured times -------------------------------------------------------------------------------


def test_each_tree_is_measured_once_whatever_the_cursor() -> None:
    asked: list[LoopTree] = []

    def slow(tree: LoopTree) -> float:
        asked.append(tree)
        return 1.0

    times: dict[object, float] = {}
    first, second = RememberedTimes(slow, times), RememberedTimes(slow, times)
    first(TREE)
    second(TREE.at(2))
    assert asked == [TREE]
    second(act(TREE, "split_4"))
    assert (first.asked, second.asked, len(times)) == (1, 1, 2)


def test_times_that_are_no_numbers_are_for_ever() -> None:
    """A clock that stands still gives 0 seconds."""
    clock = TreeClock(MACHINE, clock=lambda: 0.0, seconds=0.0)
    assert clock(matmul_tree(8, 8, 8)) == inf
    assert clock.failures == 1


@pytest.mark.parametrize("seed", range(12))
def test_what_is_remembered_of_trees_is_what_is_seen_of_new_ones(seed: int) -> None:
    random = Random(seed)
    tree = drawn_case(random).tree
    for _ in range(10):
        tree = wandered(tree, random, 1)
        fresh = parse_tree(tree_text(tree)).at(tree.cursor)
        np.testing.assert_array_equal(
            tree_observation(tree, MACHINE), tree_observation(fresh, MACHINE)
        )
