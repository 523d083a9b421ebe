"""The evaluation of tuning: its shapes, its file that can be resumed, its numbers and pictures."""

from __future__ import annotations

import gzip
import json
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from benchmarks.measure import WrongResultError
from benchmarks.tuning.evaluation import (
    attempt_row,
    missing_attempts,
    run_part,
)
from benchmarks.tuning.judge import judged_row
from benchmarks.tuning.peers import installed_peers
from benchmarks.tuning.results import (
    append_row,
    attempts_of,
    judged_of,
    merge_files,
    read_rows,
)
from benchmarks.tuning.shapes import (
    Convolution,
    Shape,
    shapes_of,
)

SMALL = Shape("small", "mk,kn->mn", (("m", 8), ("n", 16), ("k", 8)))


# -- attempts -------------------------------------------------------------------------------------


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks of attempts that go on by a millisecond where they are read, and at no other time."""
    moments = count()

    def tick() -> float:
        return next(moments) * 1e-3

    monkeypatch.setattr("benchmarks.tuning.contestants.clocks_of", lambda shape: (tick, tick))


def test_what_is_missing_is_run_and_the_file_is_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ticks: None
) -> None:
    file = tmp_path / "rows.jsonl"
    shapes = shapes_of("odd")[:2]
    names = ["naive", "rule", "random"]
    todo = missing_attempts(file, "odd", shapes, names, (0.05, 0.1))
    assert len(todo) == 8  # naive and rule once, random with both budgets
    assert [t[1].name for t in todo] == [shapes[0].name] * 4 + [shapes[1].name] * 4
    run_part(file, [t for t in todo if t[2] != "random"])
    with file.open("a") as out:
        out.write('{"set": "odd", "sha')  # broken off
    assert {t[2] for t in missing_attempts(file, "odd", shapes, names, (0.1,))} == {"random"}
    append_row(file, attempt_row("odd", shapes[0], "random", 0.1, ()))
    left = missing_attempts(file, "odd", shapes, names, (0.1,))
    assert [(t[1].name, t[2]) for t in left] == [(shapes[1].name, "random")]
    run_part(file, left, end=time.monotonic())  # nothing fits
    assert missing_attempts(file, "odd", shapes, names, (0.1,)) == left
    assert "4 of 4" in capsys.readouterr().out


# -- the judge ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [SMALL, Convolution(2, 4, 8, 3)])
def test_the_judge_looks_at_results(shape: Shape | Convolution) -> None:
    def wrong(shape: Any, arrays: Any) -> Any:
        return lambda: 1e-9

    row = judged_row("odd", shape, {}, {"liar": wrong, **installed_peers(["numpy"])}, 1e9, rounds=2)
    assert set(row["times"]) == {"construction", "numpy"}
    assert row["refused"]["liar"].startswith(WrongResultError.__name__)


# -- what the lines say ---------------------------------------------------------------------------


def rows_of(shape: str, times: dict[str, float]) -> list[dict[str, Any]]:
    attempts = [
        {
            "kind": "attempt",
            "set": "odd",
            "shape": shape,
            "who": label.partition(" ")[0],
            "budget": float(label.split()[1]) if " " in label else 0.0,
            "spent": 40.0 if "60" in label else 0.001,
            "measurements": 4,
            "tree": None,
            "trace": [[0.1, 2 * seconds], [0.5, seconds]] if " " in label else [],
            "depths": [[0, 2 * seconds, 0.1], [2, seconds, 0.5]] if " " in label else [],
        }
        for label, seconds in times.items()
        if label not in ("construction", "numpy")
    ]
    judged = {
        "kind": "judged", "set": "odd", "shape": shape, "operations": 10**6, "peak": 1e10,
        "times": times, "refused": {}, "noise": [0.001, 0.02], "machine": "m",
    }  # fmt: skip
    return [*attempts, judged]


LABELS = ("naive", "random 1 s", "random 60 s", "policy", "construction", "numpy")
ROWS = [
    *rows_of("a", dict(zip(LABELS, (8e-4, 4e-4, 3e-4, 2.9e-4, 2e-4, 3e-4), strict=True))),
    *rows_of("b", dict(zip(LABELS, (8e-4, 2e-4, 1e-4, 2e-4, 2e-4, 2e-4), strict=True))),
]
JUDGED, ATTEMPTS = judged_of(ROWS, "odd"), attempts_of(ROWS, "odd")


def test_rows_of_a_file_are_checked_and_files_merged(tmp_path: Path) -> None:
    file, other = tmp_path / "rows", tmp_path / "other"
    file.write_text("\n".join(["[1]", json.dumps(ROWS[0]), "{", '{"kind": "attempt"}']))
    assert read_rows(file) == [ROWS[0]]
    for row in ROWS[:3]:
        append_row(other, row)
    assert merge_files(file, [other]) == 2
    assert read_rows(file) == ROWS[:3]
    assert merge_files(file, [other]) == 0
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(other.read_bytes()))
    assert read_rows(packed) == ROWS[:3]
