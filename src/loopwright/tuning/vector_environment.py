"""Many episodes side by side: observations, rewards and masks as arrays, one row per episode.

An episode that ends begins anew within the same step: the row of observations is that of the new
one, and `Batch.finals` has what the old one ended in. All share the rules, so a tree that one of
them has asked the time of is known to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeAlias

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.environment import Advance, Episode, EpisodeRules, start_tree
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.tree_observation import Floats

__all__ = ["Batch", "TuningEnvironments"]

Masks: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step of all episodes gave."""

    observations: Floats  # of the episodes that go on or began
    masks: Masks
    rewards: Floats
    is_over: Masks
    is_cut: Masks
    finals: tuple[tuple[int, Episode, Floats, Masks], ...]  # row, last state, what it showed


class TuningEnvironments:
    """`count` episodes over trees that are drawn at random."""

    def __init__(
        self,
        rules: EpisodeRules,
        trees: Sequence[LoopTree],
        machine: Machine,
        count: int,
        *,
        starts: Sequence[str] = ("naive",),
        seed: int = 0,
    ) -> None:
        if count < 1 or not trees:
            raise UsageError("environments need a tree and a count above 0", found=str(count))
        self.rules, self.trees, self.machine = rules, tuple(trees), machine
        self.count, self.starts = count, tuple(starts)
        self._random = Random(seed)
        self.episodes: list[Episode] = []

    def reset(self, seed: int | None = None) -> tuple[Floats, Masks]:
        """Begin all episodes: observations and masks."""
        if seed is not None:
            self._random = Random(seed)
        self.episodes = [self._begun() for _ in range(self.count)]
        return self._seen(), self._masks()

    def step(self, actions: Sequence[int]) -> Batch:
        """Take one action in each episode."""
        if len(self.episodes) != len(actions):
            raise UsageError("one action for each episode", found=str(len(actions)))
        rules = self.rules
        done = [rules.advance(e, int(a)) for e, a in zip(self.episodes, actions, strict=True)]
        finals = []
        for row, after in enumerate(done):
            self.episodes[row] = after.episode
            if after.is_over or after.is_cut:
                last = after.episode
                mask = np.array(rules.mask(last), bool)
                finals.append((row, last, rules.observe(last), mask))
                self.episodes[row] = self._begun()
        return Batch(
            self._seen(),
            self._masks(),
            np.array([after.reward for after in done], np.float32),
            *_flags(done),
            tuple(finals),
        )

    def _begun(self) -> Episode:
        drawn = self._random.choice(self.trees)
        start = self._random.choice(self.starts)
        return self.rules.begin(start_tree(drawn, start, self.rules, self.machine, self._random))

    def _seen(self) -> Floats:
        return np.stack([self.rules.observe(episode) for episode in self.episodes])

    def _masks(self) -> Masks:
        return np.array([self.rules.mask(episode) for episode in self.episodes], bool)


def _flags(done: Sequence[Advance]) -> tuple[Masks, Masks]:
    is_over = np.array([after.is_over for after in done], bool)
    return is_over, np.array([after.is_cut for after in done], bool)
