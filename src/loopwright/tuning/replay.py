"""Prioritised replay: transitions are drawn in proportion to a power of their last error.

Sums of priorities stand in a binary tree, so a batch is drawn and its priorities changed in
log2(capacity) steps of NumPy (Schaul and others, arXiv 1511.05952).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.network import Floats

__all__ = ["Replay", "SumTree", "Transitions"]

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Transitions:
    """Rows of n-step transitions; observations in half precision."""

    seen: Any  # float16, (rows, numbers)
    actions: Integers
    floors: Floats  # what the action is worth at least: the best that its episode reached
    after: Any  # float16, (rows, numbers): n actions later
    masks: Any  # bool, (rows, actions): possible afterwards
    prices: Floats  # taken from the value afterwards; inf at the end of an episode

    def __len__(self) -> int:
        return len(self.actions)


class SumTree:
    """Weights of places, drawn in proportion."""

    def __init__(self, capacity: int) -> None:
        self._depth = max(1, (capacity - 1).bit_length())
        self._sums = np.zeros(2 << self._depth)
        self._first = 1 << self._depth

    @property
    def total(self) -> float:
        return float(self._sums[1])

    def weights(self, places: Integers) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.asarray(self._sums[places + self._first])

    def change(self, places: Integers, weights: Any) -> None:
        """Give places other weights; of one that comes twice the last counts."""
        nodes = places + self._first
        self._sums[nodes] = weights
        for _ in range(self._depth):
            nodes = np.unique(nodes >> 1)
            self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]

    def draw(self, shares: Any) -> Integers:
        """The places at which the running sum of weights reaches shares of the total."""
        rest = np.asarray(shares, np.float64) * self._sums[1]
        nodes = np.ones(len(rest), np.int64)
        for _ in range(self._depth):
            left = self._sums[2 * nodes]
            # Rounding may lead to an empty place at the end: the left side has something then.
            goes_right = (rest >= left) & (self._sums[2 * nodes + 1] > 0)
            rest = rest - np.where(goes_right, left, 0)
            nodes = 2 * nodes + goes_right
        return nodes - self._first


class Replay:
    """The latest `capacity` transitions; `alpha` 0 draws them all alike."""

    def __init__(self, capacity: int, numbers: int, actions: int, alpha: float = 0.6) -> None:
        self.capacity, self.alpha = capacity, alpha
        self._kept = Transitions(
            np.zeros((capacity, numbers), np.float16),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.float32),
            np.zeros((capacity, numbers), np.float16),
            np.zeros((capacity, actions), bool),
            np.zeros(capacity, np.float32),
        )
        self._tree = SumTree(capacity)
        self._next = self.count = 0
        self._most = 1.0  # priority of what was never drawn: it comes soon

    def add(self, rows: Transitions) -> None:
        """Keep rows, over the oldest where there is no room."""
        places = (self._next + np.arange(len(rows))) % self.capacity
        for name in ("seen", "actions", "floors", "after", "masks", "prices"):
            getattr(self._kept, name)[places] = getattr(rows, name)
        self._tree.change(places, self._most)
        self._next = int((self._next + len(rows)) % self.capacity)
        self.count = min(self.capacity, self.count + len(rows))

    def draw(
        self, size: int, beta: float, random: np.random.Generator
    ) -> tuple[Integers, Transitions, Floats]:
        """Places, rows, and the weights that undo the bias of drawing them unevenly."""
        shares = (np.arange(size) + random.random(size)) / size
        places = np.minimum(self._tree.draw(shares), self.count - 1)
        chance = self._tree.weights(places) / self._tree.total
        weights = (self.count * np.maximum(chance, 1e-12)) ** -beta
        kept = self._kept
        rows = Transitions(
            kept.seen[places].astype(np.float32),
            kept.actions[places],
            kept.floors[places],
            kept.after[places].astype(np.float32),
            kept.masks[places],
            kept.prices[places],
        )
        return places, rows, (weights / weights.max()).astype(np.float32)

    def tell(self, places: Integers, errors: Floats) -> None:
        """Set priorities by errors."""
        if self.alpha:
            priorities = (np.abs(errors) + 1e-3) ** self.alpha
            self._most = max(self._most, float(priorities.max()))
            self._tree.change(places, priorities)
