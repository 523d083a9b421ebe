"""The layer for gymnasium: its own checker, masks, vectors. Skipped where it is not installed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install loopwright[gym]")

from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402

from loopwright.tuning.actions import ACTIONS, LOOPTUNE_ACTIONS  # noqa: E402
from loopwright.tuning.gym import IDS, LoopTreeVectorEnv, MaskInObservation  # noqa: E402
from loopwright.tuning.tensor_nests import matmul_tree  # noqa: E402

TREES = [matmul_tree(16, 32, 16), matmul_tree(24, 16, 8)]


def made(identifier: str, **given: Any) -> Any:
    return gymnasium.make(identifier, trees=TREES, **given)


@pytest.mark.parametrize("identifier", IDS)
def test_gymnasium_finds_nothing_to_say(identifier: str) -> None:
    env = made(identifier, render_mode="ansi")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Sizes of loops have no bound, and gymnasium warns of spaces without one.
        warnings.filterwarnings("ignore", message=".*(Box observation space|infinity).*")
        check_env(env.unwrapped)
    assert env.spec.nondeterministic is (identifier in (IDS[0], IDS[3]))
    env.close()


def test_actions_and_observations_are_those_of_the_rules() -> None:
    faithful, general = made(IDS[1]), made(IDS[2])
    assert faithful.action_space.n == len(LOOPTUNE_ACTIONS)
    assert faithful.observation_space.shape == (200,)
    assert general.action_space.n == len(ACTIONS)
    assert general.observation_space.shape == (408,)
    counts, _ = faithful.reset(options={"tree": TREES[0]})
    shares, _ = made(IDS[1], strides="shares").reset(options={"tree": TREES[0]})
    assert counts[4:20].sum() == 2
    assert shares[4:20].sum() == 1


def test_masks_serve_samples_and_stand_in_the_observation() -> None:
    env = MaskInObservation(made(IDS[2], starts=("random",)))
    seen, info = env.reset(seed=1)
    for _ in range(40):
        assert env.observation_space.contains(seen)
        assert np.array_equal(seen["action_mask"], info["action_mask"])
        assert np.array_equal(env.unwrapped.action_masks(), info["action_mask"])
        action = env.action_space.sample(mask=info["action_mask"])
        seen, reward, over, cut, info = env.step(action)
        assert reward > -21
        if over or cut:
            seen, info = env.reset()


def test_the_tree_is_drawn() -> None:
    env = made(IDS[2], render_mode="ansi")
    env.reset(options={"tree": TREES[0]})
    assert "> for m in 16" in env.render()


def test_vectors() -> None:
    envs = gymnasium.make_vec(IDS[2], 3, vectorization_mode="vector_entry_point", trees=TREES)
    assert isinstance(envs.unwrapped, LoopTreeVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    seen, info = envs.reset(seed=3)
    random = np.random.default_rng(0)
    ended = 0
    for _ in range(30):
        assert envs.observation_space.contains(seen)
        assert info["action_mask"].shape == (3, len(ACTIONS))
        actions = [random.choice(np.flatnonzero(mask)) for mask in info["action_mask"]]
        seen, rewards, over, cut, info = envs.step(actions)
        assert rewards.shape == over.shape == cut.shape == (3,)
        done = over | cut
        ended += done.sum()
        assert np.array_equal(info.get("_final_obs", np.zeros(3, bool)), done)
    assert ended
    envs.close()
