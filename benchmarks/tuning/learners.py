"""Which learner pays: DQN and its parts, a policy gradient, a bandit; equal processor time.

    python -m benchmarks.tuning.learners --seconds 300 --seeds 3

All act in LoopTune's space on the closed-form cost (deterministic, so that only learners differ),
each for the same processor time. Told is the share of the peak that the fastest tree of a greedy
episode reaches on products that none was trained on: mean and worst.

    dqn           double, 3-step returns, prioritised replay, floors
    uniform       the same without priorities
    single        the same with one network for choosing and judging
    one step      the same with returns of one action
    no floors     the same without lower bounds from what episodes reached
    reinforce     policy gradient with the mean as baseline and an entropy bonus
    bandit        one choice per product instead of ten: which of the best episodes' action lists to
                  follow, by a network that predicts what each reaches (contextual bandit)
    one list      no learning: the action list that was best on average
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from loopwright.ir.machine import Machine
from loopwright.machines import load_machine
from loopwright.tuning.actors import ActorJob, Collected, collect, graph_of, greedy_shares
from loopwright.tuning.dqn import Learner, LearnerSettings
from loopwright.tuning.network import Adam, Network, gradients, new_network, outputs
from loopwright.tuning.policy_inputs import INPUTS, policy_inputs
from loopwright.tuning.policy_space import SPACES
from loopwright.tuning.state_graph import StateGraph, StateNode, seen_by

SPACE = SPACES["looptune"]
JUDGED = 64  # products that the learners are judged on: the first of those to train on
TRAINED = 320  # products after these: fewer than there are, so that each is seen several times
EPISODES = 64
Shares = list[float]  # log2 of the share of the peak
Guides = dict[int, tuple[float, tuple[int, ...]]]


class Budget:
    """Processor seconds of this process."""

    def __init__(self, seconds: float) -> None:
        self._start, self._seconds = time.process_time(), seconds

    @property
    def share(self) -> float:
        return (time.process_time() - self._start) / self._seconds


def _job(machine: Machine, network: Network, seed: int, guides: Guides) -> ActorJob:
    trees = JUDGED, JUDGED + TRAINED
    kept = tuple((tree, actions) for tree, (_, actions) in guides.items())
    return ActorJob(SPACE.name, machine, network, None, seed, EPISODES, trees, guides=kept)


def _keep(guides: Guides, found: Collected) -> None:
    for tree, share, actions in found.guides:
        if tree not in guides or share > guides[tree][0]:
            guides[tree] = share, actions


def dqn(
    machine: Machine, budget: Budget, seed: int, settings: LearnerSettings, *, floors: bool = True
) -> Shares:
    """Learn as `loopwright tune --train` does, without measurements."""
    learner = Learner(len(SPACE.actions), settings, seed)
    guides: Guides = {}
    rounds = 0
    while budget.share < 1:
        job = _job(machine, learner.steady, 10_000 * seed + rounds, guides)
        bold = max(0.0, 1 - budget.share / 0.1)
        found = collect(replace(job, exploration=bold, steps=settings.steps, price=settings.price))
        rows = found.transitions
        learner.add(rows if floors else _without_floors(rows))
        _keep(guides, found)
        learner.learn(24, budget.share)
        rounds += 1
    return greedy_shares(graph_of(SPACE, machine, None), learner.steady, range(JUDGED))


def _without_floors(rows: Any) -> Any:
    """Only transitions that end an episode keep what was reached: others learn from values."""
    return replace(rows, floors=np.where(np.isinf(rows.prices), rows.floors, -30).astype("f4"))


def reinforce(machine: Machine, budget: Budget, seed: int) -> Shares:
    """Raise the probability of actions whose episodes reached more than others."""
    random = np.random.default_rng(seed)
    draws = Random(seed)
    network, adam = new_network((INPUTS, 192, 128, len(SPACE.actions)), random), Adam(1e-3)
    graph = graph_of(SPACE, machine, None)
    trees = SPACE.trees()
    while budget.share < 1:
        numbers = [draws.randrange(JUDGED, JUDGED + TRAINED) for _ in range(EPISODES)]
        paths = [[graph.node(SPACE.start(trees[k], machine), k)] for k in numbers]
        seen, masks, taken = [], [], []
        for step in range(SPACE.steps):
            here = [path[-1] for path in paths]
            now = policy_inputs(seen_by(here, [step] * len(here), SPACE.steps))
            mask = np.stack([node.allowed for node in here])
            chances = _softmax(outputs(network, now), mask)
            picked = (chances.cumsum(axis=1) > random.random((len(here), 1))).argmax(axis=1)
            for path, node, action in zip(paths, here, picked, strict=True):
                path.append(graph.follow(node, int(action)))
            seen.append(now)
            masks.append(mask)
            taken.append(picked)
        graph.price(node for path in paths for node in path)
        shares = np.array([[node.share for node in path[1:]] for path in paths]).T
        later = np.maximum.accumulate(shares[::-1], axis=0)[::-1]
        first = np.array([path[0].share for path in paths])
        advantage = later - first
        advantage -= advantage.mean(axis=1, keepdims=True)
        advantage /= advantage.std() + 1e-6
        inputs, mask = np.concatenate(seen), np.concatenate(masks)
        chances = _softmax(outputs(network, inputs), mask)
        slopes = chances * advantage.reshape(-1, 1)
        slopes[np.arange(len(slopes)), np.concatenate(taken)] -= advantage.reshape(-1)
        logs = np.log(np.maximum(chances, 1e-9))
        entropy = -(chances * logs).sum(axis=1, keepdims=True)
        bonus = 0.02 * (1 - min(budget.share, 1.0))
        slopes += bonus * chances * (logs + entropy)
        slopes = (slopes / len(slopes)).astype(np.float32)
        network = adam.step(network, gradients(network, inputs, slopes))
    return greedy_shares(graph, network, range(JUDGED))


def _softmax(values: Any, mask: Any) -> Any:
    values = np.where(mask, values, -np.inf)
    raised = np.exp(values - values.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def _reached(graph: StateGraph, start: StateNode, actions: Sequence[int]) -> float:
    """What an action list reaches; actions that are refused are passed over."""
    path = [start]
    for action in actions:
        if path[-1].allowed[action]:
            path.append(graph.follow(path[-1], action))
    graph.price(path)
    return max(node.share for node in path)


def bandit(machine: Machine, budget: Budget, seed: int, *, learns: bool = True) -> Shares:
    """Choose one of the action lists that were best for some product."""
    random = np.random.default_rng(seed)
    graph = graph_of(SPACE, machine, None)
    network = new_network((INPUTS, 8, len(SPACE.actions)), random)
    guides: Guides = {}
    rounds = 0
    while budget.share < 0.5:  # the lists: random walks, and walks near those that were good
        found = collect(_job(machine, network, 10_000 * seed + rounds, guides))
        _keep(guides, found)
        rounds += 1
    best_lists = sorted(guides.values(), reverse=True)
    arms = list(dict.fromkeys(actions for _, actions in best_lists))[:64]
    trees = SPACE.trees()

    def start(number: int) -> StateNode:
        return graph.node(SPACE.start(trees[number], machine), number)

    rows: list[Any] = []
    gains: list[Any] = []
    while budget.share < 0.9 or not rows:
        node = start(int(random.integers(JUDGED, JUDGED + TRAINED)))
        rows.append(seen_by([node], [0], SPACE.steps)[0])
        gains.append([_reached(graph, node, actions) for actions in arms])
    inputs, wanted = policy_inputs(np.stack(rows)), np.array(gains, np.float32)
    base = wanted.mean(axis=1, keepdims=True)
    if not learns:
        best = arms[int(wanted.mean(axis=0).argmax())]
        return [_reached(graph, start(number), best) for number in range(JUDGED)]
    judge, adam = new_network((INPUTS, 64, len(arms)), random), Adam(1e-3)
    while budget.share < 1:
        at = random.integers(len(inputs), size=64)
        error = (outputs(judge, inputs[at]) - (wanted - base)[at]) / len(at)
        judge = adam.step(judge, gradients(judge, inputs[at], error.astype(np.float32)))
    found_shares = []
    for number in range(JUDGED):
        node = start(number)
        seen = policy_inputs(seen_by([node], [0], SPACE.steps))
        arm = int(outputs(judge, seen)[0].argmax())
        found_shares.append(_reached(graph, node, arms[arm]))
    return found_shares


LEARNERS: dict[str, Callable[[Machine, Budget, int], Shares]] = {
    "dqn": lambda m, b, s: dqn(m, b, s, LearnerSettings()),
    "uniform": lambda m, b, s: dqn(m, b, s, LearnerSettings(alpha=0.0)),
    "single": lambda m, b, s: dqn(m, b, s, LearnerSettings(double=False)),
    "one step": lambda m, b, s: dqn(m, b, s, LearnerSettings(steps=1)),
    "no floors": lambda m, b, s: dqn(m, b, s, LearnerSettings(), floors=False),
    "reinforce": reinforce,
    "bandit": bandit,
    "one list": lambda m, b, s: bandit(m, b, s, learns=False),
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="processor time of each")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--learners", nargs="*", default=list(LEARNERS), choices=list(LEARNERS))
    parser.add_argument("--machine", default="neoverse-n1")
    parser.add_argument("--out", metavar="FILE", help="the figures as JSON")
    args = parser.parse_args(arguments)
    machine = load_machine(args.machine)
    found: dict[str, list[Any]] = {}
    for name in args.learners:
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            each = LEARNERS[name](machine, Budget(args.seconds), seed)
            mean, worst = float(2 ** np.mean(each)), float(2 ** min(each))
            found.setdefault(name, []).append({"seed": seed, "mean": mean, "worst": worst})
            print(f"{name:10s} seed {seed}: mean {mean:.3f}, worst {worst:.3f}", flush=True)
    if args.out:
        text = json.dumps({"seconds": args.seconds, "learners": found}, indent=1)
        Path(args.out).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
