"""A contraction raced against the matrix product of equal size and against other einsums."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.measure import (
    Setting,
    Table,
    check_close,
    geometric_mean,
    race,
    ratios,
    seconds_by_name,
)
from benchmarks.peers import torch_module

__all__ = ["Contraction", "mean_and_worst", "race_all"]

COLUMNS = (
    ("contraction", "24s"),
    ("M", "5d"),
    ("N", "5d"),
    ("K", "5d"),
    ("GFlop/s", "8.2f"),
    ("times gemm", "8.3f"),
    ("times numpy.einsum", "8.3f"),
    ("times torch.einsum", "8.3f"),
)
PEERS = ("gemm", "numpy.einsum", "torch.einsum")


@dataclass(frozen=True, slots=True)
class Contraction:
    """Two operands that share the indices summed over."""

    subscripts: str
    dims: dict[str, int]

    @property
    def terms(self) -> tuple[str, str, str]:
        """Indices of the operands and of the result."""
        inputs, _, out = self.subscripts.partition("->")
        left, _, right = inputs.partition(",")
        return left, right, out

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N and K of the matrix product with as many elements and operations."""
        left, right, out = self.terms
        bundles = set(left) & set(out), set(right) & set(out), set(left) & set(right)
        m, n, k = (math.prod(self.dims[c] for c in bundle) for bundle in bundles)
        return m, n, k

    def operands(self, rng: np.random.Generator) -> tuple[Any, Any]:
        left, right, _ = self.terms
        shapes = ([self.dims[c] for c in term] for term in (left, right))
        first, second = (rng.random(shape) for shape in shapes)
        return first, second


def race_all(contractions: Iterable[Contraction], setting: Setting) -> tuple[dict[str, Any], ...]:
    """Race each of them; print a line each."""
    table = Table(COLUMNS)
    print(table.head())
    rows = []
    rng = np.random.default_rng(setting.seed)
    for contraction in contractions:
        row = _row(contraction, rng, setting)
        rows.append(row)
        shown = [row["speed"].get(peer) for peer in PEERS]
        print(table.row(row["einsum"], *row["sizes"], row["gflops"], *shown), flush=True)
    for words, pick in (("geometric mean", geometric_mean), ("worst", min)):
        shown = [pick(found) if (found := _speeds(rows, peer)) else None for peer in PEERS]
        print(table.row(words, None, None, None, None, *shown), flush=True)
    return tuple(rows)


def mean_and_worst(rows: Iterable[dict[str, Any]], peer: str) -> tuple[float, float]:
    """Geometric mean and smallest of our speed relative to a peer; NaN without the peer."""
    found = _speeds(rows, peer)
    return geometric_mean(found), min(found, default=math.nan)


def _speeds(rows: Iterable[dict[str, Any]], peer: str) -> list[float]:
    return [row["speed"][peer] for row in rows if peer in row["speed"]]


def _row(contraction: Contraction, rng: np.random.Generator, setting: Setting) -> dict[str, Any]:
    a, b = contraction.operands(rng)
    m, n, k = contraction.sizes
    text = contraction.subscripts
    reference = np.einsum(text, a, b, optimize=True)
    # The product works on the same memory, so that neither finds its operands nearer.
    x, y = a.reshape(m, k), b.reshape(k, n)
    runs = {
        "loopwright": lambda: lw.einsum(text, a, b),
        "gemm": lambda: np.dot(x, y),
        "numpy.einsum": lambda: np.einsum(text, a, b, optimize=True),
    }
    torch = torch_module()
    if torch is not None:
        s, t = torch.from_numpy(a), torch.from_numpy(b)
        runs["torch.einsum"] = lambda: torch.einsum(text, s, t)
    for name in runs.keys() - {"gemm"}:
        check_close(runs[name](), reference, k)
    times = race(runs, setting, rounds=3 if setting.quick else 5)
    return {
        "einsum": text,
        "dims": contraction.dims,
        "sizes": [m, n, k],
        "seconds": seconds_by_name(times),
        "gflops": 2e-9 * m * n * k / times["loopwright"].best,
        "speed": ratios(times),
    }
