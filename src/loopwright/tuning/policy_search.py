"""A search that the policy leads: what its beam takes for the fastest is measured first.

The policy's beam meets some hundred trees and prices them by the model, in a few hundredths of a
second; the cheapest of them with different code are measured in that order. From the ninth on,
every second measurement goes to a neighbour of the fastest tree so far, one whose actions differ in
one word: what the model ranks too low lies near what it ranks well. Then come neighbours of the
next fastest, and so on.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from math import inf, isfinite

import numpy as np

from loopwright.ir.machine import Machine
from loopwright.tuning.actions import done, refusal
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.policy import Policy
from loopwright.tuning.searches import Finding, SearchRun, TreeState
from loopwright.tuning.tree_evaluator import code_key

__all__ = ["policy_search"]

_ALONE = 8  # trees of the beam that are measured before any neighbour


def policy_search(
    run: SearchRun, tree: LoopTree, policy: Policy, machine: Machine, *, width: int = 4
) -> Finding:
    """Measure the policy's trees and their neighbours until the budget is used up.

    The start is that of the policy's space; paths have at most as many actions as its episodes.
    """
    return run.finding(
        _LedSearch(run, tree, policy, machine, width).walk, policy.space.start(tree, machine)
    )


class _LedSearch:
    """The state of one search."""

    def __init__(
        self, run: SearchRun, tree: LoopTree, policy: Policy, machine: Machine, width: int
    ) -> None:
        self.run, self.tree, self.policy = run, tree, policy
        self.machine, self.width = machine, width
        self.codes: set[object] = set()  # of trees that were measured
        self.measured: list[tuple[float, int, TreeState]] = []  # not expanded yet, as a heap

    def walk(self, first: TreeState) -> None:
        """Measure trees of the beam, then neighbours of the fastest in turn with them."""
        self._measure(first)
        beam = iter(self.policy.ranked(self.tree, self.machine, width=self.width))
        for _, state in zip(range(_ALONE), beam, strict=False):
            self._measure(state)
        around: Iterator[TreeState] = iter(())
        centre = inf
        while True:
            # A faster one becomes the centre at once, any other when nothing is left around this.
            if self.measured and self.measured[0][0] < centre:
                around, centre = self._around_best(first.tree)
            is_beam = self._next(beam)
            if not self._next(around) and not is_beam:
                if not self.measured:
                    return
                around, centre = self._around_best(first.tree)

    def _around_best(self, start: LoopTree) -> tuple[Iterator[TreeState], float]:
        seconds, _, state = heapq.heappop(self.measured)
        return iter(self._neighbours(start, state)), seconds

    def _next(self, states: Iterator[TreeState]) -> bool:
        """Measure the next state with code that is new; False: there is none."""
        return any(self._measure(state) for state in states)

    def _measure(self, state: TreeState) -> bool:
        """Measure a state unless its code is known; whether it was measured."""
        code = code_key(state.tree, self.machine)
        if code in self.codes:
            return False
        self.codes.add(code)
        seconds = self.run.seconds_of(state)
        if isfinite(seconds):
            heapq.heappush(self.measured, (seconds, len(self.codes), state))
        return True

    def _neighbours(self, start: LoopTree, state: TreeState) -> list[TreeState]:
        """Trees whose actions differ from a state's in one that is changed, added or left out.

        Those with the same code count once; the model ranks them. Actions that are refused where
        they stand are passed over.
        """
        words = [word for word in self.policy.space.actions if word not in ("undo", "stop")]
        codes: dict[object, TreeState] = {}
        for at in range(len(state.path) + 1):
            head, tail = state.path[:at], state.path[at:]
            lists = [(*head, *tail[1:]), *((*head, word, *tail[1:]) for word in words)]
            lists += [(*head, word, *tail) for word in words]
            self.run.check()
            for actions in lists:
                found = self._reached(start, actions)
                codes.setdefault(code_key(found.tree, self.machine), found)
        new = [found for code, found in codes.items() if code not in self.codes]
        if not new:
            return []
        times = self.policy.price(self.machine)([found.tree for found in new])
        return [new[at] for at in np.argsort(times, kind="stable")]

    def _reached(self, start: LoopTree, actions: tuple[str, ...]) -> TreeState:
        space = self.policy.space
        tree = start
        path: list[str] = []
        for word in actions:
            is_full = word.startswith("split") and tree.count >= space.most_loops
            if len(path) < space.steps and not is_full and refusal(tree, word) is None:
                tree = done(tree, word)
                path.append(word)
        return TreeState(tree, tuple(path))
