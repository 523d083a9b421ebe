"""Figures of how the price of schedules ranks plans."""

from __future__ import annotations

import pytest
from benchmarks.measure import Setting
from benchmarks.tuning.plan_ranking import Ranked, pairs_right, rank_correlation, run


def test_ranks() -> None:
    assert rank_correlation([1.0, 2.0, 3.0], [10.0, 20.0, 90.0]) == pytest.approx(1.0)
    assert rank_correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == pytest.approx(-1.0)
    assert rank_correlation([1.0, 2.0], [5.0, 5.0]) == 0.0


def test_pairs() -> None:
    measured = {"source": 1.0, "plan": 0.5, "tiles": 0.51}
    predicted = {"source": 1.0, "plan": 0.6, "tiles": 2.0}
    right, wrong, mistakes = pairs_right([Ranked("p", measured, predicted)])
    assert (right, wrong) == (1, 1)  # plan and tiles are not told apart
    assert mistakes[0][1:4] in {("p", "source", "tiles"), ("p", "plan", "tiles")}


def test_a_program_is_measured() -> None:
    outcome = run(Setting(kernels=("gemm",), size="MINI"))
    (row,) = outcome.rows
    assert row["program"] == "gemm"
    assert {"source", "plan"} <= row["measured"].keys()
