"""The benchmark of tuned plans: sets are the same for a seed, results are read again, bars."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from benchmarks.tuning import gains

from loopwright.transform.loop_marks import Unroll
from loopwright.transform.plan import Plan


def row(group: str, ratio: float, name: str = "x") -> dict[str, Any]:
    plan = Plan((Unroll("i", 2),)).to_json() if ratio != 1 else Plan(()).to_json()
    return {
        "set": group,
        "subject": name,
        "ratio": ratio,
        "plan": plan,
        "construction": Plan(()).to_json(),
    }


def test_bars_tell_the_worst_and_the_second_set() -> None:
    rows = [row("a", 1.0), row("a", 1.44), row("b", 1.1), row("c", 0.98)]
    worst, second = gains.bars(rows)
    assert worst.measured == 0.98
    assert not worst.holds
    assert math.isclose(second.measured, 1.1)
    assert gains.bars([]) == ()
    first, *_ = gains.summary(rows)
    assert first.startswith("a: geometric mean 1.200 (95%: 1.000 to 1.440), worst 1.000")
    assert first.endswith("2 subjects, 1 keep the construction")


def test_a_part_goes_on_where_the_last_one_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def fake(subject: Any, task: Any, construction: Plan, asked: Any) -> dict[str, Any]:
        measured.append(subject.name)
        facts = {"budget": asked.budget, "cold": False, "tried": 1, "found": 1.0}
        own = {"construction": construction.to_json(), "base_seconds": 1.0}
        return row(subject.group, 1.0, subject.name) | facts | own

    monkeypatch.setattr(gains, "_measured", fake)
    path = tmp_path / "gains.jsonl"
    asked = gains.Asked(("odd",), count=2, each=3, results=path)
    assert len(gains.measure(asked)) == 2
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"set": "odd"})[:5] + "\n")
    assert len(gains.measure(asked)) == 3
    assert len(measured) == len(set(measured)) == 3
