"""What measurements teach about the closed-form cost: log2 of measured over predicted time.

A small network sees the counts of the closed form (`tree_features.tree_row`). It is fitted on trees
that were measured, those that a policy likes among them: a policy finds the trees of which a model
thinks too well.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, log2
from typing import Any

import numpy as np

from loopwright.ir.machine import Machine
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.network import Adam, Floats, Network, gradients, new_network, outputs
from loopwright.tuning.tree_evaluator import Evaluate
from loopwright.tuning.tree_features import TREE_COLUMNS, tree_row

__all__ = ["NUMBERS", "CorrectedCost", "Samples", "fit_correction"]

NUMBERS = len(TREE_COLUMNS)  # that the network sees
_HIDDEN = (64, 32)
_LEAST_UPDATES = 1500
_MOST = 2.0  # octaves of a correction: beyond lies no measured tree


class Samples:
    """Measured trees: what the correction sees, and what it should have said."""

    def __init__(self) -> None:
        self.inputs: list[Floats] = []
        self.octaves: list[float] = []  # log2(measured / predicted)
        self.keys: set[bytes] = set()

    def add(self, tree: LoopTree, predicted: float, measured: float, machine: Machine) -> None:
        """Keep one tree; one whose time is no number is left out, and one that is known."""
        if not (isfinite(measured) and isfinite(predicted) and min(measured, predicted) > 0):
            return
        row = tree_row(tree, machine)
        key = row.tobytes()
        if key not in self.keys:
            self.keys.add(key)
            self.inputs.append(row)
            self.octaves.append(log2(measured / predicted))

    def __len__(self) -> int:
        return len(self.octaves)


class CorrectedCost:
    """An evaluator: the closed form times 2 to what the network says."""

    def __init__(self, predict: Evaluate, network: Network | None, machine: Machine) -> None:
        self.predict, self.network, self.machine = predict, network, machine

    def __call__(self, tree: LoopTree) -> float:
        predicted = self.predict(tree)
        if self.network is None or predicted == inf:
            return predicted
        row = tree_row(tree, self.machine)
        octaves = float(outputs(self.network, row[None])[0, 0])
        return float(predicted * 2.0 ** max(-_MOST, min(_MOST, octaves)))


def fit_correction(samples: Samples, seed: int = 0, epochs: int = 60) -> tuple[Network, Any]:
    """A network, and its error on a tenth of the samples that it was not fitted on, in octaves.

    The second result is (error of the closed form alone, error with the correction), both as the
    root of the mean square about the mean: a factor common to all trees ranks none of them.
    """
    random = np.random.default_rng(seed)
    rows = np.stack(samples.inputs)
    mean, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-3
    inputs = ((rows - mean) / scale).astype(np.float32)
    wanted = np.clip(np.array(samples.octaves, np.float32), -_MOST, _MOST)
    order = random.permutation(len(wanted))
    held, kept = order[: max(1, len(order) // 10)], order[max(1, len(order) // 10) :]
    network = new_network((NUMBERS, *_HIDDEN, 1), random)
    adam = Adam(1e-3)
    epochs = max(epochs, _LEAST_UPDATES * 64 // len(samples))
    for epoch in range(epochs):
        adam.rate = 1e-3 * (1 - epoch / epochs) + 1e-5
        for first in range(0, len(kept), 64):
            at = kept[first : first + 64]
            error = outputs(network, inputs[at])[:, 0] - wanted[at]
            slopes = (np.clip(error, -1, 1) / len(at))[:, None].astype(np.float32)
            decayed = _plus_decay(network, gradients(network, inputs[at], slopes))
            network = adam.step(network, decayed)
        kept = kept[random.permutation(len(kept))]
    left = wanted[held] - outputs(network, inputs[held])[:, 0]
    return _on_raw_rows(network, mean, scale), (_spread(wanted[held]), _spread(left))


def _on_raw_rows(network: Network, mean: Floats, scale: Floats) -> Network:
    """The network of rows that are not standardised: mean and scale go into its first layer."""
    first = (network[0] / scale[:, None]).astype(np.float32)
    return (first, (network[1] - mean @ first).astype(np.float32), *network[2:])


def _plus_decay(network: Network, slopes: Sequence[Floats], decay: float = 1e-4) -> list[Floats]:
    return [g + np.float32(decay) * w for g, w in zip(slopes, network, strict=True)]


def _spread(octaves: Any) -> float:
    return float(np.sqrt(np.mean((octaves - np.mean(octaves)) ** 2)))
