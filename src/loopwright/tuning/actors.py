"""Actors: episodes of a policy that explores, as transitions for a learner.

A job is data and `collect` a pure function of it, so jobs run in any executor of
concurrent.futures: threads, processes, MPI ranks, a cluster. The same jobs give the same
transitions wherever they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.environment import start_tree
from loopwright.tuning.learned_cost import LearnedCost
from loopwright.tuning.network import Network, outputs
from loopwright.tuning.policy_inputs import policy_inputs
from loopwright.tuning.policy_space import PolicySpace, space_named
from loopwright.tuning.replay import Transitions
from loopwright.tuning.state_graph import PriceTrees, StateGraph, StateNode, seen_by
from loopwright.tuning.tree_cost import predict_seconds

__all__ = ["ActorJob", "Collected", "collect", "graph_of", "greedy_shares", "n_step", "price_by"]

_MOST_RANDOM = 0.5  # probability of a random action of the boldest actor
_STRAY = 0.12  # probability that an episode leaves its guide for an action


@dataclass(frozen=True, slots=True, eq=False)
class ActorJob:
    """What an actor needs."""

    space: str
    machine: Machine
    network: Network
    cost: LearnedCost | None
    seed: int
    episodes: int
    trees: tuple[int, int]  # of the space's trees: those from the first on, before the second
    steps: int = 3  # n of n-step returns
    price: float = 0.01  # octaves that an action costs: of two ways to a tree the shorter is better
    exploration: float = 1.0  # 1: every action is random; 0: as the network says
    guides: tuple[tuple[int, tuple[int, ...]], ...] = ()  # trees, actions of their best episodes


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """What an actor has seen."""

    transitions: Transitions
    gains: tuple[float, ...]  # log2 of start time over the best one, for each episode
    guides: tuple[tuple[int, float, tuple[int, ...]], ...]  # tree, log2 share of the peak, actions


def price_by(cost: LearnedCost | None, machine: Machine) -> PriceTrees:
    """Seconds of trees by the closed form, corrected where measurements of the machine have been
    learned from.
    """
    if cost is not None:
        return lambda trees: cost.seconds(trees, machine)
    return lambda trees: [predict_seconds(tree, machine) for tree in trees]


# The graphs of this process; the next job of a machine has the same cost, mostly.
_graphs: dict[tuple[str, str], tuple[bytes | None, StateGraph]] = {}


def graph_of(space: PolicySpace, machine: Machine, cost: LearnedCost | None) -> StateGraph:
    """The states that this process has met, for as long as they have the same cost."""
    key = space.name, machine.content_hash
    digest = None if cost is None else cost.to_bytes()
    known = _graphs.get(key)
    if known is None or known[0] != digest or known[1].space is not space:
        known = _graphs[key] = digest, StateGraph(space, machine, price_by(cost, machine))
    return known[1]


def collect(job: ActorJob) -> Collected:
    """Play the episodes of a job, all side by side.

    Actors differ in how bold they are: actor i of N takes a random action with the probability
    0.5^(1 + 5 i / N), as in Ape-X (arXiv 1803.00933), or always at the beginning of a training.
    Every second one follows a guide: the best episode of its tree or of another one, with some
    actions changed. Gains come after five or six actions in a row that are all right, which random
    walks seldom take.
    """
    space = space_named(job.space)
    graph = graph_of(space, job.machine, job.cost)
    random = np.random.default_rng(job.seed)
    nodes, drawn = _starts(job, space, graph, Random(job.seed))
    guides = _followed(job, drawn, Random(job.seed + 1))
    chances = _MOST_RANDOM ** (1 + 5 * np.arange(job.episodes) / job.episodes)
    chances = job.exploration + (1 - job.exploration) * chances
    paths = [[node] for node in nodes]
    taken: list[list[int]] = [[] for _ in nodes]
    running = list(range(len(nodes)))
    stop = space.actions.index("stop") if "stop" in space.actions else None
    for step in range(space.steps):
        if not running:
            break
        here = [paths[row][-1] for row in running]
        seen = seen_by(here, [step] * len(here), space.steps)
        masks = np.stack([node.allowed for node in here])
        values = np.where(masks, outputs(job.network, policy_inputs(seen)), -np.inf)
        is_bold = random.random(len(running)) < chances[running]
        strays = random.random(len(running)) < _STRAY
        for at, row in enumerate(running):
            possible = np.flatnonzero(masks[at])
            action = int(random.choice(possible) if is_bold[at] else values[at].argmax())
            guide = guides[row]
            if step < len(guide) and not strays[at] and masks[at][guide[step]]:
                action = guide[step]
            taken[row].append(action)
            paths[row].append(graph.follow(here[at], action))
        running = [row for row in running if taken[row][-1] != stop]
    graph.price(node for path in paths for node in path)
    parts = [
        n_step(path, actions, space.steps, job.steps, job.price)
        for path, actions in zip(paths, taken, strict=True)
        if actions
    ]
    return Collected(
        _joined(parts),
        tuple(max(node.share for node in path) - path[0].share for path in paths),
        tuple(
            (number, *_best(path, actions))
            for number, start, path, actions in zip(drawn, nodes, paths, taken, strict=True)
            if start is graph.node(space.start(start.tree, job.machine), number)
        ),
    )


def _starts(
    job: ActorJob, space: PolicySpace, graph: StateGraph, draws: Random
) -> tuple[list[StateNode], list[int]]:
    trees = space.trees()
    last = min(job.trees[1], len(trees))
    rules = graph.rules
    nodes, drawn = [], []
    for _ in range(job.episodes):
        number = draws.randrange(job.trees[0], last)
        tree = start_tree(trees[number], draws.choice(space.starts), rules, job.machine, draws)
        nodes.append(graph.node(tree.at(0), number))
        drawn.append(number)
    return nodes, drawn


def _followed(job: ActorJob, drawn: Sequence[int], draws: Random) -> list[tuple[int, ...]]:
    """The guide of each episode: of every second one, that of its tree or of any other."""
    guides = dict(job.guides)
    every = list(guides.values())
    found: list[tuple[int, ...]] = []
    for row, number in enumerate(drawn):
        if row % 2 or not every:
            found.append(())
        elif row % 4 and number in guides:
            found.append(guides[number])
        else:
            found.append(draws.choice(every))
    return found


def _best(path: Sequence[StateNode], actions: Sequence[int]) -> tuple[float, tuple[int, ...]]:
    """The share of the fastest tree of an episode, and the actions up to it."""
    at = max(range(len(path)), key=lambda k: path[k].share)
    return path[at].share, tuple(actions[:at])


def n_step(
    path: Sequence[StateNode], actions: Sequence[int], most: int, steps: int, price: float
) -> Transitions:
    """Transitions over up to `steps` actions of one whole episode of states that are priced.

    An episode is worth its fastest state, so whatever was reached after an action is a lower bound
    of the action's value: times are deterministic here. `floors` has the best of these bounds.
    """
    count = len(actions)
    shares = np.array([node.share for node in path[1:]])
    floors = np.empty(count, np.float32)
    best = -np.inf
    for at in range(count - 1, -1, -1):
        best = max(float(shares[at]), best) - price
        floors[at] = best
    seen = seen_by(path[:-1], range(count), most).astype(np.float16)
    later = np.arange(count) + steps
    is_over = later >= count
    after = np.minimum(later, count - 1)
    return Transitions(
        seen,
        np.array(actions, np.int64),
        floors,
        seen[after],
        np.stack([path[at].allowed for at in after]),
        np.where(is_over, np.inf, price * steps).astype(np.float32),
    )


def _joined(parts: Sequence[Transitions]) -> Transitions:
    names = ("seen", "actions", "floors", "after", "masks", "prices")
    return Transitions(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def greedy_shares(graph: StateGraph, network: Network, numbers: Sequence[int]) -> list[float]:
    """Of some trees of a space, log2 of the share of the peak that the policy's path reaches."""
    space = graph.space
    trees = space.trees()
    paths = [[graph.node(space.start(trees[k], graph.machine), k)] for k in numbers]
    met = [{id(path[0])} for path in paths]
    running = list(range(len(paths)))
    for step in range(space.steps):
        if not running:
            break
        here = [paths[row][-1] for row in running]
        values = outputs(network, policy_inputs(seen_by(here, [step] * len(here), space.steps)))
        goes_on = []
        for node, row, own in zip(here, running, values, strict=True):
            for action in np.argsort(-np.where(node.allowed, own, -np.inf)):
                if not node.allowed[action] or space.actions[action] == "stop":
                    break
                following = graph.follow(node, int(action))
                if id(following) not in met[row]:
                    met[row].add(id(following))
                    paths[row].append(following)
                    goes_on.append(row)
                    break
        running = goes_on
    graph.price(node for path in paths for node in path)
    return [max(node.share for node in path) for path in paths]
