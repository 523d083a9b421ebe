"""The states that actors have met, as a graph: what each shows, allows, costs and leads to.

Episodes of a policy meet the same states again and again. A state that is known costs a look into a
dictionary of its predecessor; a new one is observed and priced once. The states of one step are
priced together, because a learned cost takes as long for one tree as for many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, isfinite, log2
from typing import Any, TypeAlias

import numpy as np

from loopwright.ir.machine import Machine
from loopwright.tuning.actions import Session, done
from loopwright.tuning.environment import Episode, GeneralRules
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.policy_space import PolicySpace
from loopwright.tuning.tree_facts import bound_seconds
from loopwright.tuning.tree_observation import Floats

__all__ = ["PriceTrees", "StateGraph", "StateNode", "seen_by"]

# Seconds of several trees.
PriceTrees: TypeAlias = Callable[[Sequence[LoopTree]], Any]

_MOST_STATES = 60_000  # about 200 MB
_LEAST_SHARE = -20.0  # log2: of a tree that cannot be run
_LEFT, _IS_CHANGED = -7, -3  # numbers of an observation that the episode decides


class StateNode:
    """A state: a tree with its cursor."""

    __slots__ = ("after", "allowed", "root", "seen", "share", "tree")

    def __init__(self, tree: LoopTree, root: RootState, seen: Any, allowed: Any) -> None:
        self.tree, self.root, self.seen, self.allowed = tree, root, seen, allowed
        self.share = inf  # log2 of the share of the peak; inf: not priced yet
        self.after: dict[int, StateNode] = {}


class RootState:
    """A program: what is common to all of its states."""

    __slots__ = ("bound", "shares", "states")

    def __init__(self, bound: float) -> None:
        self.bound = bound
        self.states: dict[object, StateNode] = {}
        self.shares: dict[object, float] = {}  # by loops, whatever the cursor


class StateGraph:
    """States of one space on one machine, priced by one cost."""

    def __init__(self, space: PolicySpace, machine: Machine, price: PriceTrees) -> None:
        self.space, self.machine = space, machine
        self._price = price
        self.rules: GeneralRules = space.rules(_no_times, machine)
        self._roots: dict[object, RootState] = {}
        self._count = 0

    def node(self, tree: LoopTree, program: object) -> StateNode:
        """The state of a tree; `program` says which one, whatever its loops."""
        if self._count > _MOST_STATES:
            self._roots.clear()
            self._count = 0
        root = self._roots.get(program)
        if root is None:
            root = self._roots[program] = RootState(bound_seconds(tree, self.machine))
        return self._node(tree, root)

    def _node(self, tree: LoopTree, root: RootState) -> StateNode:
        key = _loops(tree), tree.cursor
        found = root.states.get(key)
        if found is None:
            episode = Episode(Session(tree), 1.0, tree, 1.0, 1.0)
            seen = self.rules.observe(episode).astype(np.float16)
            allowed = np.array(self.rules.mask(episode), bool)
            found = root.states[key] = StateNode(tree, root, seen, allowed)
            self._count += 1
        return found

    def follow(self, node: StateNode, action: int) -> StateNode:
        """The state after an action that is allowed; after `stop`, the same one."""
        found = node.after.get(action)
        if found is None:
            word = self.space.actions[action]
            found = node if word == "stop" else self._node(done(node.tree, word), node.root)
            node.after[action] = found
        return found

    def price(self, nodes: Iterable[StateNode]) -> None:
        """Find the shares of all states that have none yet."""
        wanted: dict[tuple[int, object], list[StateNode]] = {}
        for node in nodes:
            if node.share != inf:
                continue
            loops = _loops(node.tree)
            known = node.root.shares.get(loops)
            if known is None:
                wanted.setdefault((id(node.root), loops), []).append(node)
            else:
                node.share = known
        if not wanted:
            return
        firsts = [same[0] for same in wanted.values()]
        seconds = self._price([node.tree for node in firsts])
        for (_, loops), same, taken in zip(wanted, wanted.values(), seconds, strict=True):
            root = same[0].root
            is_time = isfinite(taken) and taken > 0
            share = max(_LEAST_SHARE, log2(root.bound / taken)) if is_time else _LEAST_SHARE
            root.shares[loops] = share
            for node in same:
                node.share = share


def seen_by(nodes: Sequence[StateNode], steps: Sequence[int], most: int) -> Floats:
    """Observations of states that episodes reach after `steps` of `most` actions."""
    seen: Floats = np.stack([node.seen for node in nodes]).astype(np.float32)
    taken = np.asarray(steps, np.float32)
    seen[:, _LEFT] = (most - taken) / most
    seen[:, _IS_CHANGED] = taken > 0
    return seen


def _loops(tree: LoopTree) -> object:
    return tuple([(nest.loops, nest.accumulators) for nest in tree.nests])


def _no_times(tree: LoopTree) -> float:
    return 1.0
