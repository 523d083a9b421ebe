"""Twenty contractions drawn at random, of odd sizes and ranks 2 to 6, beside equal products."""

from __future__ import annotations

import string

import numpy as np

from benchmarks.contractions import Contraction, mean_and_worst, race_all
from benchmarks.measure import Bar, Outcome, Setting

__all__ = ["draw", "run"]

COUNT = 20
QUICK_COUNT = 6
RANKS = (2, 6)
BUNDLE = (65, 900)  # about how many elements M, N and K have


def draw(rng: np.random.Generator) -> Contraction:
    """One contraction: every extent is odd, the indices of each array lie in any order."""
    while True:
        counts = [int(c) for c in rng.integers(1, 5, 3)]  # loops of i, j and p
        i, j, p = counts
        if all(RANKS[0] <= rank <= RANKS[1] for rank in (i + p, j + p, i + j)):
            break
    letters = iter(rng.permutation(list(string.ascii_lowercase)))
    dims: dict[str, int] = {}
    bundles = []
    for count in counts:
        names = [str(next(letters)) for _ in range(count)]
        dims |= dict(zip(names, _odd_extents(count, rng), strict=True))
        bundles.append(names)
    i_names, j_names, p_names = bundles
    arrays = (i_names + p_names, j_names + p_names, i_names + j_names)
    left, right, out = ("".join(map(str, rng.permutation(names))) for names in arrays)
    return Contraction(f"{left},{right}->{out}", dims)


def _odd_extents(count: int, rng: np.random.Generator) -> list[int]:
    """Odd numbers whose product is about what a bundle may have."""
    left = float(np.exp(rng.uniform(*np.log(BUNDLE))))
    extents = []
    for remaining in range(count, 0, -1):
        share = left ** (1 / remaining) * (rng.uniform(0.7, 1.4) if remaining > 1 else 1.0)
        extents.append(max(3, 2 * round((share - 1) / 2) + 1))
        left = max(3.0, left / extents[-1])
    return extents


def run(setting: Setting) -> Outcome:
    """Draw and race."""
    print(f"seed {setting.seed}")
    rng = np.random.default_rng(setting.seed)
    drawn = [draw(rng) for _ in range(QUICK_COUNT if setting.quick else COUNT)]
    rows = race_all(drawn, setting)
    mean, worst = mean_and_worst(rows, "gemm")
    bars = (
        Bar("speed of an equal product, geometric mean", mean, 0.95),
        Bar("speed of an equal product, worst", worst, 0.80),
    )
    return Outcome(rows, bars)
