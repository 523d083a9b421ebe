"""Gradient-boosted regression trees in NumPy: many small trees, each fitted to what is left.

Columns are cut into at most BINS parts of equal counts, so that a split is found by histograms
(Ke et al., LightGBM, 2017). A tree grows level by level to a fixed depth; a node is split where the
squared error falls most, and leaves are shrunk towards 0 by `ridge`:

    gain(split) = L^2/(n_l + ridge) + R^2/(n_r + ridge) - (L + R)^2/(n + ridge)

with L, R the sums of residuals on both sides. All choices follow from the data and the seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright.lazy_dataclass import dataclass

__all__ = ["BINS", "BoostedTrees", "Boosting", "fit_trees"]

Matrix = Any  # np.ndarray of two dimensions
Vector = Any  # np.ndarray of one dimension
BINS = 64


@dataclass(frozen=True, slots=True)
class Boosting:
    """How trees are fitted."""

    trees: int = 300
    depth: int = 5
    rate: float = 0.08  # of what a tree explains that is taken
    ridge: float = 4.0
    rows: float = 0.7  # share of samples that a tree sees
    columns: float = 0.5  # share of columns that a tree may split by
    least: int = 8  # samples of a leaf


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """Complete binary trees of one depth, in arrays: node k has children 2k + 1 and 2k + 2.

    A sample goes right where its column is above the limit. Nodes that are not split have the
    limit +inf, so that all samples go left.
    """

    columns: Matrix  # int32 [trees, 2^depth - 1]
    limits: Matrix  # float32, likewise
    leaves: Matrix  # float32 [trees, 2^depth]
    base: float  # the mean of the target
    width: int  # columns of a sample

    @property
    def depth(self) -> int:
        return int(self.leaves.shape[1]).bit_length() - 1

    def predict(self, samples: Matrix) -> Vector:
        """The value of each row of `samples`."""
        rows = np.atleast_2d(np.asarray(samples, np.float32))
        total = np.full(len(rows), self.base, np.float64)
        here = np.zeros((len(rows), len(self.leaves)), np.int64)
        number = np.arange(len(self.leaves))
        picked = np.arange(len(rows))[:, None]
        for _ in range(self.depth):
            column = self.columns[number, here]
            here = 2 * here + 1 + (rows[picked, column] > self.limits[number, here])
        return total + self.leaves[number, here - (self.leaves.shape[1] - 1)].sum(axis=1)


def fit_trees(
    samples: Matrix, target: Vector, seed: int = 0, how: Boosting | None = None
) -> BoostedTrees:
    """Trees for a target, from rows of samples."""
    how = how or Boosting()
    random = np.random.default_rng(seed)
    samples = np.asarray(samples, np.float32)
    count, width = samples.shape
    edges = [_edges(samples[:, k]) for k in range(width)]
    binned = np.stack(
        [np.searchsorted(edges[k], samples[:, k], side="left") for k in range(width)]
    ).astype(np.uint8)
    usable = np.array([k for k in range(width) if len(edges[k])], np.int64)
    base = float(target.mean())
    left = np.asarray(target, np.float64) - base
    inner = 2**how.depth - 1
    columns = np.zeros((how.trees, inner), np.int32)
    limits = np.full((how.trees, inner), np.inf, np.float32)
    leaves = np.zeros((how.trees, inner + 1), np.float32)
    for number in range(how.trees):
        rows = np.flatnonzero(random.random(count) < how.rows)
        if not len(usable) or not len(rows):
            break
        most = max(1, round(how.columns * len(usable)))
        among = np.sort(random.choice(usable, most, replace=False))
        splits = _grown(binned[among][:, rows], left[rows], how)
        where = np.zeros(count, np.int64)
        for node, (at, cut) in sorted(splits.items()):
            column = among[at]
            columns[number, node] = column
            limits[number, node] = edges[column][cut]
            inside = where == node
            where[inside] = 2 * node + 1 + (binned[column, inside] > cut)
            # Nodes that are not split send their samples left, level by level.
        where = _to_leaves(where, inner)
        sums = np.bincount(where[rows], left[rows], inner + 1)
        sizes = np.bincount(where[rows], minlength=inner + 1)
        leaves[number] = how.rate * sums / (sizes + how.ridge)
        left -= leaves[number][where]
    return BoostedTrees(columns, limits, leaves, base, width)


def _edges(column: Vector) -> Vector:
    """Values between which a column is cut: at most BINS - 1, all of them different."""
    values = np.unique(column)
    if len(values) < 2:
        return values[:0]
    if len(values) > BINS:
        values = np.unique(np.quantile(column, np.linspace(0, 1, BINS), method="nearest"))
    return values[:-1]


def _to_leaves(where: Vector, inner: int) -> Vector:
    """Numbers of leaves, from the nodes at which samples stopped."""
    while (inside := where < inner).any():
        where = np.where(inside, 2 * where + 1, where)
    return where - inner


def _grown(binned: Matrix, left: Vector, how: Boosting) -> dict[int, tuple[int, int]]:
    """The splits of one tree: node -> row of `binned` and the last bin that goes left."""
    columns, count = binned.shape
    node = np.zeros(count, np.int64)
    found: dict[int, tuple[int, int]] = {}
    for level in range(how.depth):
        first, nodes = 2**level - 1, 2**level
        local = node - first
        is_here = local >= 0
        keys = local[is_here] * BINS
        cells = nodes * BINS
        sums = np.empty((columns, nodes, BINS))
        sizes = np.empty((columns, nodes, BINS))
        weights = left[is_here]
        for k in range(columns):
            at = keys + binned[k, is_here]
            sums[k] = np.bincount(at, weights, cells).reshape(nodes, BINS)
            sizes[k] = np.bincount(at, minlength=cells).reshape(nodes, BINS)
        low, n_low = sums.cumsum(axis=2)[:, :, :-1], sizes.cumsum(axis=2)[:, :, :-1]
        total, n = sums.sum(axis=2)[:, :, None], sizes.sum(axis=2)[:, :, None]
        gain = low**2 / (n_low + how.ridge) + (total - low) ** 2 / (n - n_low + how.ridge)
        gain -= total**2 / (n + how.ridge)
        gain[(n_low < how.least) | (n - n_low < how.least)] = 0.0
        for k in range(nodes):
            best = int(gain[:, k].argmax())
            column, cut = divmod(best, BINS - 1)
            if gain[column, k, cut] > 1e-12:
                found[first + k] = column, cut
                inside = node == first + k
                node[inside] = 2 * (first + k) + 1 + (binned[column, inside] > cut)
    return found
