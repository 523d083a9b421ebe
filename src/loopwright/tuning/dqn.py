"""Double DQN with n-step returns and prioritised replay, in NumPy.

    target(s, a) = R_n + discount^n * Q_old(s', argmax over possible a' of Q(s', a'))

where R_n are the discounted rewards of n steps and Q_old is the network of some updates ago
(van Hasselt and others, arXiv 1509.06461; Schaul and others, arXiv 1511.05952). Actors and learner
work in rounds: while actors play with the network of the round before, the learner updates it on
what is known, so a round's result does not depend on who is faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.network import Adam, Floats, Network, gradients, new_network, outputs
from loopwright.tuning.replay import Replay, Transitions

__all__ = ["Learner", "LearnerSettings"]


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """Numbers of a learner."""

    hidden: tuple[int, ...] = (192, 128)
    rate: float = 4e-4
    discount: float = 0.98
    steps: int = 3  # of returns
    batch: int = 128
    capacity: int = 40_000
    alpha: float = 0.6  # of priorities; 0: all transitions are drawn alike
    beta: float = 0.4  # of the weights against its bias, at the beginning; 1 at the end
    double: bool = True
    sync: int = 300  # updates after which the old network is replaced
    warm: int = 3000  # transitions before the first update


class Learner:
    """A network of values and how it is updated."""

    def __init__(
        self, numbers: int, actions: int, settings: LearnerSettings | None = None, seed: int = 0
    ) -> None:
        self.settings = settings or LearnerSettings()
        self.random = np.random.default_rng(seed)
        self.network = new_network((numbers, *self.settings.hidden, actions), self.random)
        self.old = self.network
        self.adam = Adam(self.settings.rate)
        self.replay = Replay(self.settings.capacity, numbers, actions, self.settings.alpha)

    def add(self, rows: Transitions) -> None:
        """Keep transitions."""
        self.replay.add(rows)

    def learn(self, updates: int, progress: float) -> float:
        """Update the network; `progress`, from 0 to 1, is how far the training has come.

        Returns the mean absolute error of the values; nan while too little is known.
        """
        if self.replay.count < self.settings.warm:
            return float("nan")
        self.adam.rate = self.settings.rate * (1 - 0.9 * min(progress, 1.0))
        beta = self.settings.beta + (1 - self.settings.beta) * min(progress, 1.0)
        total = 0.0
        for _ in range(updates):
            places, rows, weights = self.replay.draw(self.settings.batch, beta, self.random)
            errors = self._update(rows, weights)
            self.replay.tell(places, errors)
            total += float(np.abs(errors).mean())
            if self.adam.count % self.settings.sync == 0:
                self.old = self.network
        return total / max(updates, 1)

    def _update(self, rows: Transitions, weights: Floats) -> Floats:
        values = outputs(self.network, rows.seen)
        at = np.arange(len(rows)), rows.actions
        errors: Floats = (values[at] - self._targets(rows)).astype(np.float32)
        slopes = np.zeros_like(values)
        slopes[at] = np.clip(errors, -1, 1) * weights / len(rows)  # Huber's loss
        self.network = self.adam.step(self.network, gradients(self.network, rows.seen, slopes))
        return errors

    def _targets(self, rows: Transitions) -> Floats:
        old = outputs(self.old, rows.after)
        judged = outputs(self.network, rows.after) if self.settings.double else old
        best = np.where(rows.masks, judged, -np.inf).argmax(axis=1)
        later = np.where(rows.discounts > 0, old[np.arange(len(rows)), best], 0)
        found: Floats = rows.returns + rows.discounts * later
        return found

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: networks and moments. Replay fills again in a few rounds."""
        first, second = self.adam.state
        groups = {"q": self.network, "o": self.old, "f": first, "s": second}
        found = {f"{k}{at}": x for k, group in groups.items() for at, x in enumerate(group)}
        return found | {"updates": np.array(self.adam.count)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""

        def group(letter: str) -> Network:
            return tuple(state[f"{letter}{at}"] for at in range(len(self.network)))

        self.network, self.old = group("q"), group("o")
        if "f0" in state:
            self.adam.restore(int(state["updates"]), group("f"), group("s"))
