"""How long a closure takes on a grid of ranks: alpha and beta for messages, pairs for kernels.

A step with blocks of b on a rank with m x w elements of the matrix costs

    call + element m w + pair m w b          the update of its part, one rank alone on its cores
    closing b^3                              the square, which the others of its row wait for
    broadcasts of b^2, m b and b w elements along rows, rows and columns

A broadcast of s bytes to p ranks takes the better of a tree, ceil(log2 p) (alpha + beta s), and of
scattering and gathering, ceil(log2 p) alpha + 2 (p - 1) / p beta s (van de Geijn). Within a node
the cores themselves copy, so that messages add to the kernels; between nodes they overlap with
them. Kernels of r ranks on one node of c cores are slower by 1 + contention (min(r, c) - 1), for
what the ranks share, and by r / c where there are more ranks than cores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from loopwright.integrations.mpi.block_layout import BlockLayout, ProcessGrid
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.array_arguments import Array

__all__ = ["KernelTimes", "Link", "NodeModel", "PredictedTime", "fit_kernels", "fit_link"]


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Seconds of the parts of a step on one rank."""

    call: float  # fixed, for each step
    element: float  # to read and write an element of the matrix
    pair: float  # of operators, in a product
    closing: float  # of operators, in the closing of a square

    def step(self, height: int, width: int, block: int) -> float:
        """Seconds of the update of a rank's part by one step."""
        elements = height * width
        return self.call + elements * (self.element + self.pair * block)


@dataclass(frozen=True, slots=True)
class Link:
    """What a message costs between two ranks."""

    alpha: float  # seconds
    beta: float  # seconds for a byte

    def broadcast(self, size: float, ranks: int) -> float:
        """Seconds of a broadcast of so many bytes to so many ranks."""
        if ranks <= 1:
            return 0.0
        rounds = math.ceil(math.log2(ranks))
        tree = rounds * (self.alpha + self.beta * size)
        return min(tree, rounds * self.alpha + 2 * (ranks - 1) / ranks * self.beta * size)


@dataclass(frozen=True, slots=True)
class PredictedTime:
    """Seconds of a closure and of its parts."""

    kernels: float
    closings: float
    messages: float
    total: float  # less than the sum where messages overlap with kernels


@dataclass(frozen=True, slots=True)
class NodeModel:
    """A node and its links: all that a prediction needs."""

    kernels: KernelTimes
    inside: Link  # between ranks of one node
    between: Link  # between nodes
    contention: float  # how much slower each further rank of a node makes the others
    cores: int  # of a node

    def slowdown(self, ranks: int, threads: int = 1) -> float:
        """How much longer kernels take with so many ranks on a node than with one."""
        busy = ranks * threads
        shared = 1 + self.contention * (min(busy, self.cores) - 1)
        return shared * max(1.0, busy / self.cores)

    def closure(
        self, n: int, block: int, grid: ProcessGrid, itemsize: int, per_node: int
    ) -> PredictedTime:
        """Seconds of the closure of n vertices with `per_node` ranks on each node."""
        height, width = BlockLayout.matrix(grid, (n, n), block).local_shape(0)
        steps = -(-n // block)
        slow = self.slowdown(min(per_node, grid.size))
        update = slow * self.kernels.step(height, width, block)
        closing = slow * self.kernels.closing * block**3
        is_one_node = grid.size <= per_node
        link = self.inside if is_one_node else self.between
        crowd = max(1.0, min(per_node, grid.size) / self.cores)
        square = link.broadcast(block * block * itemsize, grid.columns)
        panels = link.broadcast(height * block * itemsize, grid.columns)
        panels += link.broadcast(block * width * itemsize, grid.rows)
        if is_one_node:
            square, panels = square * crowd, panels * crowd
            step = update + closing + square + panels
        else:
            step = max(update, panels) + closing + square
        return PredictedTime(
            steps * update, steps * closing, steps * (square + panels), steps * step
        )


def fit_kernels(runs: Sequence[tuple[int, int, float]]) -> KernelTimes:
    """The times that explain runs (n, block, seconds) on one rank with the least relative error."""
    rows = [(n / b, n / b * n * n, n**3, n * b * b) for n, b, _ in runs]
    call, element, pair, closing = _non_negative(np.array(rows, float), [t for _, _, t in runs])
    return KernelTimes(call, element, pair, closing)


def fit_link(messages: Sequence[tuple[int, float]]) -> Link:
    """The latency and the time of a byte that explain messages (bytes, seconds) between two."""
    rows = [(1.0, float(size)) for size, _ in messages]
    return Link(*_non_negative(np.array(rows), [t for _, t in messages]))


def _non_negative(rows: Array, seconds: Sequence[float]) -> list[float]:
    """The x >= 0 with rows x nearest to some times, errors relative to them (Lawson and Hanson).

    Unknowns that would be negative are left out one after the other, the most negative one first:
    with four unknowns that finds what the full search does, or something as near.
    """
    scaled = rows / np.asarray(seconds)[:, None]
    norms = np.linalg.norm(scaled, axis=0)
    norms[norms == 0] = 1.0
    kept = list(range(rows.shape[1]))
    while kept:
        found = np.linalg.lstsq(scaled[:, kept] / norms[kept], np.ones(len(rows)), rcond=None)[0]
        if found.min() >= 0:
            break
        kept.pop(int(np.argmin(found)))
    result = [0.0] * rows.shape[1]
    for at, value in zip(kept, found if kept else [], strict=True):
        result[at] = float(value / norms[at])
    return result
