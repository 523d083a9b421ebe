"""The race of PolyBench's shapes as C text: who is raced, under which rules, and its bars."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.measure import Setting

from benchmarks import polybench_text

BEST = {
    "gcc": 0.4,
    "gcc, our flags": 0.5,
    "polly": 0.3,
    "cc": 0.2,
    "cc, 2 threads": 0.1,
    "jit": 0.6,
}


def test_both_rules_are_raced_against_the_best_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    rules: list[bool] = []

    def measured(kernel: Any, size: str, setting: Setting, *flags: str, limit: float) -> Any:
        rules.append(setting.reassoc)
        remarks = ["cc: no"] if setting.reassoc else []
        return {"best": BEST, "seconds": {}, "compile_seconds": {}, "remarks": remarks}

    monkeypatch.setattr(polybench_text, "measured", measured)
    outcome = polybench_text.run(Setting(kernels=("atax",)))
    assert rules == [False, True]
    assert [row["cc_times_best"] for row in outcome.rows] == pytest.approx([1.5, 1.5])
    assert outcome.rows[0]["jit_times_best"] == pytest.approx(0.5)
    strict, regrouped, failed = outcome.bars
    assert strict.holds
    assert regrouped.holds
    assert failed.measured == 1
    assert len(polybench_text.run(Setting(kernels=("atax",), reassoc=True)).rows) == 1
