"""Which learner pays: DQN with and without priorities, a policy gradient, a bandit; equal budgets.

    python -m benchmarks.tuning.learners --seconds 120 --seeds 2

All act in LoopTune's space on the closed-form cost (deterministic, so that only learners differ),
each for the same processor time. Told is the share of the peak that the last tree of a
greedy episode reaches on products that none was trained on: mean and worst.

    dqn           double, 3-step returns, prioritised replay
    uniform       the same without priorities
    reinforce     policy gradient with the mean return as baseline and an entropy bonus
    bandit        one choice per product instead of ten: which of the best episodes' action lists to
                  follow, by a network that predicts the gain of each (contextual bandit)
    guides        no learning: the action list that was best on average
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from loopwright.ir.machine import Machine
from loopwright.machines import load_machine
from loopwright.tuning.actors import ActorJob, collect, corrected_cost
from loopwright.tuning.dqn import Learner, LearnerSettings
from loopwright.tuning.environment import Episode
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.network import Adam, gradients, new_network, outputs
from loopwright.tuning.policy import Policy
from loopwright.tuning.policy_space import SPACES
from loopwright.tuning.training_trees import held_out_trees, training_trees
from loopwright.tuning.tree_facts import bound_seconds
from loopwright.tuning.tree_observation import OBSERVED, tree_observation

SPACE = SPACES["looptune"]
TRAINED = 200  # products: fewer than there are, so that all learners see each several times
Choose = Callable[[LoopTree], LoopTree]
Lists = list[tuple[float, tuple[int, ...]]]


class Budget:
    """Processor seconds of this process."""

    def __init__(self, seconds: float) -> None:
        self._start, self._seconds = time.process_time(), seconds

    @property
    def share(self) -> float:
        return (time.process_time() - self._start) / self._seconds


def _lists(known: Lists, found: Any) -> Lists:
    best = {actions: share for share, actions in known}
    for share, actions in found:
        best[actions] = max(share, best.get(actions, 0.0))
    return sorted(((share, a) for a, share in best.items()), reverse=True)[:64]


def dqn(machine: Machine, budget: Budget, seed: int, settings: LearnerSettings) -> Choose:
    learner = Learner(OBSERVED, len(SPACE.actions), settings, seed)
    lists: Lists = []
    rounds = 0
    while budget.share < 1:
        job = ActorJob(
            SPACE.name, machine, learner.network, None, 1000 * seed + rounds, 32, (0, TRAINED)
        )
        bold = max(0.0, 1 - budget.share / 0.15)
        found = collect(replace(job, exploration=bold, guides=tuple(a for _, a in lists)))
        learner.add(found.transitions)
        lists = _lists(lists, found.guides)
        learner.learn(48, budget.share)
        rounds += 1
    policy = Policy(SPACE, learner.network)
    return lambda tree: policy.tree(tree, machine)


def reinforce(machine: Machine, budget: Budget, seed: int) -> Choose:
    random = np.random.default_rng(seed)
    draws = Random(seed)
    network, adam = new_network((OBSERVED, 192, 128, len(SPACE.actions)), random), Adam(1e-3)
    rules = SPACE.rules(corrected_cost(machine, None), machine)
    trees = training_trees()[:TRAINED]
    while budget.share < 1:
        episodes = [rules.begin(draws.choice(trees)) for _ in range(32)]
        seen, masks, taken, rewards = [], [], [], []
        for _ in range(SPACE.steps):
            now = np.stack([rules.observe(e) for e in episodes])
            mask = np.array([rules.mask(e) for e in episodes], bool)
            chances = _softmax(outputs(network, now), mask)
            actions = [int(random.choice(len(row), p=row / row.sum())) for row in chances]
            done = [rules.advance(e, a) for e, a in zip(episodes, actions, strict=True)]
            episodes = [each.episode for each in done]
            seen.append(now)
            masks.append(mask)
            taken.append(actions)
            rewards.append([each.reward for each in done])
        later = np.cumsum(np.array(rewards)[::-1], axis=0)[::-1]
        advantage = later - later.mean(axis=1, keepdims=True)
        advantage /= advantage.std() + 1e-6
        inputs, mask = np.concatenate(seen), np.concatenate(masks)
        chances = _softmax(outputs(network, inputs), mask)
        slopes = chances * advantage.reshape(-1, 1)
        slopes[np.arange(len(slopes)), np.concatenate(taken)] -= advantage.reshape(-1)
        logs = np.log(np.maximum(chances, 1e-9))
        entropy = -(chances * logs).sum(axis=1, keepdims=True)
        slopes += 0.02 * chances * (logs + entropy)
        slopes = (slopes / len(slopes)).astype(np.float32)
        network = adam.step(network, gradients(network, inputs, slopes))
    policy = Policy(SPACE, network)
    return lambda tree: _greedy(policy, tree, machine)


def _softmax(values: Any, mask: Any) -> Any:
    values = np.where(mask, values, -np.inf)
    raised = np.exp(values - values.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def _greedy(policy: Policy, tree: LoopTree, machine: Machine) -> LoopTree:
    """Ten likeliest actions: outputs are no values, so none of them says that it is done."""
    rules = SPACE.rules(lambda tree: 1.0, machine)
    episode = rules.begin(tree)
    for _ in range(SPACE.steps):
        values = outputs(policy.network, rules.observe(episode)[None])[0]
        best = int(np.where(rules.mask(episode), values, -np.inf).argmax())
        episode = rules.advance(episode, best).episode
    return episode.tree


def _followed(tree: LoopTree, actions: tuple[int, ...], rules: Any) -> Episode:
    episode = rules.begin(tree)
    for action in actions:
        episode = rules.advance(episode, action).episode
    return episode


def bandit(machine: Machine, budget: Budget, seed: int, *, learns: bool = True) -> Choose:
    random = np.random.default_rng(seed)
    rules = SPACE.rules(corrected_cost(machine, None), machine)
    network = new_network((OBSERVED, 8, len(SPACE.actions)), random)
    lists: Lists = []
    rounds = 0
    while budget.share < 0.5:  # the lists: random walks, and walks near those that were good
        job = ActorJob(SPACE.name, machine, network, None, 1000 * seed + rounds, 32, (0, TRAINED))
        found = collect(replace(job, exploration=1.0, guides=tuple(a for _, a in lists)))
        lists = _lists(lists, found.guides)
        rounds += 1
    arms = [actions for _, actions in lists[:32]]
    trees = training_trees()[:TRAINED]
    rows: list[Any] = []
    gains: list[Any] = []
    while budget.share < 0.9 or not rows:
        tree = trees[int(random.integers(len(trees)))]
        ends = [_followed(tree, actions, rules) for actions in arms]
        rows.append(tree_observation(tree, machine))
        gains.append([np.log2(e.start_seconds / e.seconds) for e in ends])
    inputs, wanted = np.stack(rows), np.array(gains, np.float32)
    if not learns:
        best = arms[int(wanted.mean(axis=0).argmax())]
        return lambda tree: _followed(tree, best, rules).tree
    judge, adam = new_network((OBSERVED, 64, len(arms)), random), Adam(1e-3)
    while budget.share < 1:
        at = random.integers(len(inputs), size=32)
        error = (outputs(judge, inputs[at]) - wanted[at]) / wanted[at].size
        judge = adam.step(judge, gradients(judge, inputs[at], error.astype(np.float32)))

    def choose(tree: LoopTree) -> LoopTree:
        arm = int(outputs(judge, tree_observation(tree, machine)[None])[0].argmax())
        return _followed(tree, arms[arm], rules).tree

    return choose


LEARNERS: dict[str, Callable[[Machine, Budget, int], Choose]] = {
    "dqn": lambda m, b, s: dqn(m, b, s, LearnerSettings()),
    "uniform": lambda m, b, s: dqn(m, b, s, LearnerSettings(alpha=0.0)),
    "reinforce": reinforce,
    "bandit": bandit,
    "guides": lambda m, b, s: bandit(m, b, s, learns=False),
}


def shares(choose: Choose, machine: Machine, count: int) -> list[float]:
    """Shares of the peak, by the closed form, of the trees that a policy ends in."""
    cost = corrected_cost(machine, None)
    return [bound_seconds(tree, machine) / cost(choose(tree)) for tree in held_out_trees()[:count]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="processor time of each")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--shapes", type=int, default=48)
    parser.add_argument("--learners", nargs="*", default=list(LEARNERS), choices=list(LEARNERS))
    parser.add_argument("--out", metavar="FILE", help="the figures as JSON")
    args = parser.parse_args(arguments)
    machine = load_machine("neoverse-n1")
    found: dict[str, list[Any]] = {}
    for name in args.learners:
        for seed in range(args.seeds):
            choose = LEARNERS[name](machine, Budget(args.seconds), seed)
            each = shares(choose, machine, args.shapes)
            mean, worst = float(np.exp(np.mean(np.log(each)))), min(each)
            found.setdefault(name, []).append({"seed": seed, "mean": mean, "worst": worst})
            print(f"{name:10s} seed {seed}: mean {mean:.3f}, worst {worst:.3f}", flush=True)
    if args.out:
        text = json.dumps({"seconds": args.seconds, "learners": found}, indent=1)
        Path(args.out).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
