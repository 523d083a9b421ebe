"""Fully connected networks in NumPy: values, gradients, and Adam's updates.

A network is a tuple of float32 arrays, weights and biases in turn; hidden layers are rectified. So
it is hashed, saved and sent to other processes as what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Adam", "Floats", "Network", "gradients", "new_network", "outputs", "sizes_of"]

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
Network: TypeAlias = tuple[Floats, ...]


def new_network(sizes: Sequence[int], random: np.random.Generator) -> Network:
    """Layers of the given sizes, drawn as He and others propose; the last one starts near 0."""
    layers: list[Floats] = []
    for before, after in pairwise(sizes):
        scale = np.sqrt(2 / before)
        if len(layers) == 2 * (len(sizes) - 2):
            scale *= 0.1
        layers.append((scale * random.standard_normal((before, after))).astype(np.float32))
        layers.append(np.zeros(after, np.float32))
    return tuple(layers)


def sizes_of(network: Network) -> tuple[int, ...]:
    """Numbers of its inputs, hidden units and outputs."""
    return (network[0].shape[0], *(bias.shape[0] for bias in network[1::2]))


def outputs(network: Network, inputs: Floats) -> Floats:
    """The values of the last layer for rows of inputs."""
    values = inputs
    for at in range(0, len(network) - 2, 2):
        values = np.maximum(values @ network[at] + network[at + 1], 0)
    return values @ network[-2] + network[-1]


def gradients(network: Network, inputs: Floats, slopes: Floats) -> tuple[Floats, ...]:
    """Derivatives of a loss by every array, given those by the outputs (`slopes`)."""
    kept = [inputs]
    for at in range(0, len(network) - 2, 2):
        kept.append(np.maximum(kept[-1] @ network[at] + network[at + 1], 0))
    found: list[Floats] = []
    for at in range(len(network) - 2, -1, -2):
        values = kept.pop()
        found += [slopes.sum(axis=0), values.T @ slopes]
        if at:
            slopes = (slopes @ network[at].T) * (values > 0)
    return tuple(reversed(found))


class Adam:
    """Adam's steps with gradients cut to a length."""

    def __init__(self, rate: float = 3e-4, most: float = 10.0) -> None:
        self.rate, self._most = rate, most
        self.count = 0
        self._first: list[Floats] = []
        self._second: list[Floats] = []

    def step(self, network: Network, slopes: Sequence[Floats]) -> Network:
        """The network after one step against the gradient; the old one is not changed."""
        if not self._first:
            self._first = [np.zeros_like(x) for x in network]
            self._second = [np.zeros_like(x) for x in network]
        length = float(np.sqrt(sum(float(np.vdot(g, g)) for g in slopes)))
        scale = min(1.0, self._most / (length + 1e-12))
        self.count += 1
        rate = self.rate * np.sqrt(1 - 0.999**self.count) / (1 - 0.9**self.count)
        made = []
        for at, (array, slope) in enumerate(zip(network, slopes, strict=True)):
            first, second = self._first[at], self._second[at]
            first *= 0.9
            first += (0.1 * scale) * slope
            second *= 0.999
            second += (0.001 * scale * scale) * slope * slope
            change = np.float32(rate) * first / (np.sqrt(second) + np.float32(1e-8))
            made.append((array - change).astype(np.float32))
        return tuple(made)

    @property
    def state(self) -> tuple[list[Floats], list[Floats]]:
        """Both moments, for checkpoints."""
        return self._first, self._second

    def restore(self, count: int, first: Sequence[Floats], second: Sequence[Floats]) -> None:
        """Go on from a checkpoint."""
        self.count = count
        self._first = [x.copy() for x in first]
        self._second = [x.copy() for x in second]
