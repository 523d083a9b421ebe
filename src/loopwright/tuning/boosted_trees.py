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
from loopwright.memo import BoundedCache

__all__ = ["BINS", "BoostedTrees", "Boosting", "fit_trees", "predictions"]

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
        return self.base + self.leaf_values(samples).sum(axis=1).astype(np.float64)

    def leaf_values(self, samples: Matrix) -> Matrix:
        """Of each row of `samples`, the leaf it comes to in every tree: float32 [rows, trees]."""
        rows = np.atleast_2d(np.asarray(samples, np.float32))
        trees, inner = self.columns.shape
        # Arrays are read as one row each: places are then single numbers, which take less time.
        first = np.arange(trees) * inner
        begin = (np.arange(len(rows)) * rows.shape[1])[:, None]
        columns, limits = self.columns.reshape(-1), self.limits.reshape(-1)
        values = rows.reshape(-1)
        # With `place` the number of a node among those of all trees, and `first` that of its root,
        # its children are 2 * place - first + 1 and the next one.
        to_left = 1 - first
        place = np.repeat(first[None], len(rows), axis=0)
        for _ in range(self.depth):
            is_right = values.take(begin + columns.take(place)) > limits.take(place)
            place += place
            place += to_left
            place += is_right
        # A tree has one leaf more than it has nodes, and leaves are numbered after those.
        return self.leaves.reshape(-1).take(place + (np.arange(trees) - inner))


def predictions(members: tuple[BoostedTrees, ...], samples: Matrix) -> Matrix:
    """What each of several sets of trees predicts, [members, rows]: all of them in one pass."""
    shape = members[0].leaves.shape
    if any(member.leaves.shape != shape for member in members):
        return np.stack([member.predict(samples) for member in members])
    known = _joined.get(id(members))
    if known is None:
        columns = np.concatenate([member.columns for member in members])
        limits = np.concatenate([member.limits for member in members])
        leaves = np.concatenate([member.leaves for member in members])
        joined = BoostedTrees(columns, limits, leaves, 0.0, members[0].width)
        known = _joined[id(members)] = joined, members
    values = known[0].leaf_values(samples)
    sums = values.reshape(len(values), len(members), shape[0]).sum(axis=2)
    bases = np.array([member.base for member in members])
    return (bases + sums.astype(np.float64)).T


# By identity; the second item keeps alive what the key names.
_joined: BoundedCache[int, tuple[BoostedTrees, Any]] = BoundedCache(16)


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
