"""Environments for gymnasium (an optional extra: `loopwright[gym]`), registered on import.

    import gymnasium
    env = gymnasium.make("loopwright.tuning.gym:loopwright/Contraction-v0")

    loopwright/LoopTune-v0             LoopTune's environment, measured
    loopwright/LoopTuneModel-v0        the same on the closed-form cost model: deterministic
    loopwright/Contraction-v0          all actions, masked, on the cost model: deterministic
    loopwright/ContractionMeasured-v0  the same, measured

`info["action_mask"]` (int8) is for `Discrete.sample(mask=...)`; MaskInObservation puts it into the
observation, and `action_masks()` is what sb3-contrib asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from loopwright.ir.machine import Machine
from loopwright.machines.host import host
from loopwright.tuning.environment import EpisodeRules, TuningEnvironment
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.loop_tree_text import tree_text
from loopwright.tuning.training_trees import (
    general_rules,
    looptune_rules,
    mixed_trees,
    training_trees,
)
from loopwright.tuning.tree_evaluator import Evaluate
from loopwright.tuning.tree_observation import Floats
from loopwright.tuning.vector_environment import TuningEnvironments

__all__ = ["IDS", "LoopTreeEnv", "LoopTreeVectorEnv", "MaskInObservation"]


def _rules(
    kind: str, evaluate: str | Evaluate, machine: Machine | None, options: dict[str, Any]
) -> tuple[EpisodeRules, Machine]:
    where = machine or host()
    if kind == "looptune":
        return looptune_rules(evaluate, where, **options), where
    return general_rules(evaluate, where, **options), where


def _trees(kind: str, trees: Sequence[LoopTree] | None) -> Sequence[LoopTree]:
    if trees is not None:
        return trees
    return training_trees() if kind == "looptune" else mixed_trees()


class LoopTreeEnv(gymnasium.Env):  # type: ignore[misc]
    """A TuningEnvironment as gymnasium has them.

    `kind` is "looptune" or "general", `evaluate` "model", "measured" or a function from a tree to
    seconds, `trees` what episodes are drawn from; `options` go to the rules. `reset` takes
    `options={"tree": tree}`.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self,
        kind: str = "general",
        evaluate: str | Evaluate = "model",
        trees: Sequence[LoopTree] | None = None,
        starts: Sequence[str] = ("naive",),
        machine: Machine | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        rules, where = _rules(kind, evaluate, machine, options)
        self.core = TuningEnvironment(rules, _trees(kind, trees), where, starts=starts)
        self.observation_space = Box(-np.inf, np.inf, (rules.size,), np.float32)
        self.action_space = Discrete(len(rules.actions))
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        return self.core.reset(seed, (options or {}).get("tree"))

    def step(self, action: int) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        return self.core.step(int(action))

    def render(self) -> str | None:
        """The loops as text, with the cursor."""
        return tree_text(self.core.episode.tree) if self.render_mode == "ansi" else None

    def action_masks(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which actions are possible."""
        return self.core.mask().astype(bool)


class MaskInObservation(gymnasium.Wrapper):  # type: ignore[misc]
    """Observations are dictionaries of `observation` and `action_mask`."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        count = env.action_space.n
        mask = Box(0, 1, (count,), np.int8)
        self.observation_space = Dict(observation=env.observation_space, action_mask=mask)

    def reset(self, **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        seen, info = self.env.reset(**given)
        return {"observation": seen, "action_mask": info["action_mask"].copy()}, info

    def step(self, action: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        seen, reward, over, cut, info = self.env.step(action)
        both = {"observation": seen, "action_mask": info["action_mask"].copy()}
        return both, reward, over, cut, info


class LoopTreeVectorEnv(gymnasium.vector.VectorEnv):  # type: ignore[misc]
    """TuningEnvironments as gymnasium has them: episodes that end begin anew in the same step."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        kind: str = "general",
        evaluate: str | Evaluate = "model",
        trees: Sequence[LoopTree] | None = None,
        starts: Sequence[str] = ("naive",),
        machine: Machine | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        rules, where = _rules(kind, evaluate, machine, options)
        self.core = TuningEnvironments(rules, _trees(kind, trees), where, num_envs, starts=starts)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = Box(-np.inf, np.inf, (rules.size,), np.float32)
        self.single_action_space = Discrete(len(rules.actions))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        seen, masks = self.core.reset(seed)
        return seen, {"action_mask": masks.astype(np.int8)}

    def step(self, actions: Sequence[int]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        batch = self.core.step(actions)
        info: dict[str, Any] = {}
        for row, episode, seen, mask in batch.finals:
            last = {"action_mask": mask.astype(np.int8), "best_seconds": episode.best_seconds}
            info = self._add_info(info, {"final_obs": seen, "final_info": last}, row)
        info["action_mask"] = batch.masks.astype(np.int8)
        return batch.observations, batch.rewards, batch.is_over, batch.is_cut, info


def _register(name: str, kind: str, evaluate: str) -> str:
    identifier = f"loopwright/{name}-v0"
    gymnasium.register(
        id=identifier,
        entry_point=LoopTreeEnv,
        vector_entry_point=LoopTreeVectorEnv,
        nondeterministic=evaluate == "measured",
        kwargs={"kind": kind, "evaluate": evaluate},
    )
    return identifier


IDS = (
    _register("LoopTune", "looptune", "measured"),
    _register("LoopTuneModel", "looptune", "model"),
    _register("Contraction", "general", "model"),
    _register("ContractionMeasured", "general", "measured"),
)
