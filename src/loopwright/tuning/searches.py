"""Searches over loop trees: greedy, beams, random walks, exhaustive; what they share.

Every search walks from a start by actions and measures the states it meets. All of them take

    start        the first state; its cursor counts as part of the state, not of its time
    actions      words of `actions`; those that are refused in a state are left out there
    evaluate     seconds of a tree: measured, or predicted
    budget       seconds and measurements, checked before every measurement and every expansion
    steps        actions of a path at most

and return the best state that was measured, with the path to it. Given a deterministic evaluator
and a budget of measurements they are deterministic. A tree without a time (NaN, infinite, not
positive, or an error in the evaluator) is counted and passed over; nothing is expanded from it.

LoopTune's beams ranked candidates by the names of their actions; these rank by time, and of equal
times take the one that was met first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from math import inf, isfinite
from random import Random

from loopwright.diagnostics import LoopwrightError, UsageError
from loopwright.faults import FAULTS
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.tuning.actions import done, refusal
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.tree_evaluator import Evaluate, tree_key

__all__ = [
    "Budget",
    "DepthPoint",
    "Finding",
    "SearchRun",
    "TracePoint",
    "TreeState",
    "beam_search",
    "children",
    "exhaustive_search",
    "greedy_search",
    "random_search",
]

# What an evaluator may end in without ending the search.
_FAILURES = (LoopwrightError, *FAULTS, RuntimeError, OSError)
_MOST_IDLE_WALKS = 200  # walks that meet nothing new, after which a random search ends


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may spend; whichever is used up first ends it."""

    seconds: float = inf
    measurements: float = inf

    def __post_init__(self) -> None:
        if not (self.seconds >= 0 and self.measurements >= 0):
            raise UsageError("a budget is not negative", f"{self.seconds}, {self.measurements}")


@dataclass(frozen=True, slots=True)
class TreeState:
    """A tree and the actions that led to it."""

    tree: LoopTree
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TracePoint:
    """The best at a moment of a search."""

    seconds: float  # since the search began
    measurements: int
    best: float  # seconds of the best state


@dataclass(frozen=True, slots=True)
class DepthPoint:
    """What a search has met after a number of actions."""

    depth: int
    best: float  # seconds of the best state with so many actions
    seconds: float  # since the search began, when the last of them was met


@dataclass(frozen=True, slots=True)
class Finding:
    """What a search has found."""

    tree: LoopTree
    path: tuple[str, ...]  # actions from the start
    seconds: float  # of the tree; infinite where nothing could be measured
    start_seconds: float  # of the start
    trace: tuple[TracePoint, ...]  # each time the best got better, and the end
    measurements: int  # trees that the evaluator was asked about
    failures: int  # of them without a time
    ended_by: str  # "budget", "space" (nothing was left to try) or "interrupt"
    depths: tuple[DepthPoint, ...] = ()  # by number of actions


class SearchRun:
    """The books of one search: times, budget, the best so far, how it came about.

    `times` is a memory that several searches of one program may share; what is found there
    costs no measurement.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        budget: Budget,
        times: MutableMapping[object, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._evaluate, self._budget, self._clock = evaluate, budget, clock
        self._times = {} if times is None else times
        self._begin = clock()
        self._best: TreeState | None = None
        self._best_seconds = inf
        self._trace: list[TracePoint] = []
        self._depths: dict[int, DepthPoint] = {}
        self.measurements = self.failures = 0

    @property
    def spent(self) -> float:
        """Seconds since the search began."""
        return self._clock() - self._begin

    def check(self) -> None:
        """Raise `OutOfBudget` where the time is over."""
        if self.spent >= self._budget.seconds:
            raise OutOfBudget

    def seconds_of(self, state: TreeState) -> float:
        """The time of a state; infinite where it has none."""
        key = tree_key(state.tree)
        found = self._times.get(key)
        if found is None:
            self.check()
            if self.measurements >= self._budget.measurements:
                raise OutOfBudget
            self.measurements += 1
            found = self._times[key] = self._measured(state.tree)
            depth = len(state.path)
            before = self._depths.get(depth)
            best = min(found, before.best) if before else found
            self._depths[depth] = DepthPoint(depth, best, self.spent)
        if found < self._best_seconds:
            self._best, self._best_seconds = state, found
            self._trace.append(TracePoint(self.spent, self.measurements, found))
        return found

    def is_known(self, tree: LoopTree) -> bool:
        return tree_key(tree) in self._times

    def _measured(self, tree: LoopTree) -> float:
        try:
            found = float(self._evaluate(tree))
        except _FAILURES as error:
            reason = f"{type(error).__name__}: {error}"
            log("tune", lambda: f"a tree has no time: {reason}")
            found = inf
        if not isfinite(found) or found <= 0:
            self.failures += 1
            return inf
        return found

    def finding(self, walk: Callable[[TreeState], None], start: LoopTree) -> Finding:
        """What `walk` finds from a start until it returns or the budget is used up."""
        first, ended_by = TreeState(start), "space"
        first_seconds = inf
        try:
            first_seconds = self.seconds_of(first)
            walk(first)
        except OutOfBudget:
            ended_by = "budget"
        except KeyboardInterrupt:
            ended_by = "interrupt"
        best = self._best or first
        trace = (*self._trace, TracePoint(self.spent, self.measurements, self._best_seconds))
        return Finding(
            best.tree,
            best.path,
            self._best_seconds,
            first_seconds,
            trace,
            self.measurements,
            self.failures,
            ended_by,
            tuple(self._depths[depth] for depth in sorted(self._depths)),
        )


class OutOfBudget(Exception):  # noqa: N818
    """The budget of a search is used up; what it has found counts."""


def children(state: TreeState, actions: Sequence[str]) -> Iterator[TreeState]:
    """The states that actions lead to, in the order of the actions."""
    for action in actions:
        if action not in ("undo", "stop") and refusal(state.tree, action) is None:
            yield TreeState(done(state.tree, action), (*state.path, action))


def greedy_search(
    run: SearchRun, start: LoopTree, actions: Sequence[str], steps: int, *, look_ahead: int = 1
) -> Finding:
    """Go to the fastest state within `look_ahead` actions, until none is faster than this one."""

    def walk(state: TreeState) -> None:
        while len(state.path) < steps:
            here = run.seconds_of(state)
            depth = min(look_ahead, steps - len(state.path))
            ahead = list(_within(run, state, actions, depth))
            best = min(ahead, key=run.seconds_of, default=state)
            if run.seconds_of(best) >= here:
                return
            state = best

    return run.finding(walk, start)


def _within(
    run: SearchRun, state: TreeState, actions: Sequence[str], depth: int
) -> Iterator[TreeState]:
    """The states that 1 to `depth` actions lead to, nearer ones first; measured as they are met."""
    level, seen = [state], {state.tree}
    for _ in range(depth):
        following = []
        for parent in level:
            run.check()
            for child in children(parent, actions):
                if child.tree not in seen:
                    seen.add(child.tree)
                    if isfinite(run.seconds_of(child)):
                        following.append(child)
        yield from following
        level = following


def beam_search(
    run: SearchRun,
    start: LoopTree,
    actions: Sequence[str],
    steps: int,
    *,
    width: int,
    is_depth_first: bool = False,
) -> Finding:
    """Expand the `width` fastest states of every step, or of every state and these depth-first.

    Breadth-first, the states that one step leads to are ranked together. Depth-first, each state
    leads to its own fastest ones, and the search goes to the end of a path before it comes back.
    A tree is expanded again only where the path to it has become shorter.
    """
    expanded: dict[LoopTree, int] = {}

    def ranked(parents: Sequence[TreeState]) -> list[TreeState]:
        found: dict[LoopTree, TreeState] = {}
        for parent in parents:
            run.check()
            for child in children(parent, actions):
                if len(child.path) < expanded.get(child.tree, steps + 1):
                    found.setdefault(child.tree, child)
        timed = [(run.seconds_of(state), state) for state in found.values()]
        timed = [pair for pair in timed if isfinite(pair[0])]
        timed.sort(key=lambda pair: pair[0])  # stable: of equals, the first met
        return [state for _, state in timed[:width]]

    def expand(parents: Sequence[TreeState]) -> None:
        for parent in parents:
            expanded[parent.tree] = len(parent.path)

    def broad(first: TreeState) -> None:
        level = [first]
        for _ in range(steps):
            expand(level)
            level = ranked(level)

    def deep(first: TreeState) -> None:
        stack = [first]
        while stack:
            state = stack.pop()
            if len(state.path) < min(steps, expanded.get(state.tree, steps)):
                expand([state])
                stack += reversed(ranked([state]))

    return run.finding(deep if is_depth_first else broad, start)


def random_search(
    run: SearchRun, start: LoopTree, actions: Sequence[str], steps: int, *, seed: int = 0
) -> Finding:
    """Walk at random from the start again and again, and measure every state on the way."""
    random = Random(seed)

    def walk(first: TreeState) -> None:
        idle = 0
        while idle < _MOST_IDLE_WALKS:
            before, state = run.measurements, first
            for _ in range(steps):
                run.check()
                possible = list(children(state, actions))
                if not possible:
                    break
                state = random.choice(possible)
                if not isfinite(run.seconds_of(state)):
                    break
            idle = 0 if run.measurements > before else idle + 1

    return run.finding(walk, start)


def exhaustive_search(
    run: SearchRun, start: LoopTree, actions: Sequence[str], steps: int
) -> Finding:
    """Measure every state within `steps` actions: for small spaces, and to judge the others."""

    def walk(first: TreeState) -> None:
        for _ in _within(run, first, actions, steps):
            pass  # each was measured when it was met

    return run.finding(walk, start)
