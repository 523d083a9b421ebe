"""Evolutionary search over loop trees: a cost model ranks thousands, few of them are measured.

An individual is a sequence of actions; words that are refused where they stand are passed over, so
every sequence means a tree. Generations mutate and cross the fittest, by measured time where there
is one and else by prediction. Every few generations the best predicted trees that were not measured
yet are measured, besides one drawn at random: a model that is wrong in one place does not hide what
is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from random import Random

from loopwright.faults import FAULTS
from loopwright.tuning.actions import done, refusal
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.searches import Finding, SearchRun, TreeState
from loopwright.tuning.tree_evaluator import Evaluate, tree_key

__all__ = ["evolutionary_search"]

_POPULATION = 32
_ELITE = 16  # individuals that others descend from
_CHILDREN = 32  # of a generation
_GENERATIONS = 2  # by prediction alone, between measurements
_MEASURED = 8  # trees at a time
_STRANGERS = 4  # one child of so many descends from nobody
_MOST_IDLE = 3  # times in a row that nothing new is measured, after which the search ends


def evolutionary_search(
    run: SearchRun,
    start: LoopTree,
    actions: Sequence[str],
    steps: int,
    *,
    predict: Evaluate,
    seed: int = 0,
) -> Finding:
    """Measure the trees that `predict` takes for the fastest, generation after generation.

    `predict` gives seconds, or any number that grows with them; it costs no measurements.
    """
    words = [a for a in actions if a not in ("undo", "stop")]
    evolution = _Evolution(run, start, words, steps, predict, Random(seed))
    return run.finding(evolution.walk, start)


class _Evolution:
    """The state of one search."""

    def __init__(
        self,
        run: SearchRun,
        start: LoopTree,
        words: list[str],
        steps: int,
        predict: Evaluate,
        random: Random,
    ) -> None:
        self.run, self.start, self.steps = run, start, steps
        names = dict.fromkeys(word.partition("_")[0] for word in words)
        self.groups = [[w for w in words if w.partition("_")[0] == name] for name in names]
        self.predict, self.random = predict, random
        self.fitness: dict[object, float] = {}

    def walk(self, first: TreeState) -> None:
        people = {tree_key(first.tree): first}
        for _ in range(_POPULATION - 1):
            self._born(people, self._drawn())
        idle = 0
        while idle < _MOST_IDLE:
            before = self.run.measurements
            self._measure(list(people.values()))
            for _ in range(_GENERATIONS):
                elite = sorted(people.values(), key=self._rank)[:_ELITE]
                people = {tree_key(state.tree): state for state in elite}
                for number in range(_CHILDREN):
                    is_new = number % _STRANGERS == 0
                    self._born(people, self._drawn() if is_new else self._child(elite))
            idle = 0 if self.run.measurements > before else idle + 1

    def _measure(self, people: list[TreeState]) -> None:
        unknown = [state for state in people if not self.run.is_known(state.tree)]
        unknown.sort(key=self._rank)
        chosen = unknown[: _MEASURED - 1]
        if len(unknown) > len(chosen):
            chosen.append(self.random.choice(unknown[len(chosen) :]))
        for state in chosen:
            self.run.seconds_of(state)

    def _rank(self, state: TreeState) -> float:
        """The measured time where there is one, else the predicted one."""
        if self.run.is_known(state.tree):
            return self.run.seconds_of(state)
        key = tree_key(state.tree)
        if key not in self.fitness:
            self.run.check()
            try:
                found = float(self.predict(state.tree))
            except FAULTS:
                found = inf
            self.fitness[key] = found if isfinite(found) else inf
        return self.fitness[key]

    def _drawn(self) -> list[str]:
        """Words drawn at random; more than the path takes, because some will be refused."""
        return [self._word() for _ in range(2 * self.steps)]

    def _word(self) -> str:
        """A word of a group that is drawn first: there are more splits than all others."""
        return self.random.choice(self.groups[self.random.randrange(len(self.groups))])

    def _child(self, elite: list[TreeState]) -> list[str]:
        """The words of a parent with one changed, added or left out; or the halves of two."""
        random = self.random
        words = list(random.choice(elite).path)
        kind = random.randrange(4)
        at = random.randint(0, len(words))
        if kind == 0:
            other = random.choice(elite).path
            return [*words[:at], *other[random.randint(0, len(other)) :]]
        if kind == 1 and words:
            del words[min(at, len(words) - 1)]
        elif kind == 2 and words:
            words[min(at, len(words) - 1)] = self._word()
        else:
            words[at:at] = [self._word() for _ in range(random.randint(1, 2))]
        return words

    def _born(self, people: dict[object, TreeState], words: Sequence[str]) -> None:
        """The tree that words lead to, where they are not refused."""
        self.run.check()
        tree = self.start
        path: list[str] = []
        for word in words:
            if len(path) == self.steps:
                break
            if refusal(tree, word) is None:
                tree = done(tree, word)
                path.append(word)
        people.setdefault(tree_key(tree), TreeState(tree, tuple(path)))
