"""Actors: episodes of a policy that explores, as transitions for a learner.

A job is data and `collect` a pure function of it, so jobs run in any executor of
concurrent.futures: threads, processes, MPI ranks, a cluster. The same jobs give the same
transitions wherever they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.correction import CorrectedCost
from loopwright.tuning.environment import Episode, start_tree
from loopwright.tuning.network import Network, outputs
from loopwright.tuning.policy_space import space_named
from loopwright.tuning.replay import Transitions
from loopwright.tuning.tree_cost import predict_seconds
from loopwright.tuning.tree_evaluator import Evaluate, RememberedTimes
from loopwright.tuning.tree_facts import bound_seconds

__all__ = ["ActorJob", "Collected", "collect", "corrected_cost", "n_step"]

_MOST_RANDOM = 0.5  # probability of a random action of the boldest actor
_STRAY = 0.12  # probability that an episode leaves its guide for an action
_KEPT = 8  # guides that a job tells of


@dataclass(frozen=True, slots=True, eq=False)
class ActorJob:
    """What an actor needs."""

    space: str
    machine: Machine
    network: Network
    correction: Network | None
    seed: int
    episodes: int
    trees: tuple[int, int]  # of the space's trees: those from the first on, before the second
    steps: int = 3  # n of n-step returns
    discount: float = 0.98
    exploration: float = 1.0  # 1: every action is random; 0: as the network says
    guides: tuple[tuple[int, ...], ...] = ()  # actions of good episodes, which some follow


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """What an actor has seen."""

    transitions: Transitions
    returns: tuple[float, ...]  # log2 of start time over the last one, for each episode
    guides: tuple[tuple[float, tuple[int, ...]], ...]  # the best: share of the peak, actions


# The evaluator of the last job of this process: the next one has the same correction, mostly.
_last: tuple[object, Evaluate] | None = None


def corrected_cost(machine: Machine, correction: Network | None) -> Evaluate:
    """The closed form with its correction, with a memory that lasts while they are the same."""
    global _last
    digest = None if correction is None else tuple(layer.tobytes() for layer in correction)
    key = machine.content_hash, digest
    if _last is None or _last[0] != key:
        cost = CorrectedCost(lambda tree: predict_seconds(tree, machine), correction, machine)
        _last = key, RememberedTimes(cost)
    return _last[1]


def collect(job: ActorJob) -> Collected:
    """Play the episodes of a job, all side by side.

    Actors differ in how bold they are: actor i of N takes a random action with the probability
    0.5^(1 + 5 i / N), as in Ape-X (arXiv 1803.00933), or always at the beginning of a training.
    """
    space = space_named(job.space)
    rules = space.rules(corrected_cost(job.machine, job.correction), job.machine)
    random = np.random.default_rng(job.seed)
    draws = Random(job.seed)
    trees = space.trees()[slice(*job.trees)]
    episodes = []
    for _ in range(job.episodes):
        start = draws.choice(space.starts)
        episodes.append(
            rules.begin(start_tree(draws.choice(trees), start, rules, job.machine, draws))
        )
    chances = _MOST_RANDOM ** (1 + 5 * np.arange(job.episodes) / job.episodes)
    chances = job.exploration + (1 - job.exploration) * chances
    followed = _followed(job, draws)
    walks: list[list[tuple[Any, Any, int, float]]] = [[] for _ in episodes]
    running = list(range(len(episodes)))
    while running:
        seen = np.stack([rules.observe(episodes[row]) for row in running])
        masks = np.array([rules.mask(episodes[row]) for row in running], bool)
        values = np.where(masks, outputs(job.network, seen), -np.inf)
        is_bold = random.random(len(running)) < chances[running]
        goes_on = []
        for at, row in enumerate(running):
            possible = np.flatnonzero(masks[at])
            action = int(random.choice(possible) if is_bold[at] else values[at].argmax())
            guide = followed.get(row, ())
            if len(walks[row]) < len(guide) and random.random() > _STRAY:
                told = guide[len(walks[row])]
                action = told if masks[at][told] else action
            done = rules.advance(episodes[row], action)
            walks[row].append((seen[at], masks[at], action, done.reward))
            episodes[row] = done.episode
            if not (done.is_over or done.is_cut):
                goes_on.append(row)
        running = goes_on
    parts = [n_step(walk, job.steps, job.discount) for walk in walks]
    gains = tuple(float(np.log2(e.start_seconds / e.seconds)) for e in episodes)
    return Collected(_joined(parts), gains, _best_guides(episodes, walks, job.machine))


def _followed(job: ActorJob, draws: Random) -> dict[int, tuple[int, ...]]:
    """Which episodes follow which guide: every second one."""
    if not job.guides:
        return {}
    return {row: draws.choice(job.guides) for row in range(0, job.episodes, 2)}


def _best_guides(
    episodes: Sequence[Episode], walks: Sequence[Sequence[Any]], machine: Machine
) -> tuple[tuple[float, tuple[int, ...]], ...]:
    """The actions of the best episodes, up to their best tree.

    Gains come after five or six actions in a row that are all right, which random walks seldom
    take. What was good for one tree is tried on others, with some actions changed.
    """
    found = []
    for episode, walk in zip(episodes, walks, strict=True):
        if episode.best_seconds < episode.start_seconds:
            share = bound_seconds(episode.tree, machine) / episode.best_seconds
            trees = [*episode.session.past, episode.tree]
            most = next(k for k, tree in enumerate(trees) if tree == episode.best)
            found.append((share, tuple(entry[2] for entry in walk[:most])))
    return tuple(sorted(found, reverse=True)[:_KEPT])


def n_step(walk: Sequence[tuple[Any, Any, int, float]], steps: int, discount: float) -> Transitions:
    """Transitions over up to `steps` actions of one whole episode: (seen, mask, action, reward).

    The number of actions left is part of what is seen, so an episode that was cut has ended.
    """
    seen = np.stack([entry[0] for entry in walk])
    masks = np.stack([entry[1] for entry in walk])
    rewards = [entry[3] for entry in walk]
    count = len(walk)
    nexts = [min(at + steps, count) for at in range(count)]
    returns = [
        sum(discount ** (k - at) * rewards[k] for k in range(at, end))
        for at, end in enumerate(nexts)
    ]
    left = [discount ** (end - at) if end < count else 0.0 for at, end in enumerate(nexts)]
    after = [min(end, count - 1) for end in nexts]
    return Transitions(
        seen.astype(np.float16),
        np.array([entry[2] for entry in walk], np.int64),
        np.array(returns, np.float32),
        seen[after].astype(np.float16),
        masks[after],
        np.array(left, np.float32),
    )


def _joined(parts: Sequence[Transitions]) -> Transitions:
    names = ("seen", "actions", "returns", "after", "masks", "discounts")
    return Transitions(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))
