"""Double DQN with n-step returns and prioritised replay, in NumPy.

The value of an action is the best that can be reached with it: log2 of the share of the peak, of
the fastest state of the rest of an episode, less a small price for each action. That is the return
of log2(old time / new time) with a stop wherever one likes, shifted by a potential of the state
(Ng, Harada and Russell, 1999), which changes no decision; values are bounded by 0 and differ little
between neighbouring states, where returns differ by octaves.

    target(s, a) = max(floor, min(0, Q_old(s', argmax over possible a' of Q(s', a'))) - price of n)

where s' is the state n actions later, the floor is the best that was reached from (s, a) on (He and
others, arXiv 1611.01606: what happened is a lower bound where nothing is random), and Q_old is the
running mean of the networks so far (Polyak), which is also what actors and policies use (van
Hasselt and others, arXiv 1509.06461; Schaul and others, arXiv 1511.05952). Actors and learner work
in rounds: while actors play with the network of the round before, the learner updates it on what is
known, so a round's result does not depend on who is faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.network import Adam, Floats, Network, gradients, new_network, outputs
from loopwright.tuning.policy_inputs import INPUTS, policy_inputs
from loopwright.tuning.replay import Replay, Transitions
from loopwright.tuning.tree_observation import OBSERVED

__all__ = ["Learner", "LearnerSettings"]

_FIRST_VALUE = -2.0  # of all actions before anything is known: a quarter of the peak


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """Numbers of a learner."""

    hidden: tuple[int, ...] = (192, 128)
    rate: float = 6e-4
    price: float = 0.01  # octaves of an action
    steps: int = 3  # of returns
    batch: int = 128
    capacity: int = 60_000
    alpha: float = 0.6  # of priorities; 0: all transitions are drawn alike
    beta: float = 0.4  # of the weights against its bias, at the beginning; 1 at the end
    double: bool = True
    mean: float = 0.005  # weight of the newest network in the running mean
    warm: int = 3000  # transitions before the first update


class Learner:
    """A network of values and how it is updated."""

    def __init__(
        self, actions: int, settings: LearnerSettings | None = None, seed: int = 0
    ) -> None:
        self.settings = settings or LearnerSettings()
        self.random = np.random.default_rng(seed)
        made = new_network((INPUTS, *self.settings.hidden, actions), self.random)
        self.network: Network = (*made[:-1], made[-1] + np.float32(_FIRST_VALUE))
        self.mean = tuple(x.copy() for x in self.network)
        self.adam = Adam(self.settings.rate)
        self.replay = Replay(self.settings.capacity, OBSERVED, actions, self.settings.alpha)

    def add(self, rows: Transitions) -> None:
        """Keep transitions."""
        self.replay.add(rows)

    def learn(self, updates: int, progress: float) -> float:
        """Update the network; `progress`, from 0 to 1, is how far the training has come.

        Returns the mean absolute error of the values; nan while too little is known.
        """
        if self.replay.count < self.settings.warm:
            return float("nan")
        progress = min(max(progress, 0.0), 1.0)
        self.adam.rate = self.settings.rate * (0.03 + 0.97 * (1 + np.cos(np.pi * progress)) / 2)
        beta = self.settings.beta + (1 - self.settings.beta) * progress
        total = 0.0
        for _ in range(updates):
            places, rows, weights = self.replay.draw(self.settings.batch, beta, self.random)
            errors = self._update(rows, weights)
            self.replay.tell(places, errors)
            total += float(np.abs(errors).mean())
        return total / max(updates, 1)

    def _update(self, rows: Transitions, weights: Floats) -> Floats:
        inputs = policy_inputs(rows.seen)
        values = outputs(self.network, inputs)
        at = np.arange(len(rows)), rows.actions
        errors: Floats = (values[at] - self._targets(rows)).astype(np.float32)
        slopes = np.zeros_like(values)
        slopes[at] = np.clip(errors, -1, 1) * weights / len(rows)  # Huber's loss
        self.network = self.adam.step(self.network, gradients(self.network, inputs, slopes))
        # The first networks would stay in the mean for long.
        weight = np.float32(max(self.settings.mean, 1 / (1 + self.adam.count)))
        for kept, new in zip(self.mean, self.network, strict=True):
            kept += weight * (new - kept)
        return errors

    def _targets(self, rows: Transitions) -> Floats:
        inputs = policy_inputs(rows.after)
        old = outputs(self.mean, inputs)
        judged = outputs(self.network, inputs) if self.settings.double else old
        best = np.where(rows.masks, judged, -np.inf).argmax(axis=1)
        later = np.minimum(old[np.arange(len(rows)), best], 0) - rows.prices
        found: Floats = np.maximum(rows.floors, later)
        return found

    @property
    def steady(self) -> Network:
        """The running mean as it is now."""
        return tuple(x.copy() for x in self.mean)

    def restart(self, network: Network) -> None:
        """Go on from a network, without what is in the replay."""
        given = self.settings
        self.network, self.mean = network, tuple(x.copy() for x in network)
        self.replay = Replay(given.capacity, OBSERVED, len(network[-1]), given.alpha)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: networks and moments. Replay fills again in a few rounds."""
        first, second = self.adam.state
        groups = {"q": self.network, "o": self.mean, "f": first, "s": second}
        found = {f"{k}{at}": x for k, group in groups.items() for at, x in enumerate(group)}
        return found | {"updates": np.array(self.adam.count)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""

        def group(letter: str) -> Network:
            found = tuple(state[f"{letter}{at}"] for at in range(len(self.network)))
            if any(x.shape != y.shape for x, y in zip(found, self.network, strict=True)):
                raise ValueError("networks of other sizes")
            if not all(np.isfinite(x).all() for x in found):
                raise ValueError("networks with numbers that are not finite")
            return found

        self.network, self.mean = group("q"), group("o")
        if "f0" in state:
            self.adam.restore(int(state["updates"]), group("f"), group("s"))
