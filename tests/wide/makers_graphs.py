"""Inputs of graphs: lengths of edges, and which edges there are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kernels.inputs import Maker, Rng, Values
from kernels.manifest import Kernel

__all__ = ["MAKERS"]


def _lengths(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Integers from 1 to 99 in every array."""
    return {array.name: rng.integers(1, 100, array.extents(sizes)) for array in kernel.arrays}


def _edges(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """1 in a tenth of the places of every array, 0 elsewhere."""
    return {array.name: rng.random(array.extents(sizes)) < 0.1 for array in kernel.arrays}


def _far(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Lengths from 1 to 99, and one place at distance 0 from which the others are far."""
    d = np.full(sizes["n"], 10_000)
    d[0] = 0
    return {"w": rng.integers(1, 100, (sizes["n"], sizes["n"])), "d": d}


def _labels(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Few edges, and labels from 1 in any order."""
    n = sizes["n"]
    return {"adj": rng.random((n, n)) < 2 / n, "even": 1 + rng.permutation(n)}


MAKERS: dict[str, Maker] = {
    "lengths": _lengths,
    "edges": _edges,
    "far": _far,
    "labels": _labels,
}
