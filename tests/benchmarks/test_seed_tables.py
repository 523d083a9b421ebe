"""The dissertation's tables: contestants agree, intervals are right, a run can be taken up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.measure import WrongResultError
from benchmarks.seed_tables.contestants import PAIRS, contestants, installed_names
from benchmarks.seed_tables.printed import BOUNDS, SHARES, SIZES, TIMES_4_16, squarings

from benchmarks import seed_tables
from drawn import HUNTS, combined


@pytest.mark.parametrize(("name", "dtype"), combined(PAIRS, seed_tables.TYPES, one_in=12))
def test_contestants_agree_with_numpy(name: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(0.5, 1.5, (19, 19)).astype(dtype) for _ in range(2))
    names = [who for who in installed_names() if HUNTS or "polly" not in who.lower()]
    for who, call in contestants(PAIRS[name], a, b, tuple(names)).items():
        seed_tables._check(PAIRS[name], who, call(), a, b)
        with pytest.raises(WrongResultError, match="differs in row 0"):
            seed_tables._check(PAIRS[name], who, call() + 1, a, b)
    assert np.array(5e-324) * 1.0 > 0.0  # code of others leaves subnormal numbers alone


def test_every_row_is_printed() -> None:
    for key in SHARES:
        assert key[0] in PAIRS
        assert all(len(shares) == len(SIZES) for shares in SHARES[key].values())
    assert len(SHARES) == len(BOUNDS) == len(PAIRS) * len(seed_tables.TYPES)
    # Shares and times of the print agree: products of 2 n^3 operations, so many in a problem.
    share, seconds = SHARES["[+,max]", "float64"]["AOTO"][3], 110.27
    assert math.isclose(
        squarings(4000) * 2 * 4000**3 / (share / 100 * 15.2e9), seconds, rel_tol=0.01
    )
    assert set(TIMES_4_16) == set(seed_tables.FIGURE_PAIRS)
