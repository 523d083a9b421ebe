"""Environments: episodes of actions on a loop tree, rewarded by how much faster it became.

Rules are pure: an Episode is immutable, and `advance` gives the one after an action. So searches
and vectorised environments share them, and states may be kept. TuningEnvironment holds one episode
and has the signatures of gymnasium's `reset` and `step` without needing it.

    LoopTuneRules    the paper's: 7 actions, 10 steps, change of GFLOPS over the peak; an action
                     that is not possible does nothing; returning by cursor moves is the stop
    GeneralRules     all actions, masked; the reward is log2 of old time over new time, so a return
                     is log2 of the speed-up over the start
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, log2
from random import Random
from typing import Any, Protocol

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.actions import (
    ACTIONS,
    LOOPTUNE_ACTIONS,
    MOST_LOOPS,
    Session,
    done,
    refusal,
    tree_after,
)
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.tree_construction import constructed_tree
from loopwright.tuning.tree_evaluator import Evaluate
from loopwright.tuning.tree_facts import bound_seconds
from loopwright.tuning.tree_observation import (
    LOOPTUNE_LOOPS,
    LOOPTUNE_NUMBERS,
    OBSERVED,
    Floats,
    Strides,
    looptune_observation,
    tree_observation,
)

__all__ = [
    "STARTS",
    "Advance",
    "Episode",
    "EpisodeRules",
    "GeneralRules",
    "LoopTuneRules",
    "TuningEnvironment",
    "after_random_actions",
    "start_tree",
]

# Where an episode begins: the tree as given, the constructed one, or after random actions.
STARTS = ("naive", "constructed", "random")

_MOST_LOG = 20.0  # of a reward: a tree that cannot be run takes for ever


@dataclass(frozen=True, slots=True)
class Episode:
    """A walk so far: where it stands, and the fastest tree on its way."""

    session: Session
    seconds: float  # of the tree it stands on
    best: LoopTree
    best_seconds: float
    start_seconds: float
    steps: int = 0  # actions taken, those that did nothing among them

    @property
    def tree(self) -> LoopTree:
        return self.session.tree


@dataclass(frozen=True, slots=True)
class Advance:
    """What an action leads to."""

    episode: Episode
    reward: float
    is_over: bool  # stopped: nothing can follow
    is_cut: bool  # the steps are used up


class EpisodeRules(Protocol):
    """What may be done, what is seen, and what it is worth."""

    @property
    def actions(self) -> tuple[str, ...]: ...

    @property
    def size(self) -> int:
        """Numbers of an observation."""

    @property
    def steps(self) -> int:
        """Actions of an episode."""

    def begin(self, tree: LoopTree) -> Episode: ...

    def mask(self, episode: Episode) -> list[bool]: ...

    def advance(self, episode: Episode, action: int) -> Advance: ...

    def observe(self, episode: Episode) -> Floats: ...


def _moved_to(episode: Episode, session: Session, seconds: float) -> Episode:
    steps = episode.steps + 1
    if seconds < episode.best_seconds:
        best = session.tree, seconds
    else:
        best = episode.best, episode.best_seconds
    return Episode(session, seconds, *best, episode.start_seconds, steps)


def _after(session: Session, word: str) -> Session:
    """The session after an action that is known to be possible."""
    if word == "undo":
        return session.act(word)
    changed = done(session.tree, word)
    return Session(changed, (*session.past, session.tree), (*session.actions, word))


def _begun(tree: LoopTree, seconds: float) -> Episode:
    return Episode(Session(tree), seconds, tree, seconds, seconds)


# -- LoopTune -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoopTuneRules:
    """The environment of LoopTune.

    The reward of an action is the change of operations per second over the `peak`. An action that
    is refused, makes more than 10 loops, or (in the manner of its code) leaves an innermost loop
    of the summing nest that is neither 1 nor a multiple of `multiple`, does nothing. An episode
    ends after 10 actions, or when two cursor moves in turn come back to where they began: from
    there an agent without memory goes to and fro for ever.
    """

    evaluate: Evaluate
    peak: float  # operations per second
    strides: Strides = Strides.COUNTS
    multiple: int = 1  # 8 in LoopTune's code, which has no masks on some machines
    steps: int = 10
    stops: bool = True  # cursor moves to and fro end an episode
    actions: tuple[str, ...] = LOOPTUNE_ACTIONS

    @property
    def size(self) -> int:
        return LOOPTUNE_LOOPS * LOOPTUNE_NUMBERS

    def begin(self, tree: LoopTree) -> Episode:
        if tree.count > LOOPTUNE_LOOPS:
            raise UsageError(
                f"the tree has {tree.count} loops", hint=f"an observation has {LOOPTUNE_LOOPS}"
            )
        return _begun(tree.at(0), self.evaluate(tree))

    def mask(self, episode: Episode) -> list[bool]:
        tree = episode.tree
        if self.multiple == 1:
            return [not self._is_refused(tree, word) for word in self.actions]
        return [self._next(tree, word) is not None for word in self.actions]

    def advance(self, episode: Episode, action: int) -> Advance:
        word = self.actions[action]
        tree = self._next(episode.tree, word)
        steps = episode.steps + 1
        if tree is None:
            stayed = replace(episode, steps=steps)
            return Advance(stayed, 0.0, False, steps >= self.steps)
        session = episode.session
        is_back = self.stops and bool(session.past) and tree == session.past[-1]
        moved = _after(session, word)
        is_over = is_back and {word, session.actions[-1]} == {"up", "down"}
        seconds = episode.seconds if word in ("up", "down") else self.evaluate(tree)
        work = tree.operations / self.peak
        reward = work / seconds - work / episode.seconds
        after = _moved_to(episode, moved, seconds)
        return Advance(after, reward, is_over, not is_over and steps >= self.steps)

    def observe(self, episode: Episode) -> Floats:
        return looptune_observation(episode.tree, self.strides)

    def _next(self, tree: LoopTree, word: str) -> LoopTree | None:
        if self._is_refused(tree, word):
            return None
        changed = done(tree, word)
        return changed if self._is_vectorisable(changed) else None

    def _is_refused(self, tree: LoopTree, word: str) -> bool:
        if word.startswith("split_") and tree.count >= LOOPTUNE_LOOPS:
            return True
        return refusal(tree, word) is not None

    def _is_vectorisable(self, tree: LoopTree) -> bool:
        if self.multiple == 1:
            return True
        inner = (nest.loops[-1].size for nest in tree.nests if nest.statement.plus is not None)
        return all(size == 1 or size % self.multiple == 0 for size in inner)


# -- general --------------------------------------------------------------------------------------

# Phases: loops are shaped, then operands packed, then loops marked. Which one a tree is in can be
# seen from it, so a mask depends on the tree alone.
_PHASES = {"split": 0, "swap": 0, "merge": 0, "pack": 1}  # the last of each kind; others: 2


def phase_of(tree: LoopTree) -> int:
    """0 while loops may be shaped, 1 once an operand is packed, 2 once a loop is marked."""
    loops = [loop for nest in tree.nests for loop in nest.loops]
    is_marked = any(x.mark is not Mark.SERIAL for x in loops)
    if is_marked or any(nest.accumulators for nest in tree.nests):
        return 2
    return 1 if any(loop.packs for loop in loops) else 0


@dataclass(frozen=True, slots=True)
class GeneralRules:
    """All actions, with a mask; the reward of an action is log2 of old time over new time.

    With `phases`, loops are shaped first, then operands packed, then loops marked: orders of
    actions that lead to the same tree are fewer. `parallel` is possible with several threads only.
    """

    evaluate: Evaluate
    machine: Machine
    threads: int = 1
    steps: int = 24
    phases: bool = True
    actions: tuple[str, ...] = ACTIONS
    price: float = 0.0  # taken from the reward of every action but stop: shorter ways are better
    most_loops: int = MOST_LOOPS
    shows_times: bool = True  # observations have times; without, a policy needs none of them

    @property
    def size(self) -> int:
        return OBSERVED

    def begin(self, tree: LoopTree) -> Episode:
        return _begun(tree, self.evaluate(tree))

    def mask(self, episode: Episode) -> list[bool]:
        tree = episode.tree
        phase = phase_of(tree) if self.phases else 0
        return [self._allows(episode, tree, phase, word) for word in self.actions]

    def allows(self, episode: Episode, word: str) -> bool:
        """Whether an action is possible."""
        phase = phase_of(episode.tree) if self.phases else 0
        return self._allows(episode, episode.tree, phase, word)

    def following(self, episode: Episode, word: str) -> LoopTree | None:
        """The tree after an action other than undo and stop; None where it is not possible."""
        tree = episode.tree
        phase = phase_of(tree) if self.phases else 0
        return tree_after(tree, word) if self._is_in_turn(tree, phase, word) else None

    def _allows(self, episode: Episode, tree: LoopTree, phase: int, word: str) -> bool:
        if word == "undo":
            return bool(episode.session.past)
        return self._is_in_turn(tree, phase, word) and refusal(tree, word) is None

    def _is_in_turn(self, tree: LoopTree, phase: int, word: str) -> bool:
        """Whether these rules have nothing against an action, whatever the tree says."""
        kind = word.partition("_")[0]
        if kind == "parallel" and self.threads == 1:
            return False
        if kind == "accumulate" and tree.nest.accumulators == int(word.partition("_")[2]):
            return False
        if kind == "split" and tree.count >= self.most_loops:
            return False
        return not (self.phases and phase > _PHASES.get(kind, 2))

    def advance(self, episode: Episode, action: int) -> Advance:
        """The episode after an action; one that the mask forbids does nothing and costs 1."""
        word = self.actions[action]
        steps = episode.steps + 1
        if not self.allows(episode, word):
            return Advance(replace(episode, steps=steps), -1.0, False, steps >= self.steps)
        if word == "stop":
            stopped = _moved_to(episode, episode.session.act(word), episode.seconds)
            return Advance(stopped, 0.0, True, False)
        session = _after(episode.session, word)
        seconds = episode.seconds if word in ("up", "down") else self.evaluate(session.tree)
        after = _moved_to(episode, session, seconds)
        reward = _log_ratio(episode.seconds, seconds) - self.price
        return Advance(after, reward, False, steps >= self.steps)

    def observe(self, episode: Episode) -> Floats:
        """`tree_observation`, and of the episode: log2 of the time over the roofline bound, steps
        left, log2 of the best, of the last and of the first time over this one, the phase.
        """
        tree = episode.tree
        seen = tree_observation(tree, self.machine, self.threads)
        past = episode.session.past
        phase = (phase_of(tree) if self.phases else 0) / 2
        left = (self.steps - episode.steps) / self.steps
        if not self.shows_times:
            seen[-8:] = 0, left, 0, 0, 0, bool(past), phase, 1
            return seen
        before = self.evaluate(past[-1]) if past else episode.seconds
        bound = bound_seconds(tree, self.machine, self.threads)
        seen[-8:] = (
            _log_ratio(episode.seconds, bound) / 4,
            left,
            _log_ratio(episode.best_seconds, episode.seconds) / 4,
            _log_ratio(before, episode.seconds) / 4,
            _log_ratio(episode.start_seconds, episode.seconds) / 4,
            float(bool(past)),
            phase,
            1.0,
        )
        return seen


def _log_ratio(first: float, second: float) -> float:
    """log2(first / second), bounded: a tree that cannot be run has the time inf."""
    if first == second:
        return 0.0
    if first == inf or second == 0:
        return _MOST_LOG
    if second == inf or first == 0:
        return -_MOST_LOG
    return max(-_MOST_LOG, min(_MOST_LOG, log2(first / second)))


# -- starts and single environments ---------------------------------------------------------------


def after_random_actions(
    tree: LoopTree, rules: EpisodeRules, random: Random, most: int = 8
) -> LoopTree:
    """The tree after up to `most` possible actions, drawn by their kinds first; cursor on top."""
    episode = Episode(Session(tree), 1.0, tree, 1.0, 1.0)
    for _ in range(random.randrange(most + 1)):
        possible = [
            word
            for word, can in zip(rules.actions, rules.mask(episode), strict=True)
            if can and word not in ("undo", "stop")
        ]
        kinds = sorted({word.partition("_")[0] for word in possible})
        if not kinds:
            break
        kind = random.choice(kinds)
        word = random.choice([w for w in possible if w.partition("_")[0] == kind])
        episode = replace(episode, session=Session(episode.session.act(word).tree))
    return episode.tree.at(0)


def start_tree(
    tree: LoopTree, start: str, rules: EpisodeRules, machine: Machine, random: Random
) -> LoopTree:
    """The tree that an episode begins with, by one of STARTS."""
    match start:
        case "naive":
            return tree
        case "constructed":
            return constructed_tree(tree, machine)
        case "random":
            return after_random_actions(tree, rules, random)
    raise UsageError("unknown start", found=repr(start)[:60], hint=", ".join(STARTS))


class TuningEnvironment:
    """One episode at a time, over trees that are drawn at random.

    `reset` and `step` are those of gymnasium; `info` has the mask, seconds and the text of actions.
    """

    def __init__(
        self,
        rules: EpisodeRules,
        trees: Sequence[LoopTree],
        machine: Machine,
        *,
        starts: Sequence[str] = ("naive",),
    ) -> None:
        if not trees:
            raise UsageError("an environment needs a tree")
        unknown = [start for start in starts if start not in STARTS]
        if unknown or not starts:
            raise UsageError("unknown start", found=repr(unknown)[:60], hint=", ".join(STARTS))
        self.rules, self.trees, self.machine = rules, tuple(trees), machine
        self.starts = tuple(starts)
        self._random = Random(0)
        self._episode: Episode | None = None

    @property
    def episode(self) -> Episode:
        """The episode; raises UsageError before the first reset."""
        if self._episode is None:
            raise UsageError("the environment was not reset")
        return self._episode

    def reset(
        self, seed: int | None = None, tree: LoopTree | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Begin an episode on `tree`, else on one that is drawn."""
        if seed is not None:
            self._random = Random(seed)
        if tree is None:
            drawn = self._random.choice(self.trees)
            start = self._random.choice(self.starts)
            tree = start_tree(drawn, start, self.rules, self.machine, self._random)
        self._episode = self.rules.begin(tree)
        return self.rules.observe(self._episode), self._info()

    def step(self, action: int) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Observation, reward, whether it is over, whether it is cut, and information."""
        if not 0 <= action < len(self.rules.actions):
            raise UsageError("no such action", found=str(action))
        done = self.rules.advance(self.episode, int(action))
        self._episode = done.episode
        seen = self.rules.observe(done.episode)
        return seen, done.reward, done.is_over, done.is_cut, self._info()

    def mask(self) -> np.ndarray[Any, np.dtype[np.int8]]:
        """1 for each action that is possible."""
        return np.array(self.rules.mask(self.episode), np.int8)

    def _info(self) -> dict[str, Any]:
        episode = self.episode
        return {
            "action_mask": self.mask(),
            "seconds": episode.seconds,
            "best_seconds": episode.best_seconds,
        }
