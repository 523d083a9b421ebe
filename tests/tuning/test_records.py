"""The log of measured plans: damaged lines, several writers, history's best, export and import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from loopwright.diagnostics import UsageError
from loopwright.tuning.records import Key, Log, Record

KEY = Key("ik,kj->ij", "here", (8, 8, 8), 1, "float64")


def plan_data(rows: int = 4) -> dict[str, object]:
    a = np.ones((16, 16))
    plan = lw.einsum_plan("ik,kj->ij", a, a, threads=1).to_json()
    plan["steps"][0]["variants"][0]["rows"] = rows
    return dict(plan)


def record(seconds: float = 1.0, *, rows: int = 4, faster: bool = True) -> Record:
    when = "2026-11-16T00:00:00Z"
    return Record(KEY, plan_data(rows), plan_data(), seconds, 2.0, faster, when)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "data" / "tuning.jsonl")


def test_a_record_comes_back_as_it_was_written(log: Log) -> None:
    assert log.is_empty()
    assert log.best(KEY) is None
    assert log.add([record()])
    assert Log(log.path).of(KEY) == (record(),)
    assert record().gain == 2.0


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '"text"',
        "[" * 100_000,
        json.dumps(record().to_json() | {"format": 2}),
        json.dumps(record().to_json() | {"seconds": float("nan")}),
        json.dumps(record().to_json() | {"seconds": -1.0}),
        json.dumps(record().to_json() | {"sizes": [True]}),
        json.dumps({k: v for k, v in record().to_json().items() if k != "plan"}),
        "\udcff\x00",
    ],
)
def test_damaged_lines_are_passed_over_and_counted(log: Log, line: str) -> None:
    log.add([record(0.5)])
    with log.path.open("ab") as file:
        file.write(line.encode("utf-8", errors="surrogateescape") + b"\n")
    log.add([record(0.25)])
    assert [found.seconds for found in log] == [0.5, 0.25]
    assert log.damaged == 1


def test_several_processes_write_at_once(log: Log) -> None:
    program = """
import json, sys
from pathlib import Path
from loopwright.tuning.records import Log, Record
log, made = Log(Path(sys.argv[1])), Record.from_json(json.loads(sys.argv[2]))
for _ in range(100):
    assert log.add([made])
"""
    text = json.dumps(record().to_json() | {"program": "x" * 5000})
    command = [sys.executable, "-c", program, str(log.path), text]
    writers = [subprocess.Popen(command) for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert len(list(log)) == 200
    assert log.damaged == 0


def test_exported_records_are_taken_once_and_checked(log: Log, tmp_path: Path) -> None:
    log.add([record(0.5), record(0.25, rows=2)])
    other = Log(tmp_path / "other.jsonl")
    bad = json.dumps(record().to_json() | {"plan": {"version": 3, "steps": [{"kind": "fly"}]}})
    assert other.take(log.export() + bad + "\n{\n") == (2, 2)
    assert list(other) == list(log)
    assert other.take(log.export()) == (0, 0)


def test_records_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    log = Log(tmp_path / "file" / "tuning.jsonl")
    assert not log.add([record()])
    with pytest.raises(UsageError, match="the records cannot be written"):
        log.take(json.dumps(record().to_json()))
