"""Random graphs, and what paths in them are by brute force: walks grown edge by edge."""

from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
PLUS = {"min": np.minimum, "max": np.maximum, "or": np.logical_or}
TIMES = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}

# Name of the problem: plus, times, no edge, the empty path.
PROBLEMS: dict[str, tuple[str, str, float, float]] = {
    "shortest": ("min", "add", np.inf, 0.0),
    "longest": ("max", "add", -np.inf, 0.0),
    "widest": ("max", "min", -np.inf, np.inf),
    "minimax": ("min", "max", np.inf, -np.inf),
    "most_reliable": ("max", "mul", 0.0, 1.0),
    "least_reliable": ("min", "mul", np.inf, 1.0),
}


def random_weights(problem: str, n: int, density: float, seed: int) -> Array:
    """Small whole numbers or halves (all arithmetic is exact), zeros and self-loops among them.

    Unbounded problems get acyclic graphs, but for self-loops that improve nothing.
    """
    rng = np.random.default_rng(seed)
    _, times, absent, one = PROBLEMS[problem]
    if times == "mul":
        weights = rng.choice([0.5, 1.0, 0.25], (n, n), p=[0.4, 0.4, 0.2])
    elif problem in ("shortest", "longest"):
        weights = rng.integers(0, 6, (n, n)).astype(float)
    else:
        weights = rng.integers(-5, 6, (n, n)).astype(float)
    kept = rng.random((n, n)) < density
    if problem in ("longest", "least_reliable"):
        kept = np.triu(kept, 1)
        order = rng.permutation(n)
        kept, weights = kept[np.ix_(order, order)], weights[np.ix_(order, order)]
    weights = np.where(kept, weights, absent)
    if problem in ("longest", "least_reliable") and n:
        weights[0, 0] = one
    return weights


def best_walks(
    weights: Array, plus: str, times: str, absent: float, one: float, edges: int
) -> Array:
    """The best walks of at most `edges` edges, one edge more at a time."""
    n = len(weights)
    best = np.full((n, n), absent)
    np.fill_diagonal(best, one)
    is_edge = weights != absent
    for _ in range(edges):
        after = best.copy()
        for k in range(n):
            there = (best[:, k : k + 1] != absent) & is_edge[k]
            with np.errstate(invalid="ignore"):
                value = TIMES[times](best[:, k : k + 1], weights[k])
            after = np.where(there, PLUS[plus](after, value), after)
        if np.array_equal(after, best):
            break
        best = after
    return best


def brute_force(problem: str, weights: Array, edges: int | None = None) -> Array:
    """The values of best paths."""
    plus, times, absent, one = PROBLEMS[problem]
    most = max(len(weights) - 1, 0) if edges is None else edges
    return best_walks(weights, plus, times, absent, one, most)


def value_of_path(problem: str, weights: Array, path: list[int]) -> float:
    """The product of the edges of a path, taken from its start; all of them have to be there."""
    _, times, absent, one = PROBLEMS[problem]
    value = one
    for i, j in pairwise(path):
        assert weights[i, j] != absent, f"no edge from {i} to {j}"
        value = float(TIMES[times](value, weights[i, j]))
    return value
